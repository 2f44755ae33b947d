"""Counts of one call as text for a terminal: the totals, then the modules as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import NARROW, bullets, heading, page_width, render_page
from boundby.report.safe_text import clean, elide, elide_middle
from boundby.results.count_file import CountFile
from boundby.results.counts import GroupCounts
from boundby.results.machine import Finding
from boundby.results.module_tree import CallCounts, ModuleNode
from boundby.results.units import format_count, format_si, format_size, plural

# A tree that is shown to no given depth is cut where it would have more lines.
_MOST_LINES = 40
_FEWEST_ALIKE = 3
_SHOWN_UNMODELLED = 10
_SHOWN_PLACES = 3
_LEAST_NAME = 14
_NAMELESS = "no module"
_PHASES = ("forward", "backward", "optimizer", "other")
_FINDING_ORDER = ("meta-differs", "meta-unchecked", "workspace-unknown", "values-unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A line of the tree: where it hangs, what it says, and its numbers; None prints as a dash."""

    hang: str
    name: str
    type: str = ""
    calls: int | None = None
    parameters: int | None = None
    shared: bool = False
    work: GroupCounts | None = None
    saved_bytes: int | None = None


def render_counts(
    file: CountFile, *, width: int, color: bool, unicode: bool, depth: int | None = None, next_command: str = ""
) -> str:
    """The counts as lines of text of at most ``width`` columns.

    Args:
        file: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written; the text is pure ASCII otherwise.
        depth: levels of modules to show, the outermost being 1; None: as many as fit into some 40 lines.
        next_command: the command to name at the end; none where empty.

    Returns:
        Text that ends in a newline. Control characters in the user's names are shown as escapes.
    """
    columns = page_width(width)
    parts = _parts(file, columns, unicode=unicode, depth=depth, next_command=next_command)
    return render_page(parts, width=columns, color=color)


def _parts(
    file: CountFile, width: int, *, unicode: bool, depth: int | None, next_command: str
) -> Iterator[RenderableType]:
    counts = file.counts
    yield Text(clean(_sentence(file), unicode=unicode), style="bold")
    yield ""
    yield _facts(_totals(counts))
    yield ""
    yield from _tree(counts.tree, width, unicode=unicode, depth=depth)
    if counts.unmodelled:
        yield ""
        yield heading("Not modelled", "ops without a cost rule; their FLOPs are in no total")
        yield bullets(((Text(one), "") for one in _unmodelled(counts, unicode=unicode)), mark="  -", mark_width=4)
    if counts.findings:
        yield ""
        yield heading("What these counts cannot say")
        ordered = sorted(
            counts.findings, key=lambda one: _FINDING_ORDER.index(one.code) if one.code in _FINDING_ORDER else -1
        )
        yield bullets(
            ((_finding(one, unicode=unicode), "") for one in ordered), mark="  !", mark_width=4, style="yellow"
        )
    if next_command:
        yield ""
        yield _facts([("Next", clean(next_command, unicode=unicode))])


def _facts(facts: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(Text(name), Text(text))
    return table


def _sentence(file: CountFile) -> str:
    counts = file.counts
    passes = "forward and backward" if file.backward else "one call"
    moved = format_size(counts.bytes_read + counts.bytes_written)
    return (
        f"{file.target}, {passes}: {format_si(counts.matmul_flops, 'FLOP')} of matrix products, {moved} moved, "
        f"{format_size(counts.saved_bytes)} saved for backward."
    )


def _totals(counts: CallCounts) -> list[tuple[str, str]]:
    products = format_si(counts.matmul_flops, "FLOP")
    if counts.causal_matmul_flops != counts.matmul_flops:
        products += f"; {format_si(counts.causal_matmul_flops, 'FLOP')} without what causal masks hide"
    if counts.recomputed_flops:
        products += f"; {format_si(counts.recomputed_flops, 'FLOP')} of it recomputed in backward"
    saved = f"{format_size(counts.saved_bytes)} for backward"
    if counts.saved_input_bytes:
        saved += f", of it {format_size(counts.saved_input_bytes)} inputs"
    facts = [
        ("Products", products),
        ("Pointwise", format_si(counts.pointwise_flops, "FLOP")),
        ("Bytes", f"{format_size(counts.bytes_read)} read, {format_size(counts.bytes_written)} written"),
        ("Saved", saved),
        ("Ops", f"{plural(counts.ops, 'op')}, {plural(counts.launches, 'launch', 'launches')} (ops that do work)"),
        ("Params", f"{format_count(counts.tree.parameters)} in the modules that were called, each once"),
    ]
    if len(counts.by_phase) > 1:
        facts.append(("Phases", "; ".join(map(_phase, sorted(counts.by_phase, key=_place_in_step)))))
    if counts.eager is not None:
        moved = format_size(counts.eager.bytes_read + counts.eager.bytes_written)
        launches = plural(counts.eager.launches, "launch", "launches")
        facts.append(("Eager", f"{launches} and {moved} moved, were the compiled regions run op by op"))
    if any(name != "cpu" for name in counts.devices):
        facts.append(("Device", ", ".join(counts.devices)))
    return facts


def _phase(one: GroupCounts) -> str:
    products = f"{format_si(one.matmul_flops, 'FLOP')}, " if one.matmul_flops else ""
    return f"{one.name} {products}{format_size(one.bytes_read + one.bytes_written)} moved"


def _place_in_step(one: GroupCounts) -> int:
    return _PHASES.index(one.name) if one.name in _PHASES else len(_PHASES)


def _tree(tree: ModuleNode, width: int, *, unicode: bool, depth: int | None) -> Iterator[RenderableType]:
    top = (tree,) if _is_line(tree) else tree.children
    if not tree.children and not _ran(tree):
        yield heading("Modules")
        yield Text("  no op ran")
        return
    wide = width >= NARROW
    if depth is not None and top[0] is tree:
        depth += 1
    lines = _lines_to(top, depth, unicode=unicode)
    columns = (
        ["calls", "params", "matmul\nFLOP", "bytes\nmoved", "saved\nbytes"] if wide else ["params", "matmul\nFLOP"]
    )
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in columns:
        table.add_column(justify="right", no_wrap=True)
    cells = [_numbers(line, wide) for line in lines]
    used = sum(
        max(len(part) for row in (columns, *cells) for part in row[at].split("\n")) + 2 for at in range(len(columns))
    )
    table.add_row(Text("\nModules", style="bold"), *(Text(name, style="bold dim") for name in columns))
    for line, numbers in zip(lines, cells, strict=True):
        table.add_row(_label(line, width - used, unicode=unicode), *map(Text, numbers))
    yield table


def _is_line(tree: ModuleNode) -> bool:
    """Whether the whole call needs a line of its own: where work was done outside modules, or several were called."""
    return len(tree.children) != 1 or tree.own.ops + tree.own.launches > 0 or tree.own_saved_bytes > 0


def _lines_to(top: tuple[ModuleNode, ...], depth: int | None, *, unicode: bool) -> list[_Line]:
    if depth is not None:
        return list(_lines(top, depth, "", unicode=unicode))
    lines = list(_lines(top, 1, "", unicode=unicode))
    for deeper in range(2, 100):
        more = list(_lines(top, deeper, "", unicode=unicode))
        if len(more) > _MOST_LINES or len(more) == len(lines):
            break
        lines = more
    return lines


def _lines(nodes: tuple[ModuleNode, ...], depth: int, indent: str, *, unicode: bool) -> Iterator[_Line]:
    branch, last, trunk = ("├ ", "└ ", "│ ") if unicode else ("|- ", "`- ", "|  ")
    for node in nodes:
        yield from _node_lines(node, node.name or "whole call", indent, indent, depth, (branch, last, trunk))


def _node_lines(
    node: ModuleNode, name: str, hang: str, indent: str, depth: int, marks: tuple[str, str, str]
) -> Iterator[_Line]:
    yield _Line(
        hang=hang,
        name=name,
        type=node.type if node.type != name else "",
        calls=node.calls or None,
        parameters=node.parameters,
        shared=node.shared and not node.children,
        work=node.total if _ran(node) else None,
        saved_bytes=node.saved_bytes if _ran(node) else None,
    )
    if depth <= 1 or not node.children:
        return
    branch, last, trunk = marks
    groups = _alike(node.children)
    own = node.own.launches > 0 or node.own_saved_bytes > 0
    for at, group in enumerate(groups):
        end = at == len(groups) - 1 and not own
        first = group[0]
        name = first.name if len(group) == 1 else f"{first.name} ... {group[-1].name}, each"
        yield from _node_lines(
            first,
            name,
            indent + (last if end else branch),
            indent + (" " * len(last) if end else trunk),
            depth - 1,
            marks,
        )
    if own:
        label = "its own ops" if node.path else "outside modules"
        yield _Line(hang=indent + last, name=f"({label})", work=node.own, saved_bytes=node.own_saved_bytes)


def _ran(node: ModuleNode) -> bool:
    """Whether an op ran in it; ops beyond aten launch and are no `ops`."""
    return node.total.ops > 0 or node.total.launches > 0


def _alike(children: tuple[ModuleNode, ...]) -> list[tuple[ModuleNode, ...]]:
    """Children one after the other that differ in nothing but their names, three or more, together."""
    runs: list[list[ModuleNode]] = []
    previous = None
    for child in children:
        features = _features(child)
        if runs and features == previous:
            runs[-1].append(child)
        else:
            runs.append([child])
        previous = features
    return [group for run in runs for group in ([tuple(run)] if len(run) >= _FEWEST_ALIKE else [(one,) for one in run])]


def _features(node: ModuleNode, name: str = "") -> tuple[object, ...]:
    work = node.total
    return (
        *(name, node.type, node.calls, node.parameters, node.shared, node.saved_bytes, node.unmodelled),
        *(work.ops, work.matmul_flops, work.pointwise_flops, work.bytes_read, work.bytes_written),
        *(_features(child, child.name) for child in node.children),
    )


def _numbers(line: _Line, wide: bool) -> list[str]:
    work = line.work
    flops = "-" if work is None else format_si(work.matmul_flops, "").strip()
    counted = "-" if line.parameters is None else format_si(line.parameters, "").strip()
    parameters = "shared" if line.shared else counted
    if not wide:
        return [parameters, flops]
    moved = "-" if work is None else format_size(work.bytes_read + work.bytes_written)
    saved = "-" if line.saved_bytes is None else format_size(line.saved_bytes)
    return ["-" if line.calls is None else format_count(line.calls), parameters, flops, moved, saved]


def _label(line: _Line, room: int, *, unicode: bool) -> Text:
    # Of a tree too deep for the page, the nearest branches are shown.
    hang = line.hang[-max(room - _LEAST_NAME, 2) :] if len(line.hang) > room - _LEAST_NAME else line.hang
    name = elide_middle(clean(line.name, unicode=unicode), room - len(hang), unicode=unicode)
    text = Text(hang, style="dim")
    text.append(name, style="not dim" if line.calls or line.parameters else "")
    left = room - text.cell_len - 1
    if line.type and left >= 4:
        text.append(" " + elide(clean(line.type, unicode=unicode), left, unicode=unicode), style="dim")
    return text


def _unmodelled(counts: CallCounts, *, unicode: bool) -> Iterator[str]:
    """Each op with the modules that called it, most calls first."""
    places: dict[str, Counter[str]] = {}
    for node in _all_nodes(counts.tree):
        for one in node.unmodelled:
            places.setdefault(one.name, Counter())[node.path or _NAMELESS] += one.calls
    for op in counts.unmodelled[:_SHOWN_UNMODELLED]:
        found = [name for name, _ in places.get(op.name, Counter()).most_common()]
        where = ", ".join(found[:_SHOWN_PLACES])
        if len(found) > _SHOWN_PLACES:
            where += f" and {plural(len(found) - _SHOWN_PLACES, 'more place')}"
        text = f"{op.name}, {plural(op.calls, 'call')}" + (f", in {where}" if where else "")
        yield clean(text, unicode=unicode)
    rest = len(counts.unmodelled) - _SHOWN_UNMODELLED
    if rest > 0:
        yield f"and {plural(rest, 'more op')}"


def _all_nodes(node: ModuleNode) -> Iterator[ModuleNode]:
    yield node
    for child in node.children:
        yield from _all_nodes(child)


def _finding(finding: Finding, *, unicode: bool) -> Text:
    message = clean(finding.message, unicode=unicode)
    text = Text(message if message.endswith((".", "!", "?")) else f"{message}.")
    if finding.advice:
        text.append(f" {clean(finding.advice, unicode=unicode)}")
    text.append(f" [{clean(finding.code, unicode=unicode)}]", style="dim")
    return text
