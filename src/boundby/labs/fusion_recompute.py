"""Keeping results for backward against computing them again: bytes kept, equal gradients, passes, and times."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.labs.fusion_keeping import ELEMENTS, Found, Way, eager_passes, fused_passes, measure
from boundby.labs.lab import Settings, cpu_threads
from boundby.labs.rows import is_unsteady, noise_notes, ratio_band, times_data, turns_ratio
from boundby.labs.sentences import followed_by
from boundby.report.chart import Axis, Bar, Chart
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.units import format_number, format_time

# All that is done twice takes twice as long; a little more is the clock's.
_AT_MOST_TWICE = 2.2


def show(settings: Settings) -> Shown:
    """Counts, checks and times both ways; with ``quick`` without torch.compile."""
    found = measure(settings)
    return Shown(
        about=(
            tr(
                "y = sigmoid(sigmoid(sigmoid(x))) on n = 2^20 fp32 elements. Backward needs the three results: one "
                "autograd function keeps them, the other keeps only x and computes them again."
            ),
        ),
        blocks=(_kept_table(found), _passes_table(found), _times_table(found), _chart(found)),
        observations=tuple(_observations(found, quick=settings.quick, threads=cpu_threads(settings))),
        data=_as_data(found),
    )


def _kept_table(found: Found) -> LabTable:
    return LabTable(
        caption=tr("Kept for backward (unique storages), and whether the gradients are right"),
        head=(tr("function"), tr("kept"), tr("elements"), tr("gradient differs by"), tr("gradcheck in fp64")),
        rows=tuple(
            (
                way.label,
                _mb(way.saved_bytes),
                f"{way.saved_bytes / (4 * ELEMENTS):g}n",
                f"{found.difference:g}",
                tr("passed") if way.checked else tr("failed"),
            )
            for way in found.ways
        ),
    )


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.1f} MB"


def _passes_table(found: Found) -> LabTable:
    return LabTable(
        caption=tr("Passes over memory (read + written), were forward and backward one kernel each"),
        head=(tr("function"), tr("forward"), tr("backward"), tr("in all"), tr("op by op")),
        rows=tuple(
            (
                way.label,
                f"{way.forward.fused_read:g} + {way.forward.fused_written:g}",
                f"{way.backward.fused_read:g} + {way.backward.fused_written:g}",
                f"{fused_passes(way):g}n",
                f"{eager_passes(way):g}n",
            )
            for way in found.ways
        ),
    )


def _times_table(found: Found) -> LabTable:
    return LabTable(
        caption=tr("Time of forward and backward, medians of the rounds"),
        head=(tr("function"), tr("op by op"), tr("one kernel each"), tr("fastest"), tr("fastest of one kernel each")),
        rows=tuple(
            (
                way.label,
                format_time(way.eager.median_s),
                _missing(found) if way.fused is None else format_time(way.fused.median_s),
                format_time(way.eager.fastest_s),
                "" if way.fused is None else format_time(way.fused.fastest_s),
            )
            for way in found.ways
        ),
        timed=(1, 2, 3, 4),
        files_only=(3, 4),
    )


def _missing(found: Found) -> str:
    return tr("not possible") if found.failure else tr("left out")


def _observations(found: Found, *, quick: bool, threads: int | None) -> Iterator[Line]:
    keeping, again = found.ways
    yield Line(
        text=tr(
            "Computing again keeps {again} instead of {keeping}: a third, and the gradients are the same to the last "
            "bit, since the same ops run on the same numbers.",
            again=_mb(again.saved_bytes),
            keeping=_mb(keeping.saved_bytes),
        )
        if found.difference == 0 and 3 * again.saved_bytes == keeping.saved_bytes
        else tr(
            "Computing again keeps {again} instead of {keeping}; the gradients differ by up to {difference}.",
            again=_mb(again.saved_bytes),
            keeping=_mb(keeping.saved_bytes),
            difference=f"{found.difference:.1e}",
        )
    )
    yield Line(
        text=tr(
            "In passes over memory, computing again is cheaper too, once forward and backward are one kernel each: "
            "{again}n instead of {keeping}n, for it reads one tensor where the other writes three and reads them back. "
            "Op by op it passes more: {again_ops}n instead of {keeping_ops}n.",
            again=f"{fused_passes(again):g}",
            keeping=f"{fused_passes(keeping):g}",
            again_ops=f"{eager_passes(again):g}",
            keeping_ops=f"{eager_passes(keeping):g}",
        )
    )
    yield Line(text=_eager_times(keeping, again), timed=True)
    if again.fused is not None and keeping.fused is not None:
        yield Line(text=_fused_times(keeping, again, keeping.fused, again.fused), timed=True)
    if found.failure:
        yield Line(text=found.failure, timed=True)
    if quick:
        yield Line(
            text=tr(
                "One kernel each takes torch.compile, which a quick run leaves out. Without --quick it is timed here."
            )
        )
    times = [time for way in found.ways for time in (way.eager, way.fused) if time is not None]
    yield from noise_notes(times, threads=threads)


def _eager_times(keeping: Way, again: Way) -> str:
    values = _compared(keeping.eager, again.eager, eager_passes(again) / eager_passes(keeping))
    if is_unsteady(again.eager, keeping.eager):
        return tr(
            "Op by op, computing again took {again} where keeping took {keeping} (medians of the rounds), {low} to "
            "{high} times as long turn by turn: too unsteady to hold against the {passes} of the passes alone.",
            **values,
        )
    return tr(
        "Op by op, computing again took {again} where keeping took {keeping} (medians of the rounds): {ratio} times as "
        "long turn by turn, where the passes alone say {passes}.",
        **values,
    )


def _compared(keeping: CallTime, again: CallTime, passes_ratio: float) -> dict[str, str]:
    """Both medians, the ratio of the turns with its ends, and that of the passes, as text."""
    low, high = ratio_band(again, keeping)
    return {
        "again": format_time(again.median_s),
        "keeping": format_time(keeping.median_s),
        "ratio": format_number(turns_ratio(again, keeping), digits=2),
        "low": format_number(low, digits=2),
        "high": format_number(high, digits=2),
        "passes": format_number(passes_ratio, digits=2),
    }


def _fused_times(keeping: Way, again: Way, kept_time: CallTime, again_time: CallTime) -> str:
    ratio, passes_ratio = turns_ratio(again_time, kept_time), fused_passes(again) / fused_passes(keeping)
    values = _compared(kept_time, again_time, passes_ratio)
    if is_unsteady(again_time, kept_time):
        return tr(
            "As one kernel each, computing again took {again} where keeping took {keeping} (medians of the rounds), "
            "{low} to {high} times as long turn by turn: too unsteady to hold against the {passes} of the passes "
            "alone.",
            **values,
        )
    told = tr(
        "As one kernel each, computing again took {again} where keeping took {keeping} (medians of the rounds): "
        "{ratio} times as long turn by turn, where the passes alone say {passes}.",
        **values,
    )
    if ratio <= 1.25 * passes_ratio:
        return told
    if ratio > _AT_MOST_TWICE:
        return followed_by(
            told,
            tr(
                "Computing the sigmoids twice can at most double the time: something else slows it on this machine, "
                "and what that is is not known from these times."
            ),
        )
    return followed_by(
        told,
        tr(
            "Fewer passes do not decide alone here: the three sigmoids are computed twice, which takes time of its own."
        ),
    )


def _chart(found: Found) -> Chart:
    bars: list[Bar] = []
    for way in found.ways:
        for group, total in ((tr("op by op"), eager_passes(way)), (tr("one kernel each"), fused_passes(way))):
            bars.append(
                Bar(category=f"{way.label}, {group}", value=total, group=group, look="counted", label=f"{total:g}n")
            )
    return Chart(
        name="fusion-recompute",
        title=tr("Passes over memory of forward and backward"),
        summary=tr(
            "By count, in units of n: {bars}.", bars=tr("; ").join(f"{bar.category} {bar.label}" for bar in bars)
        ),
        x=Axis(name=tr("passes over memory")),
        y=Axis(name=tr("function"), scale="category", categories=tuple(bar.category for bar in bars)),
        bars=tuple(bars),
    )


def _as_data(found: Found) -> dict[str, object]:
    return {
        "elements": ELEMENTS,
        "largest_gradient_difference": found.difference,
        "not_compiled_because": found.failure or None,
        "functions": [
            {
                "name": way.name,
                "saved_bytes": way.saved_bytes,
                "gradcheck": way.checked,
                "passes_forward_read": way.forward.fused_read,
                "passes_forward_written": way.forward.fused_written,
                "passes_backward_read": way.backward.fused_read,
                "passes_backward_written": way.backward.fused_written,
                "passes_fused": fused_passes(way),
                "passes_op_by_op": eager_passes(way),
                "eager": times_data(way.eager),
                "fused": times_data(way.fused),
            }
            for way in found.ways
        ],
    }
