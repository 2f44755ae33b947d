"""Meta and fake tensors, which have sizes and no data: finding them, making them, and what their counts cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._pytree import tree_leaves

from boundby.capture.device_comparison import OWN_BUFFERS, DeviceComparison, listed_text, real_device
from boundby.capture.module_tree import ModuleCalls
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.op_names import op_name

_MOST_LOOKED_AT = 20_000


def device_names(values: Any) -> list[str]:
    """The devices of the tensors among ``values``, each once: ``cpu``, ``meta``, or ``fake cpu`` for fake tensors.

    A number as a CPU tensor that takes part in an op elsewhere does not count.
    """
    names: dict[str, None] = {}
    numbers: dict[str, None] = {}
    for leaf in tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            name = f"fake {leaf.device.type}" if isinstance(leaf, FakeTensor) else leaf.device.type
            (numbers if leaf.dim() == 0 else names)[name] = None
    return list(names or numbers)


def has_meta_tensors(reachable: Any) -> bool:
    """Whether a meta tensor is among what a call can reach, as far as can be seen without running anything.

    Looked into: containers, modules, objects' attributes, bound methods, partials, what functions close over, their
    defaults and the globals they name.
    """
    seen: set[int] = set()
    pending = [reachable]
    while pending and len(seen) < _MOST_LOOKED_AT:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.is_meta:
                return True
        elif isinstance(value, torch.nn.Module):
            if any(one.is_meta for tensors in (value.parameters(), value.buffers()) for one in tensors):
                return True
        else:
            pending += _parts(value)
    return False


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # The variable is not assigned yet.
                continue
        yield value.__defaults__
        named = (value.__globals__.get(name) for name in value.__code__.co_names)
        yield from (one for one in named if not isinstance(one, (type, ModuleType, FunctionType)))
    elif not isinstance(value, (type, ModuleType)):
        # A plain dict of attributes only: nothing of the user's is run.
        yield getattr(value, "__dict__", None)


def valueless_findings(ops: Iterable[tuple[str, bool]], *, on_meta: bool, compared: bool) -> tuple[Finding, ...]:
    """What counts of meta and fake tensors cannot hold.

    Args:
        ops: of each op that ran on such tensors the name, and whether its cost depends on tensors' values.
        on_meta: whether ops ran on meta tensors.
        compared: whether a :class:`DeviceComparison` was on.
    """
    found = []
    names = list(dict.fromkeys(ops))
    guessed = [name for name, depends in names if depends]
    if guessed:
        found.append(
            Finding(
                code="values-unknown",
                message=tr(
                    "the tensors hold no values, so every index counts as if it picked another element or row in "
                    "{ops}: the bytes are the most they can be",
                    ops=listed_text([op_name(name) for name in guessed]),
                ),
                advice=tr("Count on real tensors where that matters."),
            )
        )
    buffers = [name for name, _ in names if name in OWN_BUFFERS]
    if buffers:
        found.append(
            Finding(
                code="workspace-unknown",
                message=tr(
                    "{ops} keeps a workspace for backward whose size only its kernel knows: {written} and {saved} "
                    "lack it",
                    ops=listed_text([op_name(name) for name in buffers]),
                    written="bytes_written",
                    saved="saved_bytes",
                ),
                advice=tr("Count on real tensors where that matters."),
            )
        )
    if on_meta and not compared:
        found.append(
            Finding(
                code="meta-unchecked",
                message=tr(
                    "ops ran on meta tensors that were made during the call, so they were not compared with those of a "
                    "real device"
                ),
                advice=tr("Make the model, or its inputs, before count is called."),
            )
        )
    return tuple(found)


def watching_meta(modules: ModuleCalls, reachable: Any) -> DeviceComparison | None:
    """A comparison where meta tensors are among what a call can reach, None elsewhere."""
    return DeviceComparison(modules, real_device()) if has_meta_tensors(reachable) else None


@contextmanager
def fake_tensors() -> Iterator[None]:
    """A context in which new tensors have sizes, a device and no data, and modules of them can be moved and cast."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    swap: Callable[[torch.Tensor, torch.Tensor], None] = torch.utils.swap_tensors

    def swap_forgotten(first: torch.Tensor, second: torch.Tensor) -> None:
        # ``Module.to`` swaps fake parameters, which torch refuses while the mode remembers them by weak references.
        mode.fake_tensor_converter.tensor_memo.clear()
        swap(first, second)

    vars(torch.utils)["swap_tensors"] = swap_forgotten
    try:
        with mode:
            yield
    finally:
        vars(torch.utils)["swap_tensors"] = swap


def needs_values(error: BaseException) -> bool:
    """Whether code failed because it asked for values, or sizes that follow from them, of tensors without data."""
    if isinstance(error, (DataDependentOutputException, DynamicOutputShapeException)):
        return True
    text = str(error)
    # Of meta tensors torch says it in words alone.
    return isinstance(error, (NotImplementedError, RuntimeError)) and (
        "cannot be called on meta tensors" in text
        or "data-independent implementation does not exist" in text
        or "Cannot copy out of meta tensor; no data!" in text
    )
