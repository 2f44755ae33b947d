"""torch.compile for the labs: a compiled function with how long it took, or in words why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from boundby.api import passes
from boundby.machine.compiled import first_cause, lacks_compiler
from boundby.results.language import tr
from boundby.results.passes import Passes
from boundby.timing.sampling import time_window


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A function that torch.compile made, on its arguments.

    ``first_s`` are the seconds of its first call, compiling among them; ``found`` are its passes over memory. Where
    there is none, ``call`` is None and ``failure`` a sentence that says why.
    """

    call: Callable[..., Any] | None = None
    first_s: float | None = None
    found: Passes | None = None
    failure: str = ""


def compile_for(function: Callable[..., Any], *args: torch.Tensor) -> Compiled:
    """Compiles ``function`` for ``args`` and calls it once; never raises for what the compiler does.

    Args:
        function: runs torch ops and returns tensors.
        *args: what it is called with.
    """
    try:
        # In this process: a pool of compiler processes would still be starting while calls are timed.
        made: Callable[..., Any] = torch.compile(function, dynamic=False, options={"compile_threads": 1})
        first_s = time_window(partial(made, *args), 1)
        found = passes(made, *args)
    except Exception as error:  # The compiler and its backends raise what they like.
        return Compiled(failure=_why(error))
    if found.launches >= passes(function, *args).launches > 1:
        return Compiled(
            failure=tr("torch.compile fused nothing here: what it made runs op by op (is it switched off?).")
        )
    return Compiled(call=made, first_s=first_s, found=found)


def _why(error: Exception) -> str:
    if lacks_compiler(error):
        return tr(
            "torch.compile cannot work here: it finds no C++ compiler (no-compiler). Install g++ or clang, or name one "
            "in CXX."
        )
    return tr("torch.compile failed here (compile-failed): {cause}", cause=first_cause(error))
