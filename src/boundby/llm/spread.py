"""How far expected times may be off, from rows that a fit had not seen: split conformal intervals, scaled by cell.

Errors are logarithms of predicted over measured. A cell (an engine on a kind of hardware) has a scale of its
own, drawn towards the common one by how few rows it has; the width of the interval is that scale times the quantile of
scaled errors that holds the wanted share of them. A cell without rows has the errors of fits that saw nothing of it.

Source:
    V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World" (2005); normalised scores: H.
    Papadopoulos et al., "Inductive confidence machines for regression" (2002).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from boundby.llm.calibration import Cell, shipped_data

COVERAGE = 0.9
# A cell's own errors weigh as much as the common scale once it has this many rows.
_PRIOR_ROWS = 2.0
# An engine with fewer rows is as good as new on hardware where it has none.
_ROWS_TO_KNOW_AN_ENGINE = 5
# Published times have three digits.
_SMALLEST_SCALE = 1e-3
# One row that is off by any amount tells no more than one that is off by this factor.
_FARTHEST = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What `width` needs: scales and rows by cell, the scales of hardware and of engines never seen, the conformal
    factor.
    """

    scales: Mapping[str, float]
    rows: Mapping[str, int]
    unseen_scale: float
    unseen_engine_scale: float
    factor: float


@cache
def shipped_spread() -> Spread:
    """The spread of the shipped fit."""
    return Spread(**shipped_data()["spread"])


def key_of(cell: Cell) -> str:
    """A cell's name in the file: ``llama.cpp-2024 on apple``."""
    return f"{cell.engine} on {cell.kind}"


def spread_of(errors: Sequence[tuple[Cell, float]], elsewhere: Iterable[float], new_engine: Iterable[float]) -> Spread:
    """The spread that errors amount to.

    Args:
        errors: of rows whose cell the fit had other rows of.
        elsewhere: of rows on hardware that the fit had nothing of.
        new_engine: of rows of an engine that the fit had nothing of.
    """
    usual = max(_SMALLEST_SCALE, _robust_scale([error for _, error in errors]))
    by_cell: dict[str, list[float]] = {}
    for cell, error in errors:
        by_cell.setdefault(key_of(cell), []).append(error)
    scales = {
        key: math.sqrt(
            (sum(min(abs(one), _FARTHEST * usual) ** 2 for one in mine) + _PRIOR_ROWS * usual**2)
            / (len(mine) + _PRIOR_ROWS)
        )
        for key, mine in by_cell.items()
    }
    scores = sorted(abs(error) / scales[key_of(cell)] for cell, error in errors)
    return Spread(
        scales={key: round(scale, 4) for key, scale in sorted(scales.items())},
        rows={key: len(mine) for key, mine in sorted(by_cell.items())},
        unseen_scale=round(max(usual, _robust_scale(list(elsewhere))), 4),
        unseen_engine_scale=round(max(usual, _robust_scale(list(new_engine))), 4),
        factor=round(scores[min(len(scores), math.ceil((len(scores) + 1) * COVERAGE)) - 1], 4),
    )


def width(spread: Spread, cell: Cell, *, known_engine: bool) -> float:
    """Half the interval of a cell, as a logarithm: the ends are the value over and times its exponential."""
    scale = spread.scales.get(key_of(cell))
    if scale is None or not known_engine:
        rows = sum(count for key, count in spread.rows.items() if key.startswith(f"{cell.engine} on "))
        well_known = known_engine and rows >= _ROWS_TO_KNOW_AN_ENGINE
        scale = spread.unseen_scale if well_known else spread.unseen_engine_scale
    return scale * spread.factor


def _robust_scale(errors: Sequence[float]) -> float:
    """The standard deviation that normal errors of this median size would have."""
    ordered = sorted(map(abs, errors))
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return 1.4826 * median
