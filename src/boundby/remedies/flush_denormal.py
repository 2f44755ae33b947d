"""Denormal numbers flushed to zero: some processors compute with them in microcode, many times slower."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.in_step import base_name
from boundby.results.language import tr
from boundby.results.machine import Ceiling
from boundby.results.report import OpRow
from boundby.results.units import format_number

NAME = "flush-denormal"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
# What an op computes besides the function that it is named after.
COMPUTES: Mapping[str, tuple[str, ...]] = {
    "_softmax": ("exp",),
    "_log_softmax": ("exp", "log"),
    "logsumexp": ("exp", "log"),
    "_fused_adam_": ("sqrt", "mul", "add", "div", "addcdiv"),
    "_fused_adamw_": ("sqrt", "mul", "add", "div", "addcdiv"),
}
# What the script's numbers most likely are; a step in another precision is not told from its report.
DTYPE = "fp32"


def title() -> str:
    """What it does, for people."""
    return tr("flush denormal numbers to zero")


def _change() -> str:
    return tr("call {call} before anything else of torch", call="torch.set_flush_denormal(True)")


def predict(evidence: Evidence) -> Prediction:
    """Whether it could matter: which of the script's functions denormal numbers slow here, and whether flushing mends.

    Whether the script's numbers are denormal is not known from a report, so nothing is promised.
    """
    from boundby.machine.data import DataSource
    from boundby.machine.ranges import denormals_flushed, flushed_factors, flushing_mends, slow_ceilings

    slow = {
        ceiling.name: (ceiling, factor)
        for ceiling, factor in slow_ceilings(evidence.machine.ceilings)
        if ceiling.name.partition("/")[2].startswith("denormal") and ceiling.dtype == DTYPE
    }
    if not slow:
        return NotApplicable(tr("no function was found to be slower on denormal numbers here"))
    used = [(one, factor) for one, factor in slow.values() if _uses(evidence.report.ops, one)]
    if not used:
        return NotApplicable(tr("none of the functions that denormal numbers slow here is in the step"))
    if evidence.probe is None:
        return CannotTell(tr("it takes a look at whether flushing helps here"), change=_change())
    if denormals_flushed():
        return NotApplicable(tr("denormal numbers are flushed to zero already"))
    flushed = flushed_factors(DataSource(), evidence.machine.ceilings)
    mended = [(one, factor) for one, factor in used if flushing_mends(factor, flushed.get((one.name, DTYPE), factor))]
    if not mended:
        names = _names([one for one, _ in used])
        return NotApplicable(tr("denormal numbers slow {names} here, and flushing does not mend that", names=names))
    worst, names = max(factor for _, factor in mended), _names([one for one, _ in mended])
    return CannotTell(
        tr(
            "whether the script's numbers are ever denormal (below 1e-38) is not watched; {names} would take up to "
            "{times} times as long on them",
            names=names,
            times=format_number(worst, digits=2),
        ),
        change=_change(),
    )


def _uses(rows: Sequence[OpRow], ceiling: Ceiling) -> bool:
    function = ceiling.name.partition("/")[0]
    names = {base_name(row.op) for row in rows}
    return any(name.strip("_") == function or function in COMPUTES.get(name, ()) for name in names)


def _names(ceilings: Sequence[Ceiling]) -> str:
    return tr(", ").join(dict.fromkeys(one.name.partition("/")[0] for one in ceilings))


def apply(effects: Effects) -> None:
    """Set in this thread before torch has others: they take the setting over when they start."""
    import torch

    if torch.set_flush_denormal(True):
        effects.saw(tr("denormal numbers flushed to zero"))
    else:
        effects.cannot(tr("this processor does not flush denormal numbers"))


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """It is a setting of each thread, and torch's own have started already."""
