"""Lab `measure`, demonstration 2: a multiply in place, from what a cache holds to what only memory does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import boundby
from boundby.labs import measure_matmul
from boundby.labs.lab import Settings
from boundby.labs.rows import goes_down, last_flat, noise_notes, times_data
from boundby.labs.sentences import followed_by
from boundby.report.chart import Axis, Chart
from boundby.report.chart import Line as Curve
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.report.levels import Level, bandwidth_levels
from boundby.report.report_words import listed
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.machine import Ceiling
from boundby.results.units import format_number, format_si, format_size, format_time
from boundby.timing.statistics import median

NAME = "bandwidth"
POWERS = tuple(range(10, 27))
QUICK_POWERS = (10, 12, 14, 16, 18, 20, 22, 24, 25)
# From this size on, no cache is taken to hold the array.
MEMORY_POWER = 24
# The factor keeps the size of a number for ever, however many rounds multiply by it.
FACTOR = -1.0
# Rates of large arrays within this factor of each other are one bandwidth.
_AGREE = 1.25
# Times that grow by less than this hardly move.
_HARDLY_MOVES = 1.25
# An A100's dense 16-bit peak (FLOP/s) and the bandwidth of its 40 GB (byte/s). Source: NVIDIA A100 datasheet (2020).
A100_FLOPS_PER_S, A100_BYTES_PER_S = 312e12, 1.555e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiply:
    """A multiply in place of 2 ** ``power`` numbers: its work on paper, and its time."""

    power: int
    size_bytes: int
    moved_bytes: int
    flops: int
    time: CallTime

    @property
    def bytes_per_s(self) -> float:
        """Bytes read and written a second, of the fastest round."""
        return self.moved_bytes / self.time.fastest_s

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.moved_bytes


def time_multiplies(settings: Settings, powers: Sequence[int]) -> tuple[Multiply, ...]:
    """Times ``x.mul_(-1)`` for each size."""
    found = []
    for done, power in enumerate(powers):
        settings.progress(done / len(powers))
        x = torch.rand(2**power, generator=torch.Generator().manual_seed(power)) + 0.5

        def multiply(x: torch.Tensor = x) -> None:
            x.mul_(FACTOR)

        counts = boundby.count(multiply)
        (time,) = boundby.time_calls(multiply, round_s=settings.round_s)
        found.append(
            Multiply(
                power=power,
                size_bytes=x.nbytes,
                moved_bytes=counts.bytes_read + counts.bytes_written,
                flops=counts.pointwise_flops,
                time=time,
            )
        )
    return tuple(found)


def memory_bandwidth(found: Sequence[Multiply]) -> float:
    """Bytes a second of arrays of 2^24 elements and more: the median over the sizes."""
    return median([one.bytes_per_s for one in found if one.power >= MEMORY_POWER])


def bandwidth_range(found: Sequence[Multiply]) -> tuple[float, float]:
    """The lowest and the highest of the rates that ``memory_bandwidth`` is the median of, bytes a second."""
    rates = [one.bytes_per_s for one in found if one.power >= MEMORY_POWER]
    return min(rates), max(rates)


def cache_levels(found: Sequence[Multiply]) -> tuple[Level, ...]:
    """The stretches of sizes with about one rate, as clear as they are on this machine; none where there are none."""
    return bandwidth_levels(
        [
            Ceiling(
                kind="bandwidth",
                name="inplace",
                size_bytes=one.size_bytes,
                value=one.bytes_per_s,
                low=one.moved_bytes / one.time.slowest_s,
                high=one.bytes_per_s,
                unit="byte/s",
            )
            for one in found
        ],
        "inplace",
    )


def show(settings: Settings) -> Shown:
    """Times the multiplies; says where the call, a cache and memory bind, and what this machine's ridge point is."""
    found = time_multiplies(settings, QUICK_POWERS if settings.quick else POWERS)
    bandwidth = memory_bandwidth(found)
    levels = cache_levels(found)
    peak = measure_matmul.matmul_peak(settings)
    ridge = peak / bandwidth
    return Shown(
        about=(
            tr(
                "x.mul_(-1) reads and writes each number of 4 bytes: 8 bytes for 1 FLOP, which is 0.125 FLOP/byte. (By "
                "-1, so that no value grows or vanishes, however often it is done.) Watch three stretches: the call, "
                "the caches, the memory."
            ),
        ),
        blocks=(
            _table(found),
            _chart(found, bandwidth, levels),
            Line(text=_ridge_told(found, bandwidth, peak), timed=True),
            Line(
                text=tr(
                    "For comparison, an A100 in 16 bits, by its data sheet: {peak} over {bandwidth} is about {ridge} "
                    "FLOP/byte.",
                    peak=format_si(A100_FLOPS_PER_S, "FLOP/s"),
                    bandwidth=format_si(A100_BYTES_PER_S, "B/s", digits=4),
                    ridge=format_number(A100_FLOPS_PER_S / A100_BYTES_PER_S, digits=1),
                ),
            ),
        ),
        observations=(
            *_observations(found, bandwidth, levels, ridge),
            *noise_notes([one.time for one in found], one_thread=True),
        ),
        data={
            "bytes_per_s": bandwidth,
            "bytes_per_s_low": bandwidth_range(found)[0],
            "bytes_per_s_high": bandwidth_range(found)[1],
            "peak_flops_per_s": peak,
            "ridge_flop_per_byte": ridge,
            "ridge_flop_per_byte_low": peak / bandwidth_range(found)[1],
            "ridge_flop_per_byte_high": peak / bandwidth_range(found)[0],
            "levels": [
                {"up_to_bytes": one.largest_bytes, "bytes_per_s": one.bytes_per_s.value, "open_ended": one.open_ended}
                for one in levels
            ],
            "rows": [_row_data(one) for one in found],
        },
    )


def _ridge_told(found: Sequence[Multiply], bandwidth: float, peak: float) -> str:
    """The ridge point with its range, and what it was made of."""
    low, high = bandwidth_range(found)
    told = tr(
        "Peak {peak}; bandwidth {bandwidth}, the median of the rows {rows} ({low} to {high}): the ridge point of this "
        "machine is {ridge} FLOP/byte ({least} to {most}).",
        peak=format_si(peak, "FLOP/s"),
        bandwidth=format_si(bandwidth, "B/s"),
        rows=tr(", ").join(f"2^{one.power}" for one in found if one.power >= MEMORY_POWER),
        low=format_si(low, "B/s"),
        high=format_si(high, "B/s"),
        ridge=format_number(peak / bandwidth, digits=2),
        least=format_number(peak / high, digits=2),
        most=format_number(peak / low, digits=2),
    )
    if high <= _AGREE * low:
        return told
    return followed_by(told, tr("These rows disagree: take the range and not the one number."))


def _row_data(one: Multiply) -> dict[str, Any]:
    return {
        "elements": 2**one.power,
        "size_bytes": one.size_bytes,
        "moved_bytes": one.moved_bytes,
        "flop_per_byte": one.intensity,
        **times_data(one.time),
        "bytes_per_s": one.bytes_per_s,
    }


def _table(found: Sequence[Multiply]) -> LabTable:
    return LabTable(
        caption="",
        head=(tr("elements"), tr("size"), tr("FLOP/byte"), tr("time"), tr("median"), "GB/s"),
        rows=tuple(
            (
                f"2^{one.power}",
                format_size(one.size_bytes),
                format_number(one.intensity),
                format_time(one.time.fastest_s),
                format_time(one.time.median_s),
                format_number(one.bytes_per_s / 1e9),
            )
            for one in found
        ),
        timed=(3, 4, 5),
        files_only=(4,),
        left=(),
    )


def _observations(found: Sequence[Multiply], bandwidth: float, levels: Sequence[Level], ridge: float) -> list[Line]:
    first = found[0]
    times = [one.time for one in found]
    flat = found[last_flat(times)]
    best = max(found, key=lambda one: one.bytes_per_s)
    large = [one for one in found if one.power >= MEMORY_POWER]
    told = []
    if goes_down(times[: found.index(flat) + 1]):
        told.append(
            tr(
                "Up to 2^{power} elements the time goes down somewhere as the array grows: too unsteady to say what a "
                "call costs, and the GB/s of those rows are no bandwidth.",
                power=str(flat.power),
            )
        )
    elif flat is not first and flat.time.fastest_s > _HARDLY_MOVES * first.time.fastest_s:
        told.append(
            tr(
                "Up to 2^{power} elements, {work} times those of the first row, the time grows {ratio}-fold ({first} "
                "to {last}): the cost of the call is half of it or more, and the GB/s of those rows are no bandwidth.",
                power=str(flat.power),
                work=f"{2 ** (flat.power - first.power):,}",
                ratio=format_number(flat.time.fastest_s / first.time.fastest_s, digits=2),
                first=format_time(first.time.fastest_s, digits=2),
                last=format_time(flat.time.fastest_s, digits=2),
            )
        )
    elif flat is not first:
        told.append(
            tr(
                "Up to 2^{power} elements the time hardly moves ({first} to {last}): the cost of the call binds, and "
                "the GB/s of those rows are no bandwidth.",
                power=str(flat.power),
                first=format_time(first.time.fastest_s, digits=2),
                last=format_time(flat.time.fastest_s, digits=2),
            )
        )
    if best.bytes_per_s > 1.25 * bandwidth:
        told.append(
            tr(
                "The highest rate is {best} at {size}, which a cache holds: {ratio} times the {bandwidth} from memory, "
                "at 2^{power} elements and more.",
                best=format_si(best.bytes_per_s, "B/s"),
                size=format_size(best.size_bytes),
                power=str(MEMORY_POWER),
                bandwidth=format_si(bandwidth, "B/s"),
                ratio=format_number(best.bytes_per_s / bandwidth, digits=2),
            )
        )
    else:
        told.append(
            tr(
                "No cache shows here: the highest rate, {best} at {size}, is not much above the {bandwidth} at "
                "2^{power} elements and more.",
                best=format_si(best.bytes_per_s, "B/s"),
                size=format_size(best.size_bytes),
                bandwidth=format_si(bandwidth, "B/s"),
                power=str(MEMORY_POWER),
            )
        )
    caches = [one for one in levels if not one.open_ended]
    if caches and _goes_up_and_down(found):
        told.append(
            tr(
                "The curve falls and rises again, so that where a cache ends cannot be told from it: something else "
                "ran on this machine."
            )
        )
    elif caches:
        told.append(
            tr(
                "Flat stretches of the curve end at {plateaus}: there a cache ends, and a slower one or the memory "
                "takes over.",
                plateaus=listed(
                    [
                        tr(
                            "{value} ({note})",
                            value=format_size(one.largest_bytes),
                            note=format_si(one.bytes_per_s.value, "B/s"),
                        )
                        for one in caches
                    ]
                ),
            )
        )
    if large[-1].bytes_per_s < 0.8 * large[0].bytes_per_s:
        told.append(
            tr(
                "From {small} to {large} the rate still falls ({first} to {last}): a cache of this machine may hold a "
                "good part of the smaller one, so that memory itself is slower than the bandwidth above.",
                small=format_size(large[0].size_bytes),
                large=format_size(large[-1].size_bytes),
                first=format_si(large[0].bytes_per_s, "B/s"),
                last=format_si(large[-1].bytes_per_s, "B/s"),
            )
        )
    told.append(
        tr(
            "The ridge point is {share} times the FLOP/byte of a multiply: memory binds it, and the arithmetic units "
            "wait. A product of matrices has n/6 FLOP/byte and passes the ridge point at about n = {n}; where the cost "
            "of the call still binds there, that matters more.",
            share=format_number(ridge / first.intensity, digits=2),
            n=format_number(6 * ridge, digits=2),
        )
    )
    return [Line(text=text, timed=True) for text in told]


def _goes_up_and_down(found: Sequence[Multiply]) -> bool:
    """Whether the rate, once it has been highest, rises clearly again: neither a cache nor memory does that."""
    rates = [one.bytes_per_s for one in found]
    least = math.inf
    for rate in rates[rates.index(max(rates)) :]:
        if rate > 1.25 * least:
            return True
        least = min(least, rate)
    return False


def _first_at(found: Sequence[Multiply], level: Level) -> float:
    """The smallest size that comes near the level's rate: below it, the cost of the call binds."""
    near = [one.size_bytes for one in found if one.bytes_per_s >= 0.8 * level.bytes_per_s.value]
    return float(min(near, default=level.smallest_bytes))


def _chart(found: Sequence[Multiply], bandwidth: float, levels: Sequence[Level]) -> Chart:
    sizes = tuple(float(one.size_bytes) for one in found)
    best = max(found, key=lambda one: one.bytes_per_s)
    return Chart(
        name="multiply-bandwidth",
        title=tr("Bandwidth of a multiply in place against the size of the array"),
        summary=tr(
            "The rate is highest, {best}, at {size}, and {bandwidth} for arrays of 64 MiB and more.",
            best=format_si(best.bytes_per_s, "B/s"),
            size=format_size(best.size_bytes),
            bandwidth=format_si(bandwidth, "B/s"),
        ),
        x=Axis(name=tr("size of the array"), unit="byte", scale="log"),
        y=Axis(name=tr("read and written"), unit="byte/s", scale="log"),
        lines=(
            Curve(
                name=tr("fastest round, down to the slowest"),
                x=sizes,
                y=tuple(one.bytes_per_s for one in found),
                low=tuple(one.moved_bytes / one.time.slowest_s for one in found),
                high=tuple(one.bytes_per_s for one in found),
            ),
            Curve(
                name=tr("memory: the median from 2^24 elements on"),
                x=(sizes[0], sizes[-1]),
                y=(bandwidth, bandwidth),
                points=False,
            ),
            *(
                Curve(
                    name=tr("a plateau, up to {size}", size=format_size(one.largest_bytes)),
                    x=(_first_at(found, one), float(one.largest_bytes)),
                    y=(one.bytes_per_s.value, one.bytes_per_s.value),
                    points=False,
                )
                for one in levels
                if not one.open_ended and _first_at(found, one) < one.largest_bytes
            ),
        ),
    )
