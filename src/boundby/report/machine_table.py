"""A machine and its ceilings on one page: in short, then a few tables; the whole is in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.machine_notes import bandwidth_notes, product_notes
from boundby.report.machine_summary import (
    OVERHEAD_KINDS,
    SUSTAINED,
    best_products,
    finding_words,
    is_main,
    mode_words,
    of_kind,
    render_summary,
)
from boundby.report.page import bullets, heading, indented, page_width, render_page
from boundby.report.roofline_text import render_roofline
from boundby.report.safe_text import clean, elide
from boundby.results.language import tr, trn
from boundby.results.machine import Ceiling, Machine, reaches_main_memory
from boundby.results.units import digits_for, format_rate, format_size, format_time

# Ceilings by the name of their row and the name of their column.
_Cells: TypeAlias = dict[tuple[str, str], Ceiling]

_COMPILED = "torch.compile"
_FUNCTIONS = ("add", "exp", "tanh", "gelu", "softmax", "layer_norm", "dropout")
_SHOWN_FUNCTIONS = 7
_SHOWN_DTYPES = 2
_TRAFFIC = ("read", "write", "copy", "inplace", "triad")
_SHOWN_SIZES = 8
_SHOWN_OVERHEADS = 12
_SHOWN_FINDINGS = 3
_LONGEST_NAME = 16
_ROW_NAME = 11
_CELL = 7
_GAP = 1
# How a cell of a table shows that its value was not measured; a line under the tables says what the marks mean.
_MARKS = {"modelled": "[m]", "datasheet": "[d]"}
_UNSTEADY = "*"
_CONTRADICTED = "!"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """The unit that all cells of a table share: its text and its size in the ceilings' own unit."""

    unit: str
    size: float


_SCALES = {
    "flop/s": tuple(
        _Scale(unit=f"{prefix}FLOP/s", size=size) for prefix, size in (("M", 1e6), ("G", 1e9), ("T", 1e12))
    ),
    "byte/s": tuple(_Scale(unit=f"{prefix}B/s", size=size) for prefix, size in (("M", 1e6), ("G", 1e9), ("T", 1e12))),
    "s": (_Scale(unit="ns", size=1e-9), _Scale(unit="us", size=1e-6)),
}


def render_machine(machine: Machine, *, width: int, color: bool, unicode: bool, chart: bool = True) -> str:
    """The machine's description and its main ceilings, each with the digits its band allows.

    Args:
        machine: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.
        chart: whether to draw the roofline; not where a picture of it stands beside.

    Returns:
        Text that ends in a newline. A ceiling that was not measured says so beside its value.
    """
    columns = page_width(width)
    return render_page(_parts(machine, columns, unicode=unicode, chart=chart), width=columns, color=color)


def _parts(machine: Machine, width: int, *, unicode: bool, chart: bool) -> Iterator[RenderableType]:
    yield from _description(machine, unicode=unicode)
    yield from render_summary(machine, unicode=unicode)
    if chart and (reaches_main_memory(machine) or not of_kind(machine, "bandwidth")):
        yield from render_roofline(machine, width=width, unicode=unicode)
    products = {place: one for place, one in best_products(machine).items() if "_" not in place[0]}
    bandwidths, functions = _bandwidths(machine), _functions(machine)
    yield from _matrix(tr("Matrix products"), tr("the fastest of the shapes tried"), products, width, unicode=unicode)
    yield from _notes(product_notes(machine, unicode=unicode))
    meaning = tr("read + written, by the size of what an op touches")
    yield from _matrix(tr("Bandwidth"), meaning, bandwidths, width, unicode=unicode)
    yield from _notes(bandwidth_notes(machine, unicode=unicode))
    yield from _matrix(tr("Functions"), tr("an element"), functions, width, unicode=unicode)
    overheads = [one for one in of_kind(machine, "overhead", "launch") if _is_main_kind(one, machine)]
    overheads = _first(overheads, OVERHEAD_KINDS, _SHOWN_OVERHEADS)
    yield from _list(
        tr("Overhead"), tr("time of an op that works on almost nothing"), overheads, width, unicode=unicode
    )
    yield from _mark_meanings([*products.values(), *bandwidths.values(), *functions.values(), *overheads])
    unmeasured = sorted({one.source for one in machine.ceilings} - {"measured"})
    if unmeasured:
        yield ""
        meanings = {"modelled": tr("from a model"), "datasheet": tr("from a datasheet")}
        marks = ", ".join(f"{_MARKS[source]} {meanings[source]}" for source in unmeasured)
        yield Text(tr("Not measured on this machine: {marks}.", marks=marks), style="yellow")
    yield from _findings(machine, unicode=unicode)
    yield ""
    yield Text(tr("Next     {command}", command="boundby run SCRIPT"))


def _description(machine: Machine, *, unicode: bool) -> Iterator[RenderableType]:
    about = machine.description
    yield Text(clean(about.cpu or tr("Processor unknown"), unicode=unicode), style="bold")
    facts = [
        trn("{count} usable core", "{count} usable cores", about.usable_cores),
        tr("{size} of memory", size=format_size(about.memory_limit_bytes or about.memory_bytes)),
        f"torch {about.torch or tr('unknown')}",
        f"Python {about.python}",
    ]
    yield Text(clean(", ".join(facts), unicode=unicode))
    where = trn("{count} thread of the CPU", "{count} threads of the CPU", about.threads)
    if about.device != "cpu":
        name = f" {about.device_name}" if about.device_name else ""
        where = tr("the {device} device", device=about.device) + name
    if machine.ceilings:
        told = trn(
            "{count} limit known for {where}", "{count} limits known for {where}", len(machine.ceilings), where=where
        )
        if about.measured_at:
            told = tr("{told}, measured {when}", told=told, when=about.measured_at)
    else:
        told = tr("no limit is known for {where}", where=where)
    yield Text(clean(told, unicode=unicode))
    how = machine.measuring
    if how is not None:
        took = tr(
            "{mode} measuring: {time}, {rounds}",
            mode=mode_words(how.mode),
            time=format_time(how.seconds, digits=2),
            rounds=trn("{count} round", "{count} rounds", how.rounds),
        )
        peak = how.peak_memory_bytes
        if peak is not None:
            took = tr("{took}, at most {size} of memory", took=took, size=format_size(peak, digits=2))
        if how.unconfirmed:
            took = tr("{took}; {number} still moved when time was up", took=took, number=how.unconfirmed)
        yield Text(clean(took, unicode=unicode), style="dim")


def _bandwidths(machine: Machine) -> _Cells:
    ceilings = [
        one
        for one in of_kind(machine, "bandwidth")
        if one.size_bytes is not None and is_main(one, machine) and not one.name.endswith(SUSTAINED)
    ]
    ceilings.sort(key=lambda one: one.size_bytes or 0)
    names = _TRAFFIC if any(one.name in _TRAFFIC for one in ceilings) else {one.name for one in ceilings}
    sizes = _spread_out(list(dict.fromkeys(one.size_bytes or 0 for one in ceilings)))
    return {
        (one.name, format_size(one.size_bytes)): one
        for one in ceilings
        if one.name in names and one.size_bytes in sizes
    }


def _spread_out(sizes: list[int]) -> list[int]:
    """Of a fine sweep every other size, or fewer, the largest among them; sizes are in order."""
    stride = -(-len(sizes) // _SHOWN_SIZES) or 1
    return sizes[::-1][::stride]


def _functions(machine: Machine) -> _Cells:
    """The functions people know best, in the dtypes that most of them have, and compiled in the first of these."""
    every = [one for one in of_kind(machine, "function") if one.dtype is not None and one.arguments is None]
    ceilings = [one for one in every if is_main(one, machine)]
    known = {one.name: one for one in ceilings}
    names = [one.name for one in _first(list(known.values()), _FUNCTIONS, _SHOWN_FUNCTIONS)]
    cells = {(one.name, one.dtype or ""): one for one in ceilings if one.name in names}
    dtypes = list(dict.fromkeys(dtype for _, dtype in cells))
    dtypes.sort(key=lambda dtype: -sum((name, dtype) in cells for name in names))
    shown = {
        (dtype, name): cells[name, dtype]
        for dtype in dtypes[:_SHOWN_DTYPES]
        for name in names
        if (name, dtype) in cells
    }
    compiled = {
        (tr("compiled"), one.name): one
        for one in every
        if one.stack == _COMPILED and dtypes and one.dtype == dtypes[0] and one.name in names
    }
    return shown | compiled


def _notes(notes: Iterator[str]) -> Iterator[RenderableType]:
    for note in notes:
        yield indented(Text(note, style="dim"))


def _mark_meanings(shown: list[Ceiling]) -> Iterator[RenderableType]:
    """What the marks beside numbers mean, as far as there are any."""
    lines = []
    if any(one.unsteady for one in shown):
        lines.append((_UNSTEADY, tr("moved while it was measured: the median was over 1.25 times the fastest")))
    if any(one.contradicted for one in shown):
        lines.append((_CONTRADICTED, tr("above what another limit allows: one of the two is wrong")))
    if lines:
        yield ""
        yield bullets(((Text(text), mark) for mark, text in lines), mark_width=4)


def _is_main_kind(ceiling: Ceiling, machine: Machine) -> bool:
    return (
        is_main(ceiling, machine)
        and "/" not in ceiling.name
        and (ceiling.kind == "launch" or ceiling.name in OVERHEAD_KINDS or "_" not in ceiling.name)
    )


def _first(ceilings: list[Ceiling], wanted: Sequence[str], count: int) -> list[Ceiling]:
    """At most ``count`` ceilings: those of wanted names in that order, then the others as they come."""
    places = {name: place for place, name in enumerate(wanted)}
    return sorted(ceilings, key=lambda one: places.get(one.name, len(places)))[:count]


def _matrix(title: str, meaning: str, cells: _Cells, width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Ceilings by row and column name in one unit; columns that do not fit are left out, from the right, and named."""
    if not cells:
        return
    places = {row: place for place, row in enumerate(_TRAFFIC)}
    rows = sorted(dict.fromkeys(row for row, _ in cells), key=lambda row: places.get(row, 0))
    names = list(dict.fromkeys(name for _, name in cells))
    scale = _scale_of(list(cells.values()))
    texts = {place: _number(one, scale) for place, one in cells.items()}
    labels = {name: clean(name, unicode=unicode) for name in names}
    room = width - _ROW_NAME - _GAP
    widths: dict[str, int] = {}
    for name in names:
        needed = [labels[name], *(text.plain for (_, column), text in texts.items() if column == name)]
        widest = min(max(_CELL, *map(cell_len, needed)), width - _ROW_NAME - 2 * _GAP)
        room -= widest + _GAP
        if room < 0:
            break
        widths[name] = widest
    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_column(width=_ROW_NAME, no_wrap=True)
    for widest in widths.values():
        table.add_column(justify="right", width=widest, no_wrap=True)
    table.add_row("", *(Text(elide(labels[name], widths[name], unicode=unicode), style="dim") for name in widths))
    for row in rows:
        shown = (texts.get((row, name)) or Text("-", style="dim") for name in widths)
        table.add_row(Text(f"  {elide(clean(row, unicode=unicode), _ROW_NAME - 2, unicode=unicode)}"), *shown)
    unit = scale.unit.replace("us", "µs") if unicode else scale.unit
    yield ""
    yield heading(title, f"{unit}; {meaning}" if scale.size >= 1 else f"{unit} {meaning}")
    yield table
    if len(widths) < len(names):
        rest = ", ".join(labels[name] for name in names[len(widths) :])
        yield indented(Text(tr("wider terminals also show {rest}", rest=rest), style="dim"))


def _scale_of(ceilings: list[Ceiling]) -> _Scale:
    """The unit in which the median value has one to three digits before the point, as far as there is one."""
    values = sorted(one.value for one in ceilings)
    middle = values[len(values) // 2]
    scales = _SCALES[ceilings[0].unit]
    return next((scale for scale in reversed(scales) if middle >= scale.size), scales[0])


def _number(ceiling: Ceiling, scale: _Scale) -> Text:
    """A value in the table's unit; one that was not measured has a mark and a style of its own."""
    digits = digits_for(ceiling.value, ceiling.low, ceiling.high)
    text = f"{Decimal(f'{ceiling.value / scale.size:.{digits - 1}e}'):,f}{_noise_mark(ceiling)}"
    if ceiling.source == "measured":
        return Text(text)
    return Text(f"{text} {_MARKS[ceiling.source]}", style="italic yellow")


def _noise_mark(ceiling: Ceiling) -> str:
    return f"{_UNSTEADY if ceiling.unsteady else ''}{_CONTRADICTED if ceiling.contradicted else ''}"


def _list(title: str, meaning: str, ceilings: list[Ceiling], width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Ceilings with their names, as many beside each other as fit, each with its own unit."""
    if not ceilings:
        return
    cells = []
    for one in ceilings:
        name = elide(clean(one.name.replace("_", " "), unicode=unicode), _LONGEST_NAME, unicode=unicode)
        digits = digits_for(one.value, one.low, one.high)
        value = format_rate(one.value, one.unit, digits=digits, unicode=unicode) + _noise_mark(one)
        measured = one.source == "measured"
        cells.append(
            (Text(name), Text(value) if measured else Text(f"{value} {_MARKS[one.source]}", style="italic yellow"))
        )
    names = max(cell_len(name.plain) for name, _ in cells)
    values = max(cell_len(value.plain) for _, value in cells)
    beside = max(1, (width - 2) // (names + values + 3))
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=1)
    for _ in range(beside):
        table.add_column(width=names, no_wrap=True)
        table.add_column(width=values + 1, no_wrap=True)
    for start in range(0, len(cells), beside):
        table.add_row("", *(text for cell in cells[start : start + beside] for text in cell))
    yield ""
    yield heading(title, meaning)
    yield table


def _findings(machine: Machine, *, unicode: bool) -> Iterator[RenderableType]:
    if not machine.findings:
        return
    shown = machine.findings[:_SHOWN_FINDINGS]
    texts = []
    for place, found in enumerate(shown):
        # Several findings often ask for the same; the last of them says it for all.
        asked_later = any(found.advice == later.advice for later in shown[place + 1 :])
        texts.append(finding_words(replace(found, advice="") if asked_later else found))
    if len(machine.findings) > len(shown):
        texts.append(
            tr("and {number} more: boundby machine --json shows all", number=len(machine.findings) - len(shown))
        )
    yield ""
    yield heading(tr("What could spoil these figures"))
    yield bullets(((Text(clean(text, unicode=unicode)), "") for text in texts), mark="  !", mark_width=4)
