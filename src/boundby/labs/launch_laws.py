"""What more workers bring by Amdahl and by Gustafson, for three serial shares on the parallelism of an H100."""

from __future__ import annotations

import math
from collections.abc import Callable

from boundby.labs.lab import Settings
from boundby.report.chart import Axis, Chart
from boundby.report.chart import Line as ChartLine
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.report.scaling_words import number
from boundby.results.language import tr
from boundby.results.units import format_percent
from boundby.scaling.laws import amdahl, gustafson

SERIAL_SHARES = (0.01, 0.001, 0.0001)
# The SMs of an H100 SXM, its FP32 lanes (128 an SM), and the lanes of eight of them.
SMS, LANES, EIGHT = 132, 16_896, 135_168
WORKERS = (8, SMS, LANES, EIGHT, math.inf)
# How far the curves are drawn.
DOUBLINGS = 20

Law = Callable[[float, float], float]


def show(settings: Settings) -> Shown:
    """Both laws as tables and curves. Nothing is timed, so ``settings`` change nothing but the progress told."""
    fixed, grown = _speedups(amdahl), _speedups(gustafson)
    settings.progress(1.0)
    return Shown(
        about=(
            tr(
                "A share s of the work is serial; n workers divide the rest. Amdahl keeps the work fixed: n workers "
                "are 1 / (s + (1 - s) / n) times as fast. Gustafson lets the parallel work grow with n: they do "
                "s + (1 - s) n times as much in the same time."
            ),
            tr("n: 8 cores; the 132 SMs of an H100; its 16,896 FP32 lanes; the 135,168 of eight of them; no bound."),
        ),
        blocks=(
            _table(tr("Amdahl: the same work, so many times as fast"), fixed),
            _table(tr("Gustafson: so many times the work in the same time"), grown),
            _chart("amdahl", tr("Amdahl: the work stays as it is"), amdahl),
            _chart("gustafson", tr("Gustafson: the work grows with the workers"), gustafson),
        ),
        observations=tuple(Line(text=text) for text in _observations()),
        data={
            "serial_shares": list(SERIAL_SHARES),
            "workers": [None if math.isinf(n) else n for n in WORKERS],
            "amdahl": [[_finite(value) for value in row] for row in fixed],
            "gustafson": [[_finite(value) for value in row] for row in grown],
        },
    )


def _speedups(law: Law) -> list[list[float]]:
    return [[law(share, n) for n in WORKERS] for share in SERIAL_SHARES]


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return None if math.isinf(value) else value


def _number(value: float) -> str:
    return tr("no bound") if math.isinf(value) else number(value)


def _table(caption: str, rows: list[list[float]]) -> LabTable:
    return LabTable(
        caption=caption,
        head=(tr("serial share"), *(f"n = {n:,}" for n in WORKERS[:-1]), tr("n without bound")),
        rows=tuple(
            (format_percent_exact(share), *map(_number, row)) for share, row in zip(SERIAL_SHARES, rows, strict=True)
        ),
    )


def format_percent_exact(share: float) -> str:
    """A share that is given and not measured, with all its digits: ``0.01%``."""
    return f"{100 * share:g}%"


def _observations() -> tuple[str, ...]:
    large, small = SERIAL_SHARES[0], SERIAL_SHARES[-1]
    return (
        tr(
            "With {share} serial, the lanes of one H100 bring {one}x and those of eight {eight}x: no number of workers "
            "brings more than 1 / s = {limit}x.",
            share=format_percent_exact(large),
            one=_number(amdahl(large, LANES)),
            eight=_number(amdahl(large, EIGHT)),
            limit=_number(amdahl(large, math.inf)),
        ),
        tr(
            "With only {share} serial, one H100's lanes bring {speedup}x, {used} of their number. A serial share of "
            "1 / n, here {half}, already leaves half of n workers idle.",
            share=format_percent_exact(small),
            speedup=_number(amdahl(small, LANES)),
            used=format_percent(amdahl(small, LANES) / LANES),
            half=f"{100 / LANES:.4f}%",
        ),
        tr(
            "Gustafson's answer differs because his question does: with {share} serial, work that grows along keeps "
            "{used} of the lanes busy ({times} times the work).",
            share=format_percent_exact(large),
            used=format_percent(gustafson(large, LANES) / LANES),
            times=_number(gustafson(large, LANES)),
        ),
        tr(
            "One token for one user is work of fixed size, and Amdahl's case: whatever is serial in it, such as "
            "launching kernels one after the other, sets the limit. A larger batch is work that grows, and Gustafson's."
        ),
    )


def _chart(name: str, title: str, law: Law) -> Chart:
    counts = [2.0**power for power in range(DOUBLINGS + 1)]
    last = SERIAL_SHARES[0]
    return Chart(
        name=f"launch-{name}",
        title=title,
        summary=tr(
            "Speed-up against workers for serial shares of {shares}; with {share} it is {speedup}x at {workers} "
            "workers.",
            shares=tr(", ").join(map(format_percent_exact, SERIAL_SHARES)),
            share=format_percent_exact(last),
            speedup=_number(law(last, LANES)),
            workers=f"{LANES:,}",
        ),
        x=Axis(name=tr("workers"), scale="log"),
        y=Axis(name=tr("times as fast, or as much work"), scale="log"),
        lines=tuple(
            ChartLine(
                name=tr("{share} serial", share=format_percent_exact(share)),
                x=tuple(counts),
                y=tuple(law(share, n) for n in counts),
                look="modelled",
                points=False,
            )
            for share in SERIAL_SHARES
        ),
    )
