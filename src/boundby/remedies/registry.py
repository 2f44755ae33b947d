"""The remedies there are, by name; each is imported when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

from boundby.remedies.contract import RemedyModule
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

# In the order in which equals are shown.
MODULES = {
    "fused-optimizer": "fused_optimizer",
    "bf16-autocast": "bf16_autocast",
    "matmul-precision": "matmul_precision",
    "bf16-weights": "bf16_weights",
    "int8-weights": "int8_weights",
    "sparse-gradients": "sparse_gradients",
    "flush-denormal": "flush_denormal",
    "allocator": "allocator",
    "one-thread": "one_thread",
    "all-threads": "all_threads",
    "batch-x2": "batch_x2",
    "workers-0": "workers_0",
    "workers-2": "workers_2",
    "batched-fetch": "batched_fetch",
    "recompute": "recompute",
    "compile": "torch_compile",
    "fusion": "fusion",
    "sdpa": "sdpa",
    "channels-last": "channels_last",
    "inference-mode": "inference_mode",
    "launch": "launch",
}


def compatible(names: Sequence[str]) -> list[str]:
    """Names that can be applied together: of those in one group, which exclude each other, the first."""
    kept: dict[str, str] = {}
    for name in names:
        kept.setdefault(getattr(remedy_named(name), "GROUP", name), name)
    return list(kept.values())


def remedy_named(name: str) -> RemedyModule:
    """The remedy of that name.

    Raises:
        BoundbyError: ``unknown-remedy``, naming the ones nearest to it.
    """
    module = MODULES.get(name)
    if module is None:
        near = get_close_matches(name, MODULES, n=3)
        known = tr("boundby try --list shows all.")
        hint = tr("Did you mean {names}? {more}", names=tr(" or ").join(near), more=known) if near else known
        raise BoundbyError(
            "unknown-remedy",
            tr("there is no remedy {name}", name=repr(name)),
            hint,
            status=EXIT_USAGE,
        )
    return cast(RemedyModule, importlib.import_module(f"boundby.remedies.{module}"))


def all_remedies() -> tuple[RemedyModule, ...]:
    """Every remedy, in the order shown."""
    return tuple(remedy_named(name) for name in MODULES)
