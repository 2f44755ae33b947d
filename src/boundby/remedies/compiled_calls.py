"""Calls of code that torch.compile made: what one costs beside eager ops.

The constants are ratios that hardly depend on the machine's speed: processor time of compiled code over that of eager
ops, on one core with AVX-512 and torch 2.13. Each is a band.
"""

from __future__ import annotations

import os
import shutil

from boundby.results.interval import Interval, interval
from boundby.results.machine import Machine

# A call of a compiled module beside the time of one eager op with its module, gradient and backward op: guards,
# arguments checked and packed, the compiled backward's node. 106 to 170 us where that is 7.4 us.
TRAINING_CALL = interval(20.0, 14.0, 24.0)
# The same without gradients, beside an op and its module: 14 to 25 us where that is 2.7 us.
INFERENCE_CALL = interval(7.5, 5.0, 10.0)
# Times that where gradients are on, though nobody goes back: the graph's node is made all the same.
UNUSED_GRADIENT = (3.0, 2.0, 4.0)
# Where the machine file has a compiled call of one op measured: that of a module has more guards.
MORE_GUARDS = (0.8, 1.5)
_COMPILERS = ("g++", "c++", "clang++")


def has_compiler() -> bool:
    """Whether there is a C++ compiler that torch would find."""
    named = os.environ.get("CXX")
    return any(shutil.which(one) is not None for one in ((named,) if named else _COMPILERS))


def overhead_s(machine: Machine, name: str, *, stack: str = "torch") -> float | None:
    """Seconds an op of that kind takes on almost no data; None where it was not measured."""
    return next(
        (one.value for one in machine.ceilings if one.kind == "overhead" and one.name == name and one.stack == stack),
        None,
    )


def call_s(machine: Machine, *, trains: bool, unused_gradient: bool = False) -> Interval | None:
    """Seconds that a call of a compiled module costs beyond its kernels; None where no op's overhead is known.

    Args:
        machine: the ceilings; a full measuring has a compiled call among them.
        trains: whether the call is followed by its backward pass, which is part of it then.
        unused_gradient: whether gradients are on all the same where it is not.
    """
    op = overhead_s(machine, "pointwise")
    if op is None:
        return None
    module = overhead_s(machine, "module_call") or 0.0
    if trains:
        return TRAINING_CALL.scaled(2 * op + gradient_s(machine) + module)
    known = overhead_s(machine, "compiled_call", stack="torch.compile")
    if known is not None:
        call = interval(known, MORE_GUARDS[0] * known, MORE_GUARDS[1] * known)
    else:
        call = INFERENCE_CALL.scaled(op + module)
    value, low, high = UNUSED_GRADIENT if unused_gradient else (1.0, 1.0, 1.0)
    return interval(value * call.value, low * call.low, high * call.high)


def gradient_s(machine: Machine) -> float:
    """Seconds that an op's place in the graph costs, forward and backward, beside the ops themselves."""
    return (overhead_s(machine, "autograd_node") or 0.0) + (overhead_s(machine, "autograd_backward") or 0.0)
