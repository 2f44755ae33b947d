"""Budgets as a person writes them, in pyproject.toml or on a test, as limits: pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import PurePath
from typing import Any

from boundby.results.budgets import COUNTS, RATIOS, Budget
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

SIZES = ("bytes_read", "bytes_written", "saved_bytes")
_AS_A_BOUND = ("matmul", "pointwise", "memory", "peak")
_NAMES = {
    **{f"max_{name}": (name, False) for name in COUNTS},
    **{f"max_{name}": (name, False) for name in RATIOS if name != "peak"},
    **{f"min_{name}": (name, True) for name in _AS_A_BOUND},
}
NAMES = tuple(_NAMES)
"""The names that a budget can have."""

_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)\s*")
_SI = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def read_budgets(given: Mapping[str, Any], *, source: str, counts_only: bool = False) -> tuple[Budget, ...]:
    """The budgets of a table, a marker or a call.

    Args:
        given: names and limits: numbers, or texts with a unit as ``200 MiB``, ``1.5 GFLOP``, ``40%``.
        source: where they were written, for messages.
        counts_only: whether shares and ratios, which have to be measured, are refused.

    Raises:
        BoundbyError: ``unknown-budget`` or ``bad-budget``.
    """
    budgets = []
    for name, value in given.items():
        if name not in _NAMES:
            raise _unknown(name, source, counts_only=counts_only)
        of, least = _NAMES[name]
        if counts_only and of in RATIOS:
            raise BoundbyError(
                "unknown-budget",
                tr("{source}: {name} has to be measured, and only counts are taken here.", source=source, name=name),
                tr("Budgets of shares are for `boundby check`; the counts are: {names}.", names=_listed(COUNTS)),
                status=EXIT_USAGE,
            )
        limit = _limit(name, of, value, source)
        budgets.append(Budget(name=name, of=of, limit=limit, least=least, source=source))
    return tuple(budgets)


def budgets_for(table: Mapping[str, Any], *, target: str | None, source: str) -> tuple[Budget, ...]:
    """The budgets of a ``[tool.boundby.budgets]`` table that hold for a script or a module.

    Tables in it are for the scripts that their name fits: a path relative to the project, a file name, a module, or a
    pattern with ``*``. What they hold goes before what the outer table does, and of several the last one that fits.

    Raises:
        BoundbyError: ``unknown-budget`` or ``bad-budget``, also in a table for another script.
    """
    found: dict[str, Budget] = {}
    own: dict[str, Budget] = {}
    for name, value in table.items():
        if not isinstance(value, Mapping):
            found |= {one.name: one for one in read_budgets({name: value}, source=source)}
            continue
        inner = read_budgets(value, source=f'{source}."{name}"')
        if target is not None and (fnmatch(target, name) or fnmatch(PurePath(target).name, name)):
            own |= {one.name: one for one in inner}
    return tuple((found | own).values())


def read_tolerance(value: Any, *, source: str) -> float:
    """The part by which bytes may be above those of a baseline.

    Args:
        value: as written: a number from 0 to 1, or a text as ``2%``.
        source: where it was written, for messages.

    Raises:
        BoundbyError: ``bad-budget``.
    """
    return _limit("bytes_tolerance", RATIOS[0], value, source)


def _limit(name: str, of: str, value: Any, source: str) -> float:
    number = _number(value, of)
    if number is None or not math.isfinite(number) or number < 0:
        kind = (
            tr("a share between 0 and 1, or a text as `40%`")
            if of in RATIOS
            else tr("a size in bytes, or a text as `200 MiB`")
            if of in SIZES
            else tr("a number, or a text as `1.5 GFLOP`")
            if of.endswith("_flops")
            else tr("a whole number")
        )
        raise _bad(name, value, kind, source)
    if of in RATIOS:
        if number > 1:
            raise _bad(name, value, tr("a share between 0 and 1, or a text as `40%`"), source)
        return number
    if not float(number).is_integer():
        raise _bad(name, value, tr("a whole number"), source)
    return int(number)


def _number(value: Any, of: str) -> float | None:
    """The limit in bytes, FLOPs, calls or as a part of 1; None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    found = _NUMBER.fullmatch(value.replace("_", "")) if isinstance(value, str) else None
    if found is None:
        return None
    number, unit = float(found[1]), found[2]
    if of in RATIOS:
        return {"%": number / 100, "": number}.get(unit)
    factors: dict[str, int] = dict(_SI)
    if of in SIZES:
        factors |= _IEC
        unit = unit.removesuffix("B")
    elif of.endswith("_flops"):
        unit = re.sub(r"(?i)flops?$", "", unit)
    elif unit:
        return None
    factor = factors.get(unit)
    return None if factor is None else round(number * factor, 6)


def _bad(name: str, value: Any, expected: str, source: str) -> BoundbyError:
    return BoundbyError(
        "bad-budget",
        tr(
            "{source}: {name} is {value}; expected {expected}.",
            source=source,
            name=name,
            value=repr(value),
            expected=expected,
        ),
        tr("Correct the budget."),
        status=EXIT_USAGE,
    )


def _unknown(name: str, source: str, *, counts_only: bool) -> BoundbyError:
    names = [one for one, (of, _) in _NAMES.items() if not counts_only or of in COUNTS]
    near = get_close_matches(name, names, n=3, cutoff=0.6) or get_close_matches(f"max_{name}", names, n=3, cutoff=0.7)
    if "time" in name or "second" in name:
        advice = tr("Times differ from machine to machine and are no budgets; `boundby compare` compares them.")
    elif near:
        advice = tr("Did you mean {names}?", names=" or ".join(near))
    else:
        advice = tr("Budgets are: {names}.", names=_listed(names))
    return BoundbyError(
        "unknown-budget",
        tr("{source}: there is no budget {name}.", source=source, name=repr(name)),
        advice,
        status=EXIT_USAGE,
    )


def _listed(names: Any) -> str:
    return ", ".join(names)
