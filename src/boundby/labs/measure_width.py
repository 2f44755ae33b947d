"""Lab `measure`, demonstration 5: the same training step, from a narrow model to a wide one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import boundby
from boundby.labs import measure_matmul, measure_step
from boundby.labs.base_model import GPTConfig, count_parameters
from boundby.labs.lab import Settings
from boundby.labs.rows import noise_notes, times_data
from boundby.labs.training_step import TrainingStep
from boundby.report.chart import Axis, Chart
from boundby.report.chart import Line as Curve
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.units import format_number, format_percent, format_si, format_time

NAME = "width"
WIDTHS = (32, 64, 128, 256, 512, 1024)
QUICK_WIDTHS = (32, 64, 128)
BATCH = 32
# A width at which one step would take longer, going by the one before, is left out.
LONGEST_STEP_S = 2.5
# Up to this width a step is counted by running it; wider ones are counted on paper before they are run.
WIDEST_AT_ONCE = 128
LONGEST_QUICK_STEP_S = 0.5
# Shares of the peak within this factor of each other are the same.
_SAME_SHARE = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A step at one width: what it is on paper, and its time; ``expected_s`` of one that was left out."""

    width: int
    parameters: int
    flops: int
    time: CallTime | None
    expected_s: float | None = None

    @property
    def flops_per_s(self) -> float | None:
        """FLOPs of matrix products a second, of the fastest round; None where it was not timed."""
        return None if self.time is None else self.flops / self.time.fastest_s

    def expected_for(self, flops: int) -> float | None:
        """Seconds of a step of so many FLOPs at this one's rate; None where that is not known."""
        seconds = self.expected_s if self.time is None else self.time.fastest_s
        return None if seconds is None else seconds * flops / self.flops


def show(settings: Settings) -> Shown:
    """Counts the step at each width, times those that do not take seconds, and says how the time grows."""
    peak = measure_matmul.matmul_peak(settings)
    found = _widths(settings)
    timed = [one for one in found if one.time is not None]
    return Shown(
        about=(
            tr(
                "The small GPT again, 2 layers, context 96, batch {batch}, and wider from row to row. Watch how the "
                "share of the peak rises: wide products are large ones, and there are no more ops than before.",
                batch=str(BATCH),
            ),
        ),
        blocks=(_table(found, peak), _chart(timed, peak)),
        observations=(
            *_counted(found),
            *(Line(text=text, timed=True) for text in _observed(found, timed, peak)),
            *noise_notes([one.time for one in found if one.time is not None], one_thread=True),
        ),
        data={"batch": BATCH, "peak_flops_per_s": peak, "rows": [_row_data(one, peak) for one in found]},
    )


def _widths(settings: Settings) -> list[Width]:
    longest = LONGEST_QUICK_STEP_S if settings.quick else LONGEST_STEP_S
    widths = QUICK_WIDTHS if settings.quick else WIDTHS
    found: list[Width] = []
    for done, width in enumerate(widths):
        # The widest take most of the time.
        settings.progress((done / len(widths)) ** 2)
        found.append(
            _measured(
                width,
                found[-1] if found else None,
                known_s=_timed_before(settings, width),
                longest_s=longest,
                round_s=settings.round_s,
            )
        )
    return found


def _timed_before(settings: Settings, width: int) -> float | None:
    """Seconds that demonstration 4 of the same run found this very step to take; None where it did not time it."""
    rows = settings.earlier.get(measure_step.NAME, {}).get("rows", ())
    if width != GPTConfig().d_model:
        return None
    return next((row["time_s"] for row in rows if row["batch"] == BATCH), None)


def _measured(
    width: int, before: Width | None, *, known_s: float | None = None, longest_s: float, round_s: float
) -> Width:
    """The width counted, and timed where one step is not expected to take longer than ``longest_s``.

    What to expect is what the step is known to take (``known_s``), else what the width before it makes of it.
    """
    config = GPTConfig(d_model=width)
    step = TrainingStep(config, batch=BATCH, device="cpu" if width <= WIDEST_AT_ONCE else "meta")
    step()
    flops, parameters = step.count().matmul_flops, count_parameters(step.model)
    expected_s = known_s if known_s is not None or before is None else before.expected_for(flops)
    if expected_s is not None and expected_s > longest_s:
        return Width(width=width, parameters=parameters, flops=flops, time=None, expected_s=expected_s)
    if width > WIDEST_AT_ONCE:
        step = TrainingStep(config, batch=BATCH)
        step()
    (time,) = boundby.time_calls(step, round_s=round_s)
    return Width(width=width, parameters=parameters, flops=flops, time=time)


def _row_data(one: Width, peak: float) -> dict[str, Any]:
    rate = one.flops_per_s
    return {
        "width": one.width,
        "parameters": one.parameters,
        "matmul_flops": one.flops,
        **times_data(one.time),
        "flops_per_s": rate,
        "share_of_peak": None if rate is None else rate / peak,
    }


def _table(found: Sequence[Width], peak: float) -> LabTable:
    return LabTable(
        caption="",
        head=(
            tr("width"),
            tr("parameters"),
            tr("FLOP a step"),
            tr("time"),
            tr("median"),
            "GFLOP/s",
            tr("of the peak"),
        ),
        rows=tuple(
            (str(one.width), f"{one.parameters:,}", format_si(one.flops, "FLOP"), *_timed_cells(one, peak))
            for one in found
        ),
        timed=(3, 4, 5, 6),
        files_only=(4,),
        left=(),
    )


def _timed_cells(one: Width, peak: float) -> tuple[str, str, str, str]:
    if one.time is None or one.flops_per_s is None:
        return tr("left out"), "-", "-", "-"
    return (
        format_time(one.time.fastest_s),
        format_time(one.time.median_s),
        format_number(one.flops_per_s / 1e9),
        format_percent(one.flops_per_s / peak),
    )


def _counted(found: Sequence[Width]) -> Iterator[Line]:
    first, last = found[0], found[-1]
    yield Line(
        text=tr(
            "From width {first} to {last} the model has {parameters} times the parameters and a step {flops} times the "
            "FLOPs.",
            first=str(first.width),
            last=str(last.width),
            parameters=format_number(last.parameters / first.parameters),
            flops=format_number(last.flops / first.flops),
        )
    )


def _observed(found: Sequence[Width], timed: Sequence[Width], peak: float) -> Iterator[str]:
    first, last = timed[0], timed[-1]
    assert first.time is not None
    assert last.time is not None
    for one in found:
        if one.time is None:
            yield tr(
                "Width {width} was left out: going by the width before, one step would take about {seconds}.",
                width=str(one.width),
                seconds=format_time(one.expected_s, digits=1),
            )
    grown = last.time.fastest_s / first.time.fastest_s
    parameters = last.parameters / first.parameters
    if last is not first:
        yield tr(
            "From width {first} to {last}, {parameters} times the parameters and {flops} times the FLOPs take {time} "
            "times as long.",
            first=str(first.width),
            last=str(last.width),
            parameters=format_number(parameters),
            flops=format_number(last.flops / first.flops),
            time=format_number(grown),
        )
    if last is not first:
        yield _shares_told(timed, [one.flops_per_s / peak for one in timed if one.flops_per_s is not None])


def _shares_told(timed: Sequence[Width], shares: Sequence[float]) -> str:
    """How the share of the peak goes over the widths that were timed, two or more of them."""
    best, least = max(shares), min(shares)
    if best > _SAME_SHARE * shares[0] and all(_SAME_SHARE * then >= one for one, then in pairwise(shares)):
        return tr(
            "The share of the peak rises from {first} to {last}: the wider the model, the more of a step is large "
            "matrix products, and the less its ops cost beside them.",
            first=format_percent(shares[0]),
            last=format_percent(shares[-1]),
        )
    place = shares.index(best)
    up = all(_SAME_SHARE * then >= one for one, then in pairwise(shares[: place + 1]))
    down = all(one >= then / _SAME_SHARE for one, then in pairwise(shares[place:]))
    if best > _SAME_SHARE * shares[0] and up and down:
        return tr(
            "The share of the peak rises from {first} to {best} at width {width}, and after it falls to {last}.",
            first=format_percent(shares[0]),
            best=format_percent(best),
            width=str(timed[place].width),
            last=format_percent(shares[-1]),
        )
    if best > _SAME_SHARE * shares[0]:
        return tr(
            "The share of the peak goes up and down, between {least} and {best}: too unsteady to say how it depends on "
            "the width.",
            least=format_percent(least),
            best=format_percent(best),
        )
    return tr(
        "The share of the peak does not rise here, from {first} to {last}: at batch {batch} the ops' cost is small "
        "already, or something else ran on this machine.",
        first=format_percent(shares[0]),
        last=format_percent(shares[-1]),
        batch=str(BATCH),
    )


def _chart(timed: Sequence[Width], peak: float) -> Chart:
    widths = tuple(float(one.width) for one in timed)
    times = [one.time for one in timed if one.time is not None]
    return Chart(
        name="step-by-width",
        title=tr("Time of a training step against the width of the model"),
        summary=tr(
            "From {first} at width {small} to {last} at width {large}.",
            first=format_time(times[0].fastest_s),
            small=str(timed[0].width),
            last=format_time(times[-1].fastest_s),
            large=str(timed[-1].width),
        ),
        x=Axis(name=tr("width"), scale="log"),
        y=Axis(name=tr("time of a step"), unit="s", scale="log"),
        lines=(
            Curve(
                name=tr("fastest round, up to the slowest"),
                x=widths,
                y=tuple(one.fastest_s for one in times),
                low=tuple(one.fastest_s for one in times),
                high=tuple(one.slowest_s for one in times),
            ),
            Curve(
                name=tr("its products at the peak"),
                x=widths,
                y=tuple(one.flops / peak for one in timed),
                look="modelled",
                points=False,
            ),
        ),
    )
