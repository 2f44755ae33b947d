"""Lab `measure`, demonstration 3: the same function as several ops and as one, passes over memory beside times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import boundby
from boundby.labs.lab import Settings
from boundby.labs.measure_pairs import Pair, cosines, gelu, multiply_add, softmax
from boundby.labs.rows import is_unsteady, noise_notes, ratio_band, times_data
from boundby.report.chart import Axis, Bar, Chart
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.report.report_words import followed, listed
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.units import format_number, format_si, format_size, format_time

NAME = "fusion"
ELEMENTS = 2**24
QUICK_ELEMENTS = 2**22
# Rows of attention scores: batch x heads x queries, by keys.
SCORES = (32 * 4 * 96, 96)
QUICK_SCORES = (8 * 4 * 96, 96)
# Where a function moves fewer bytes a second than this share of what a plain sum moves, the function binds.
FUNCTION_BOUND = 0.6
# One op that is not this many times as fast as several is slower, and its arithmetic, which they do too, is no cause.
_SLOWER = 0.9
# Two cosines take about twice as long as one, whether memory binds them or the cosine.
_ABOUT_TWICE = (1.6, 2.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A pair with what was counted and timed of it.

    ``difference`` is the largest between both results; None where they are two functions.
    """

    pair: Pair
    passes: float
    fused_passes: float
    time: CallTime
    fused_time: CallTime
    difference: float | None

    @property
    def passes_ratio(self) -> float:
        """How many times as fast the one op would be, if passes over memory were all that takes time."""
        return self.passes / self.fused_passes

    @property
    def time_ratio(self) -> float:
        """How many times as fast the one op is."""
        return self.time.fastest_s / self.fused_time.fastest_s

    @property
    def time_ratio_band(self) -> tuple[float, float]:
        """The least and the most that the ratio was in one turn, or by the fastest rounds of both."""
        return ratio_band(self.time, self.fused_time)

    @property
    def is_unsteady(self) -> bool:
        """Whether the ratio of times says nothing of a cause, since turns disagree on it."""
        return is_unsteady(self.time, self.fused_time)

    @property
    def fused_bytes_per_s(self) -> float:
        """What the one op reads and writes a second."""
        return self.fused_passes * self.pair.size_bytes / self.fused_time.fastest_s


def find(pair: Pair, settings: Settings) -> Found:
    """Counts and times a pair, both in turns, and compares what they found."""
    calls = (pair.unfused, pair.fused)
    passes, fused_passes = (boundby.passes(call, size_bytes=pair.size_bytes).total for call in calls)
    time, fused_time = boundby.time_calls(*calls, round_s=settings.round_s)
    return Found(
        pair=pair,
        passes=passes,
        fused_passes=fused_passes,
        time=time,
        fused_time=fused_time,
        difference=float((pair.results[0] - pair.results[1]).abs().max()) if pair.same else None,
    )


def show(settings: Settings) -> Shown:
    """Counts and times four functions both ways, and says where fewer passes helped and where the function binds."""
    elements = QUICK_ELEMENTS if settings.quick else ELEMENTS
    scores = QUICK_SCORES if settings.quick else SCORES
    makers: tuple[Callable[[], Pair], ...] = (
        lambda: multiply_add(elements),
        lambda: softmax(scores),
        lambda: gelu(elements),
        lambda: cosines(elements),
    )
    found = []
    for done, make in enumerate(makers):
        settings.progress(done / len(makers))
        found.append(find(make(), settings))
    return Shown(
        about=(
            tr(
                "A pass reads or writes the whole tensor once. Several ops write what the next one reads again; one op "
                "that does it all reads its inputs and writes its result. If passes were all that takes time, the gain "
                "would be their ratio. Watch where it is, and where the function itself takes the time."
            ),
        ),
        blocks=(_passes_table(found), _times_table(found), _chart(found)),
        observations=(
            *_observations(found),
            *noise_notes([time for one in found for time in (one.time, one.fused_time)], one_thread=True),
        ),
        data={"rows": [_row_data(one) for one in found]},
    )


def _row_data(one: Found) -> dict[str, Any]:
    return {
        "name": one.pair.name,
        "elements": one.pair.results[0].numel(),
        "passes_by_hand": list(one.pair.by_hand),
        "passes": one.passes,
        "fused_passes": one.fused_passes,
        "unfused": times_data(one.time),
        "fused": times_data(one.fused_time),
        "speedup": one.time_ratio,
        "speedup_low": one.time_ratio_band[0],
        "speedup_high": one.time_ratio_band[1],
        "fused_bytes_per_s": one.fused_bytes_per_s,
        "largest_difference": one.difference,
    }


def _noted(caption: str, found: Sequence[Found]) -> str:
    """The caption, and what the one op of a marked row is."""
    ops = [one.pair.fused_name for one in found if one.pair.fused_name]
    return tr("{caption} (*: the one op is {op} alone)", caption=caption, op=listed(ops)) if ops else caption


def _passes_table(found: Sequence[Found]) -> LabTable:
    return LabTable(
        caption=_noted(
            tr("Passes over memory: of several ops by hand and as boundby counts them, of one op as counted"), found
        ),
        head=("", tr("size"), tr("several ops, by hand"), tr("counted"), tr("one op"), tr("fewer")),
        rows=tuple(
            (
                one.pair.marked,
                format_size(one.pair.size_bytes),
                f"{'+'.join(map(str, one.pair.by_hand))} = {sum(one.pair.by_hand)}",
                format_number(one.passes),
                format_number(one.fused_passes),
                f"{format_number(one.passes_ratio, digits=2)}x",
            )
            for one in found
        ),
    )


def _times_table(found: Sequence[Found]) -> LabTable:
    return LabTable(
        caption=_noted(tr("Times, and the largest difference between both results"), found),
        head=(
            "",
            tr("several ops"),
            tr("median"),
            tr("one op"),
            tr("median"),
            tr("faster"),
            tr("one op, GB/s"),
            tr("difference"),
        ),
        rows=tuple(
            (
                one.pair.marked,
                format_time(one.time.fastest_s),
                format_time(one.time.median_s),
                format_time(one.fused_time.fastest_s),
                format_time(one.fused_time.median_s),
                f"{format_number(one.time_ratio, digits=2)}x",
                format_number(one.fused_bytes_per_s / 1e9),
                "-" if one.difference is None else f"{one.difference:.1g}",
            )
            for one in found
        ),
        timed=(1, 2, 3, 4, 5, 6, 7),
        files_only=(2, 4),
    )


def _observations(found: Sequence[Found]) -> list[Line]:
    plain, cosine = found[0], found[-1]
    told = [_observed(one, plain) for one in found[:-1]]
    values = {
        "ratio": format_number(cosine.time_ratio, digits=2),
        "rate": format_si(cosine.fused_bytes_per_s, "B/s"),
    }
    if cosine.is_unsteady:
        told.append(
            tr(
                "cos(cos(x)) takes {ratio} times as long as cos(x) by the fastest rounds, {low} to {high} turn by "
                "turn: too unsteady to say what binds.",
                ratio=values["ratio"],
                low=format_number(cosine.time_ratio_band[0], digits=2),
                high=format_number(cosine.time_ratio_band[1], digits=2),
            )
        )
    elif not _ABOUT_TWICE[0] <= cosine.time_ratio <= _ABOUT_TWICE[1]:
        told.append(
            tr(
                "cos(cos(x)) takes {ratio} times as long as cos(x), which moves {rate}. Twice the work and twice the "
                "passes would be 2: this machine shows otherwise, and why is not known from these times.",
                **values,
            )
        )
    elif _binds(cosine, plain):
        told.append(
            tr(
                "cos(cos(x)) takes {ratio} times as long as cos(x), which moves {rate}: the cosine binds, not memory, "
                "and even one op for both would have to work out two cosines. On a GPU, where memory binds such a "
                "function, one op for both takes as long as one cosine.",
                **values,
            )
        )
    else:
        told.append(
            tr(
                "cos(cos(x)) takes {ratio} times as long as cos(x), which moves {rate}, near what the sum moves: "
                "memory binds here as on a GPU, and one op for both could take as long as one cosine.",
                **values,
            )
        )
    return [Line(text=text, timed=True) for text in told]


def _binds(one: Found, plain: Found) -> bool:
    """Whether the function itself takes the time: its bytes come much slower than those of a plain sum."""
    return one.fused_bytes_per_s < FUNCTION_BOUND * plain.fused_bytes_per_s


def _observed(one: Found, plain: Found) -> str:
    values = {
        "name": one.pair.name,
        "passes": format_number(one.passes_ratio, digits=2),
        "ratio": format_number(one.time_ratio, digits=2),
        "rate": format_si(one.fused_bytes_per_s, "B/s"),
        "plain": format_si(plain.fused_bytes_per_s, "B/s"),
    }
    if one.is_unsteady:
        return tr(
            "{name}: {passes} times fewer passes, {ratio} times as fast by the fastest rounds, {low} to {high} turn by "
            "turn: too unsteady to say what binds.",
            name=values["name"],
            passes=values["passes"],
            ratio=values["ratio"],
            low=format_number(one.time_ratio_band[0], digits=2),
            high=format_number(one.time_ratio_band[1], digits=2),
        )
    if one.time_ratio < _SLOWER:
        return tr(
            "{name}: {passes} times fewer passes and yet slower, {ratio} times as fast. As one op it moves {rate}: "
            "this machine has a slow kernel for it, or shows otherwise for a reason that these times do not tell.",
            name=values["name"],
            passes=values["passes"],
            ratio=values["ratio"],
            rate=values["rate"],
        )
    if one is not plain and one.time_ratio <= 1.25 * one.passes_ratio and _binds(one, plain):
        return tr(
            "{name}: {passes} times fewer passes, {ratio} times as fast. As one op it moves {rate}, where a*b + c "
            "moves {plain}: its arithmetic binds, not memory, so that the ratio of passes does not say what fusing "
            "gains.",
            **values,
        )
    if 0.75 <= one.time_ratio / one.passes_ratio <= 1.25:
        return tr(
            "{name}: {passes} times fewer passes, {ratio} times as fast: memory binds, and the gain is near the ratio "
            "of passes. As one op it moves {rate}.",
            **values,
        )
    return tr(
        "{name}: {passes} times fewer passes, {ratio} times as fast. As one op it moves {rate}; the gain is not near "
        "the ratio of passes here, so passes are not all that takes the time.",
        **values,
    )


def _chart(found: Sequence[Found]) -> Chart:
    passes, times = tr("fewer passes (counted)"), tr("faster (measured)")
    return Chart(
        name="fusion-gain",
        title=tr("What one op gains over several: passes and time"),
        summary=followed(
            *(
                tr(
                    "{name}: {passes} times fewer passes, {ratio} times as fast.",
                    name=one.pair.label,
                    passes=format_number(one.passes_ratio, digits=2),
                    ratio=format_number(one.time_ratio, digits=2),
                )
                for one in found
            )
        ),
        x=Axis(name=tr("times"), scale="linear"),
        y=Axis(
            name=tr("function"),
            scale="category",
            categories=tuple(f"{one.pair.name}, {kind}" for one in found for kind in (passes, times)),
        ),
        bars=tuple(
            bar
            for one in found
            for bar in (
                Bar(category=f"{one.pair.name}, {passes}", value=one.passes_ratio, group=passes, look="counted"),
                Bar(
                    category=f"{one.pair.name}, {times}",
                    value=one.time_ratio,
                    low=one.time_ratio_band[0],
                    high=one.time_ratio_band[1],
                    group=times,
                ),
            )
        ),
    )
