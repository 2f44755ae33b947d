"""The roofline on a report's page: the machine's measured ceilings, and the ops of the step as marks under them.

Source: Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model for Multicore Architectures"
(2009): attainable FLOP/s = min(peak FLOP/s, FLOP/byte x bytes/s).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from boundby.report.chart import Axis, Chart, Line, Mark
from boundby.report.document import Block, Paragraph, Section, Table
from boundby.report.report_words import (
    floor_text,
    floors_by_name,
    followed,
    listed,
    phase_name,
    place_of,
    share_name,
    share_text,
    short_name,
    step_seconds,
)
from boundby.report.roofline import Line as Limit
from boundby.report.roofline import Ridge, Roofline, roofline
from boundby.results.language import tr, trn
from boundby.results.machine import Machine
from boundby.results.op_names import op_name
from boundby.results.report import OpRow, Report
from boundby.results.units import digits_for, format_percent, format_rate, format_si, format_time

MOST_MARKS = 150
_ENOUGH = 0.99
_MOST_BESIDE = 12
# Beyond the outermost mark, as a factor.
_ROOM = 2.0


def roofline_section(report: Report, *, folder: str | None) -> Section | None:
    """The step's ops under the machine's ceilings, and beside it the ops that have no place there; None without ops."""
    if not report.ops:
        return None
    return Section(title=tr("Roofline"), blocks=tuple(_blocks(report, folder)))


def _blocks(report: Report, folder: str | None) -> Iterator[Block]:
    drawn = [one for one in report.ops if is_drawn(one)]
    beside = [one for one in report.ops if not is_drawn(one) and one.time_s > 0]
    limits = roofline(report.machine)
    if limits is None:
        yield Paragraph(
            text=tr("Not drawn: no ceiling of matrix products, or none of bandwidth, is known of this machine.")
        )
    elif not drawn:
        yield Paragraph(text=tr("Not drawn: no op of the step has both FLOPs and bytes that are known."))
    else:
        yield _chart(report, limits, sorted(drawn, key=lambda one: -one.time_s), folder)
        if limits.below:
            low = listed([f"{one.name} {_rate(one)}" for one in limits.below])
            yield Paragraph(text=tr("Too low to draw: {limits}.", limits=low), note=True)
    if beside:
        yield _beside(beside, report, folder)


def is_drawn(row: OpRow) -> bool:
    """Whether ops have a place on a roofline: both of its axes are known of them, and neither is 0."""
    return row.modelled and flops_of(row) > 0 and bytes_of(row) > 0 and row.time_s > 0


def flops_of(row: OpRow) -> int:
    """FLOPs of matrix products and of pointwise ops together."""
    return row.matmul_flops + row.pointwise_flops


def bytes_of(row: OpRow) -> int:
    """Bytes read and written."""
    return row.bytes_read + row.bytes_written


def ceiling_lines(machine: Machine, *, x: tuple[float, float] | None = None) -> tuple[Line, ...]:
    """A machine's slopes and roofs as lines of a chart, each with its band; none where there is no roofline.

    Args:
        machine: the ceilings.
        x: the range they are drawn over, FLOP/byte; at least what shows all of their meetings.
    """
    limits = roofline(machine)
    return () if limits is None else _ceiling_lines(limits, _range(limits, x))


def _range(limits: Roofline, x: tuple[float, float] | None) -> tuple[float, float]:
    return limits.x if x is None else (min(limits.x[0], x[0]), max(limits.x[1], x[1]))


def _ceiling_lines(limits: Roofline, x: tuple[float, float]) -> tuple[Line, ...]:
    first, last = x
    slopes = [_line(one, (first, limits.slope_end(one)), rate=True) for one in limits.slopes]
    roofs = [_line(one, (max(first, limits.roof_start(one)), last), rate=False) for one in limits.roofs]
    return (*slopes, *roofs)


def _line(limit: Limit, x: tuple[float, float], *, rate: bool) -> Line:
    one = limit.ceiling

    def at(value: float) -> tuple[float, ...]:
        return tuple(value * place for place in x) if rate else (value, value)

    return Line(
        name=f"{limit.name} {_rate(limit)}",
        x=x,
        y=at(one.value),
        low=at(one.low),
        high=at(one.high),
        look=one.source,
        points=False,
        name_at="first" if rate else "last",
        background=True,
    )


def _rate(limit: Limit) -> str:
    one = limit.ceiling
    return format_rate(one.value, one.unit, digits=digits_for(one.value, one.low, one.high))


def _chart(report: Report, limits: Roofline, drawn: Sequence[OpRow], folder: str | None) -> Chart:
    shown = _costliest(drawn)
    places = [flops_of(one) / bytes_of(one) for one in shown]
    x = _range(limits, (min(places) / _ROOM, max(places) * _ROOM))
    return Chart(
        name="roofline",
        title=tr("The step's ops under this machine's ceilings")
        if report.modelled_for is None
        else tr("The step's ops under the other machine's ceilings, modelled"),
        summary=_summary(limits, drawn, shown),
        x=Axis(name=tr("FLOP done a byte moved"), unit="flop/byte", scale="log"),
        y=Axis(name=tr("FLOP/s reached"), unit="flop/s", scale="log"),
        lines=_ceiling_lines(limits, x),
        marks=tuple(_mark(one, limits, report, folder) for one in shown),
    )


def _costliest(drawn: Sequence[OpRow]) -> Sequence[OpRow]:
    """The groups that together take most of the time of all; tiny ones would stretch the axes over nothing."""
    enough = _ENOUGH * sum(one.time_s for one in drawn)
    reached = 0.0
    for place, one in enumerate(drawn):
        if reached >= enough or place == MOST_MARKS:
            return drawn[:place]
        reached += one.time_s
    return drawn


def _summary(limits: Roofline, drawn: Sequence[OpRow], shown: Sequence[OpRow]) -> str:
    roofs = listed([f"{one.name} {_rate(one)}" for one in limits.roofs])
    parts = [
        trn(
            "{count} group of ops, each a mark as large as its share of time.",
            "{count} groups of ops, each a mark as large as its share of time.",
            len(shown),
        ),
        tr("Flat lines are matrix products ({roofs}), slopes levels of memory.", roofs=roofs),
    ]
    ridge = _ridge(limits, drawn)
    if ridge is not None:
        parts.append(
            tr(
                "Left of {ridge}, main memory ({rate}) keeps an op from the {name} roof.",
                ridge=format_si(ridge.flop_per_byte, "FLOP/byte", digits=2),
                rate=_rate(limits.main),
                name=ridge.roof.name,
            )
        )
    if len(shown) < len(drawn):
        left = sum(one.share for one in drawn[len(shown) :])
        parts.append(
            tr(
                "{more} smaller groups, {share} of the step together, are not drawn.",
                more=f"{len(drawn) - len(shown):,}",
                share=format_percent(left),
            )
        )
    return followed(*parts)


def _ridge(limits: Roofline, drawn: Sequence[OpRow]) -> Ridge | None:
    """The ridge point of the dtype that most matrix products are in; of the highest roof where that has none."""
    flops: dict[str | None, int] = {}
    for one in drawn:
        flops[one.dtype] = flops.get(one.dtype, 0) + one.matmul_flops
    ridges = sorted(limits.ridges, key=lambda one: -one.flop_per_s)
    most = max(flops, key=lambda dtype: flops[dtype], default=None)
    return next((one for one in ridges if one.roof.name == most), ridges[0] if ridges else None)


def _mark(row: OpRow, limits: Roofline, report: Report, folder: str | None) -> Mark:
    seconds = step_seconds(row, report)
    x, y = flops_of(row) / bytes_of(row), flops_of(row) / seconds
    return Mark(
        x=x,
        y=y,
        size=seconds,
        group=share_name(row.floors.bound),
        label=short_name(op_name(row.op)),
        details=tuple(_details(row, report, folder, above=_is_above(limits, x, y))),
    )


def _is_above(limits: Roofline, x: float, y: float) -> bool:
    """Whether ops were faster than the highest roof and the fastest slope allow at the upper ends of their bands."""
    roof = max(one.ceiling.high for one in limits.roofs)
    slope = max(one.ceiling.high for one in limits.slopes)
    return y > min(roof, slope * x)


def _details(row: OpRow, report: Report, folder: str | None, *, above: bool) -> Iterator[str]:
    yield tr("at {place}", place=place_of(row.path, row.line, folder))
    if row.module:
        yield tr("in {module}, {phase}", module=short_name(row.module), phase=phase_name(row.phase))
    else:
        yield phase_name(row.phase)
    time = format_time(step_seconds(row, report), digits=2)
    yield trn(
        "{count} call, {time}, {share} of the step",
        "{count} calls, {time}, {share} of the step",
        row.calls,
        time=time,
        share=share_text(row.share, report),
    )
    yield floor_text(row.floors, step_seconds(row, report))
    floors = floors_by_name(row.floors)
    if len(floors) > 1:
        told = listed([f"{share_name(name)} {format_time(seconds, digits=2)}" for name, seconds in floors.items()])
        yield tr("floors: {floors}", floors=told)
    if row.dtype and row.shapes:
        yield tr("{dtype}, shapes {shapes}", dtype=row.dtype, shapes=short_name(row.shapes))
    elif row.shapes:
        yield tr("shapes {shapes}", shapes=short_name(row.shapes))
    if above:
        yield tr("above the ceilings: caught in a faster cache, or one of the measurements is off")


@dataclass(slots=True)
class _Group:
    """Ops of one name and source line, over all of their modules and phases."""

    row: OpRow
    time_s: float = 0.0
    share: float = 0.0
    moved: int = 0

    def why(self) -> str:
        """Why it has no place on the roofline."""
        if not self.row.modelled:
            return tr("could not be modelled")
        if self.moved == 0:
            return tr("moves no byte")
        return tr("no FLOP; {rate}", rate=format_rate(self.moved / self.time_s, "byte/s", digits=2))


def _beside(rows: Sequence[OpRow], report: Report, folder: str | None) -> Table:
    """Ops without a place on the roofline: those that only move bytes, and those whose costs are not known."""
    groups: dict[tuple[str, str | None, int | None, bool], _Group] = {}
    for one in rows:
        group = groups.setdefault((one.op, one.path, one.line, one.modelled), _Group(row=one))
        group.time_s += step_seconds(one, report)
        group.share += one.share
        group.moved += bytes_of(one)
    ordered = sorted(groups.values(), key=lambda one: -one.time_s)
    cells = [
        (
            short_name(op_name(one.row.op)),
            place_of(one.row.path, one.row.line, folder),
            format_time(one.time_s, digits=2),
            share_text(one.share, report),
            share_name(one.row.floors.bound),
            one.why(),
        )
        for one in ordered[:_MOST_BESIDE]
    ]
    rest = ordered[_MOST_BESIDE:]
    if rest:
        time, share = sum(one.time_s for one in rest), sum(one.share for one in rest)
        more = trn("{count} more", "{count} more", len(rest))
        cells.append((more, "", format_time(time, digits=2), share_text(share, report), "", ""))
    return Table(
        caption=tr("Ops that have no place on the roofline"),
        head=(tr("Op"), tr("Source line"), tr("Time"), tr("Of the step"), tr("Bound by"), tr("Why")),
        rows=tuple(cells),
        numeric=(2, 3),
    )
