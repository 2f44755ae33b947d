"""Functions made of several ops: what fusing them into one kernel gains, by passes over memory and as measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

from boundby.labs.fusion_ways import Found, Measured, Way, measure
from boundby.labs.lab import Settings, cpu_threads
from boundby.labs.rows import is_unsteady, noise_notes, ratio_band, times_data
from boundby.labs.sentences import followed_by
from boundby.report.chart import Axis, Bar, Chart
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.language import tr, trn
from boundby.results.units import format_count, format_number, format_ratio, format_size, format_time

TOLERANCE = 1e-5
# A kernel that takes less than this many times as long as copying the same bytes is bound by them.
_LIKE_A_COPY = 1.5
# A new tensor that costs more than this many times as much as one that is there is worth a sentence.
_COSTLY = 1.2
# A gain above the ratio of passes by less than this is as good as the ratio.
_CLEARLY = 1.1


def show(settings: Settings) -> Shown:
    """Counts the passes, and times the ways on 2^24 elements; with ``quick`` on 2^22, without torch.compile."""
    found = measure(settings)
    return Shown(
        about=(
            tr(
                "Op by op, each op reads its arguments from memory and writes its result there. One kernel reads the "
                "input once and writes the result once. Where memory binds, the ratio of passes is what fusing gains."
            ),
            tr(
                "Passes of a tensor of n elements, counted by boundby. sin²(x) + cos²(x) reads 6n and writes 5n in "
                "five kernels, and n and n in one."
            ),
        ),
        blocks=(
            _passes_table(found),
            _times_table(found),
            *(() if settings.quick else (_chart(found),)),
        ),
        observations=tuple(_observations(found, quick=settings.quick, threads=cpu_threads(settings))),
        data=_as_data(found),
    )


def _passes_table(found: Found) -> LabTable:
    return LabTable(
        caption=tr("Passes over memory, in units of n"),
        head=(tr("function"), tr("kernels"), tr("read"), tr("written"), tr("in all"), tr("fused"), tr("at most")),
        rows=tuple(
            (
                one.case.label,
                format_count(one.counted.launches),
                _n(one.counted.read),
                _n(one.counted.written),
                _n(one.counted.total),
                _n(one.counted.fused_total),
                format_ratio(one.counted.gain),
            )
            for one in found.measured
        ),
    )


def _n(passes_counted: float) -> str:
    return f"{passes_counted:g}n"


def _times_table(found: Found) -> LabTable:
    rows = [
        (
            one.case.label,
            way.label,
            format_time(way.time.fastest_s),
            format_ratio(one.gain(way)),
            "" if way.difference is None else f"{way.difference:.1e}",
            "" if way.difference is None else _equal(way.difference),
            format_time(way.time.median_s),
        )
        for one in found.measured
        for way in one.ways
    ]
    copy = tr("copy")
    for label, time in ((tr("into a tensor that is there"), found.there), (tr("into a new tensor"), found.fresh)):
        rows.append((copy, label, format_time(time.fastest_s), "", "", "", format_time(time.median_s)))
    return LabTable(
        caption=tr(
            "Times of n = {elements} fp32 elements ({size}); a copy makes 2 passes",
            elements=f"{found.elements:,}",
            size=format_size(found.size_bytes),
        ),
        head=(tr("function"), tr("how"), tr("time"), tr("gain"), tr("difference"), tr("equal"), tr("median")),
        rows=tuple(rows),
        timed=(2, 3, 4, 5, 6),
        files_only=(6,),
        left=(0, 1),
    )


def _equal(difference: float) -> str:
    return tr("yes") if difference <= TOLERANCE else tr("no")


def _observations(found: Found, *, quick: bool, threads: int | None) -> Iterator[Line]:
    for one in found.measured:
        if one.fused is not None:
            yield Line(text=_gained(one, one.fused, found), timed=True)
        if one.library is not None:
            yield Line(text=_library(one, one.library), timed=True)
    failures = dict.fromkeys(one.compiled.failure for one in found.measured if one.compiled is not None)
    yield from (Line(text=failure, timed=True) for failure in failures if failure)
    if found.fresh.fastest_s > _COSTLY * found.there.fastest_s:
        yield Line(text=_fresh(found), timed=True)
    yield from (Line(text=text, timed=True) for text in _compiling(found))
    if quick:
        yield Line(
            text=tr(
                "torch.compile is left out of a quick run: its first compilation alone takes some 5 to 20 s. Without "
                "--quick it is compared here."
            )
        )
    yield Line(
        text=tr(
            "Equal means that no element differs by more than {tolerance} from op by op. A fused kernel may round "
            "otherwise, so that the last digits may differ.",
            tolerance="1e-5",
        )
    )
    times = [found.there, found.fresh, *(way.time for one in found.measured for way in one.ways)]
    yield from noise_notes(times, threads=threads)


def _times(ratio: float | None) -> str:
    return format_number(ratio, digits=2)


def _gained(one: Measured, fused: Way, found: Found) -> str:
    gain, most = one.gain(fused), one.counted.gain
    if is_unsteady(one.eager.time, fused.time):
        low, high = ratio_band(one.eager.time, fused.time)
        return tr(
            "{name}: one kernel was {gain} times as fast as op by op by the fastest rounds, {low} to {high} turn by "
            "turn: too unsteady to hold against the {most} that the passes alone allow.",
            name=one.case.label,
            gain=_times(gain),
            low=_times(low),
            high=_times(high),
            most=_times(most),
        )
    told = tr(
        "{name}: one kernel took {fused}, op by op {eager}: {gain} times as fast, where the passes alone allow {most}.",
        name=one.case.label,
        fused=format_time(fused.time.fastest_s),
        eager=format_time(one.eager.time.fastest_s),
        gain=_times(gain),
        most=_times(most),
    )
    why = _binds(fused, found)
    if most is not None and gain > _CLEARLY * most:
        more = (
            tr("More than the passes allow, since op by op also makes a new tensor for each result.")
            if found.fresh.fastest_s > _COSTLY * found.there.fastest_s
            else tr("More than the passes allow; why is not known from these times.")
        )
        why = followed_by(why, more)
    return followed_by(told, why)


def _binds(fused: Way, found: Found) -> str:
    """What binds a kernel, beside copies of the same bytes into the same kind of memory."""
    beside = fused.time.fastest_s / found.fresh.fastest_s
    if is_unsteady(fused.time, found.fresh):
        return tr("The copies beside it were too unsteady to say what binds it.")
    if beside < 1 / _LIKE_A_COPY:
        return tr(
            "It takes {beside} times as long as copying n into a new tensor, which has the same 2 passes: less than "
            "moving its bytes, so that the copy was slowed by something else and says nothing of what binds it.",
            beside=_times(beside),
        )
    if beside > _LIKE_A_COPY:
        return tr(
            "It takes {beside} times as long as copying n into a new tensor, which has the same 2 passes: computing "
            "the function binds it, no longer the bytes, and fewer passes would gain nothing more.",
            beside=_times(beside),
        )
    if found.fresh.fastest_s > 2 * found.there.fastest_s:
        return tr(
            "It takes {beside} times as long as copying n into a new tensor, and most of that is the new memory: the "
            "same 2 passes with a tensor that is there take {there}.",
            beside=_times(beside),
            there=format_time(found.there.fastest_s),
        )
    return tr(
        "It takes {beside} times as long as copying n into a new tensor, which has the same 2 passes: moving the bytes "
        "is most of it, and memory binds.",
        beside=_times(beside),
    )


def _library(one: Measured, library: Way) -> str:
    if is_unsteady(one.eager.time, library.time):
        low, high = ratio_band(one.eager.time, library.time)
        return tr(
            "{library}, one kernel written by hand, was {gain} times as fast as op by op by the fastest rounds, {low} "
            "to {high} turn by turn: too unsteady to say what it gains.",
            library=library.label,
            gain=_times(one.gain(library)),
            low=_times(low),
            high=_times(high),
        )
    told = tr(
        "{library}, one kernel written by hand, took {time}: {gain} times as fast as op by op.",
        library=library.label,
        time=format_time(library.time.fastest_s),
        gain=_times(one.gain(library)),
    )
    if one.fused is None or is_unsteady(one.fused.time, library.time):
        return told
    return followed_by(
        told,
        tr(
            "The one that torch.compile made from {count} ops took {ratio} times as long.",
            count=format_count(one.counted.launches),
            ratio=_times(one.fused.time.fastest_s / library.time.fastest_s),
        ),
    )


def _fresh(found: Found) -> str:
    return tr(
        "A copy into a new tensor took {fresh}, into one that is there {there}: new memory has to be provided by the "
        "operating system, page by page. Each op's result is a new tensor; fusing saves all of them but the last.",
        fresh=format_time(found.fresh.fastest_s),
        there=format_time(found.there.fastest_s),
    )


def _compiling(found: Found) -> Iterator[str]:
    """What compiling cost, and after how many calls it has paid."""
    for one in found.measured:
        if one.fused is None or one.compiled is None or one.compiled.first_s is None:
            continue
        saved_s = one.eager.time.fastest_s - one.fused.time.fastest_s
        cost_s = one.compiled.first_s
        if is_unsteady(one.eager.time, one.fused.time):
            yield tr(
                "{name}: the first call, which compiles, took {time}; what later calls gain is too unsteady to say "
                "when that is paid back.",
                name=one.case.label,
                time=format_time(cost_s, digits=2),
            )
            continue
        if saved_s <= 0:
            yield tr(
                "{name}: the first call, which compiles, took {time}; later calls are no faster for it.",
                name=one.case.label,
                time=format_time(cost_s, digits=2),
            )
            continue
        yield trn(
            "{name}: the first call, which compiles, took {time}; that is paid back after {count} call of this size.",
            "{name}: the first call, which compiles, took {time}; that is paid back after {count} calls of this size.",
            math.ceil(cost_s / saved_s),
            name=one.case.label,
            time=format_time(cost_s, digits=2),
        )


def _chart(found: Found) -> Chart:
    bars: list[Bar] = []
    for one in found.measured:
        if one.counted.gain is not None:
            bars.append(
                Bar(
                    category=tr("{name}: by passes", name=one.case.label),
                    value=one.counted.gain,
                    group=tr("predicted by passes"),
                    look="modelled",
                    label=format_ratio(one.counted.gain),
                )
            )
        for way in one.ways:
            if way is one.eager:
                continue
            gain = one.gain(way)
            bars.append(
                Bar(
                    category=f"{one.case.label}: {way.label}",
                    value=gain,
                    low=min(gain, one.eager.time.fastest_s / way.time.slowest_s),
                    high=max(gain, one.eager.time.slowest_s / way.time.fastest_s),
                    group=tr("measured"),
                    label=format_ratio(gain),
                )
            )
    return Chart(
        name="fusion-gain",
        title=tr("What fusing gains: predicted by passes, and measured"),
        summary=tr(
            "Times as fast as op by op: {bars}.",
            bars=tr("; ").join(f"{bar.category} {bar.label}" for bar in bars),
        ),
        x=Axis(name=tr("times as fast as op by op")),
        y=Axis(name=tr("function"), scale="category", categories=tuple(bar.category for bar in bars)),
        bars=tuple(bars),
    )


def _as_data(found: Found) -> dict[str, object]:
    return {
        "elements": found.elements,
        "size_bytes": found.size_bytes,
        "tolerance": TOLERANCE,
        "copy": times_data(found.there),
        "copy_into_a_new_tensor": times_data(found.fresh),
        "functions": [
            {
                "name": one.case.name,
                "kernels": one.counted.launches,
                "passes_read": one.counted.read,
                "passes_written": one.counted.written,
                "passes_fused": one.counted.fused_total,
                "gain_at_most": one.counted.gain,
                "eager": times_data(one.eager.time),
                "compiled": _way_data(one.fused),
                "compiled_first_call_s": one.compiled.first_s if one.compiled else None,
                "compiled_passes": one.compiled.found.total if one.compiled and one.compiled.found else None,
                "not_compiled_because": one.compiled.failure if one.compiled and one.compiled.failure else None,
                "library": _way_data(one.library),
            }
            for one in found.measured
        ],
    }


def _way_data(way: Way | None) -> dict[str, object] | None:
    if way is None:
        return None
    return {**times_data(way.time), "largest_difference": way.difference}
