"""A machine and its ceilings as a short table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import bullets, heading, page_width, render_page
from boundby.report.safe_text import clean
from boundby.results.machine import Ceiling, CeilingKind, Machine
from boundby.results.units import digits_for, format_rate, format_size, plural

# Ceilings by the name of their row and the name of their column.
_Cells: TypeAlias = dict[tuple[str, str], Ceiling]

# Of each list the costliest: the rest is in the file.
_SHOWN_FUNCTIONS = 12
_CELL = 12
_VALUE = 7


def render_machine(machine: Machine, *, width: int, color: bool, unicode: bool) -> str:
    """The machine's description and its main ceilings, each with the digits its band allows.

    Args:
        machine: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.

    Returns:
        Text that ends in a newline. A ceiling that was not measured says so beside its value.
    """
    columns = page_width(width)
    return render_page(_parts(machine, columns, unicode=unicode), width=columns, color=color)


def _parts(machine: Machine, width: int, *, unicode: bool) -> Iterator[RenderableType]:
    about = machine.description
    yield Text(clean(about.cpu or "Processor unknown", unicode=unicode), style="bold")
    facts = [
        plural(about.usable_cores, "usable core"),
        plural(about.threads, "thread"),
        f"memory {format_size(about.memory_limit_bytes or about.memory_bytes)}",
        f"torch {about.torch or 'unknown'}",
        f"Python {about.python}",
        about.os,
        f"device {about.device}",
    ]
    yield Text(clean(", ".join(facts), unicode=unicode))
    if about.measured_at:
        yield Text(f"measured {clean(about.measured_at, unicode=unicode)}")
    yield from _matrix(
        "Matrix products", "the best of the shapes tried", _best_products(machine), width, unicode=unicode
    )
    yield from _matrix(
        "Memory",
        "bytes an op reads and writes, by the size of what it touches",
        _bandwidths(machine),
        width,
        unicode=unicode,
    )
    functions = sorted(_of_kind(machine, "function"), key=lambda one: one.value, reverse=True)
    shown = functions[:_SHOWN_FUNCTIONS]
    meaning = "time an element" + (f"; the costliest of {len(functions)}" if len(functions) > len(shown) else "")
    yield from _list("Functions", meaning, shown, width, unicode=unicode)
    overheads = [one for one in _of_kind(machine, "overhead") + _of_kind(machine, "launch") if "_" not in one.name]
    yield from _list("Overhead", "time an op takes that works on almost nothing", overheads, width, unicode=unicode)
    if not machine.ceilings:
        yield ""
        yield Text("No ceiling was measured.")
    if machine.findings:
        yield ""
        yield heading("Findings")
        texts = (f"{found.message} {found.advice}".strip() + f" [{found.code}]" for found in machine.findings)
        yield bullets(((Text(clean(text, unicode=unicode)), "") for text in texts), mark="  !", mark_width=4)
    yield ""
    yield Text("Next     boundby run SCRIPT")


def _of_kind(machine: Machine, kind: CeilingKind) -> list[Ceiling]:
    return [ceiling for ceiling in machine.ceilings if ceiling.kind == kind]


def _best_products(machine: Machine) -> _Cells:
    """The fastest ceiling of each product and dtype; transposed and backward forms are left to the file."""
    cells: _Cells = {}
    for one in _of_kind(machine, "matmul"):
        place = (one.name, one.dtype or "any")
        if "_" not in one.name and (place not in cells or one.value > cells[place].value):
            cells[place] = one
    return cells


def _bandwidths(machine: Machine) -> _Cells:
    ceilings = [one for one in _of_kind(machine, "bandwidth") if one.size_bytes is not None]
    ceilings.sort(key=lambda one: one.size_bytes or 0)
    return {(format_size(one.size_bytes), one.name): one for one in ceilings if one.stack == "torch"}


def _matrix(title: str, meaning: str, cells: _Cells, width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Ceilings by row and column name; columns that do not fit are left out, from the right, and named."""
    if not cells:
        return
    rows = list(dict.fromkeys(row for row, _ in cells))
    names = list(dict.fromkeys(name for _, name in cells))
    fitting = names[: max(1, (width - _CELL) // (_CELL + 1))]
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=_CELL, overflow="fold")
    for _ in fitting:
        table.add_column(justify="right", min_width=_CELL, overflow="fold")
    table.add_row("", *(Text(clean(name, unicode=unicode), style="dim") for name in fitting))
    for row in rows:
        shown = (_value(cells.get((row, name)), unicode=unicode) for name in fitting)
        table.add_row(Text(f"  {clean(row, unicode=unicode)}"), *shown)
    yield ""
    yield heading(title, meaning)
    yield table
    if len(fitting) < len(names):
        yield Text(f"  wider terminals also show {', '.join(names[len(fitting) :])}", style="dim")


def _list(title: str, meaning: str, ceilings: list[Ceiling], width: int, *, unicode: bool) -> Iterator[RenderableType]:
    """Ceilings with their names, as many beside each other as fit."""
    if not ceilings:
        return
    dtypes = {one.dtype for one in ceilings}
    cells = []
    for one in ceilings:
        name = one.name if len(dtypes) == 1 or one.dtype is None else f"{one.name} {one.dtype}"
        cells.append((Text(clean(name, unicode=unicode)), _value(one, unicode=unicode)))
    longest = max(cell_len(name.plain) for name, _ in cells)
    beside = max(1, (width - 2) // (longest + _VALUE + 4))
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=1)
    for _ in range(beside):
        table.add_column(overflow="fold")
        table.add_column(min_width=_VALUE + 2, justify="left", overflow="fold")
    for start in range(0, len(cells), beside):
        table.add_row("", *(text for cell in cells[start : start + beside] for text in cell))
    yield ""
    yield heading(title, meaning)
    yield table


def _value(ceiling: Ceiling | None, *, unicode: bool) -> Text:
    """A ceiling's value; one that was not measured is marked and never looks measured."""
    if ceiling is None:
        return Text("-", style="dim")
    digits = digits_for(ceiling.value, ceiling.low, ceiling.high)
    text = format_rate(ceiling.value, ceiling.unit, digits=digits, unicode=unicode)
    if ceiling.source == "measured":
        return Text(text)
    return Text(f"{text} [{ceiling.source}]", style="italic yellow")
