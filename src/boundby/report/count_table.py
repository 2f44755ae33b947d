"""Counts of one call as text for a terminal: the totals, then the modules as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import NARROW, bullets, heading, page_width, render_page
from boundby.report.safe_text import clean, elide, elide_middle
from boundby.results.count_file import CountFile
from boundby.results.counts import GroupCounts
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.module_tree import CallCounts, ModuleNode
from boundby.results.op_names import op_name
from boundby.results.units import format_count, format_si, format_size

# A tree that is shown to no given depth is cut where it would have more lines.
_MOST_LINES = 40
_FEWEST_ALIKE = 3
_SHOWN_UNMODELLED = 10
_SHOWN_PLACES = 3
_LEAST_NAME = 14
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
        yield heading(tr("Not modelled"), tr("ops without a cost rule; their FLOPs are in no total"))
        yield bullets(((Text(one), "") for one in _unmodelled(counts, unicode=unicode)), mark="  -", mark_width=4)
    if counts.findings:
        yield ""
        yield heading(tr("What these counts cannot say"))
        ordered = sorted(
            counts.findings, key=lambda one: _FINDING_ORDER.index(one.code) if one.code in _FINDING_ORDER else -1
        )
        yield bullets(
            ((_finding(one, unicode=unicode), "") for one in ordered), mark="  !", mark_width=4, style="yellow"
        )
    if next_command:
        yield ""
        yield _facts([(tr("Next"), clean(next_command, unicode=unicode))])


def _facts(facts: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(Text(name), Text(text))
    return table


def _sentence(file: CountFile) -> str:
    counts = file.counts
    return tr(
        "{target}, {passes}: {flops} of matrix products, {moved} moved, {saved} saved for backward.",
        target=file.target,
        passes=tr("forward and backward") if file.backward else tr("one call"),
        flops=format_si(counts.matmul_flops, "FLOP"),
        moved=format_size(counts.bytes_read + counts.bytes_written),
        saved=format_size(counts.saved_bytes),
    )


def _totals(counts: CallCounts) -> list[tuple[str, str]]:
    products = format_si(counts.matmul_flops, "FLOP")
    if counts.causal_matmul_flops != counts.matmul_flops:
        products = tr(
            "{products}; {flops} without what causal masks hide",
            products=products,
            flops=format_si(counts.causal_matmul_flops, "FLOP"),
        )
    if counts.recomputed_flops:
        products = tr(
            "{products}; {flops} of it recomputed in backward",
            products=products,
            flops=format_si(counts.recomputed_flops, "FLOP"),
        )
    saved = tr("{size} for backward", size=format_size(counts.saved_bytes))
    if counts.saved_input_bytes:
        saved = tr("{saved}, of it {inputs} inputs", saved=saved, inputs=format_size(counts.saved_input_bytes))
    facts = [
        (tr("Products"), products),
        (tr("Pointwise"), format_si(counts.pointwise_flops, "FLOP")),
        (
            tr("Bytes"),
            tr(
                "{read} read, {written} written",
                read=format_size(counts.bytes_read),
                written=format_size(counts.bytes_written),
            ),
        ),
        *_indexed(counts),
        (tr("Saved"), saved),
        (
            tr("Ops"),
            tr(
                "{ops}, {launches} (ops that do work)",
                ops=trn("{count} op", "{count} ops", counts.ops),
                launches=trn("{count} launch", "{count} launches", counts.launches),
            ),
        ),
        (
            tr("Params"),
            tr(
                "{parameters} in the modules that were called, each once",
                parameters=format_count(counts.tree.parameters),
            ),
        ),
    ]
    if len(counts.by_phase) > 1:
        facts.append((tr("Phases"), "; ".join(map(_phase, sorted(counts.by_phase, key=_place_in_step)))))
    if counts.eager is not None:
        moved = format_size(counts.eager.bytes_read + counts.eager.bytes_written)
        launches = trn("{count} launch", "{count} launches", counts.eager.launches)
        facts.append(
            (
                tr("Eager"),
                tr(
                    "{launches} and {moved} moved, were the compiled regions run op by op",
                    launches=launches,
                    moved=moved,
                ),
            )
        )
    if any(name != "cpu" for name in counts.devices):
        facts.append((tr("Device"), ", ".join(counts.devices)))
    return facts


def _phase(one: GroupCounts) -> str:
    names = {
        "forward": tr("forward"),
        "backward": tr("backward"),
        "optimizer": tr("optimizer"),
        "other": tr("other"),
    }
    name = names.get(one.name, one.name)
    moved = format_size(one.bytes_read + one.bytes_written)
    if not one.matmul_flops:
        return tr("{name} {moved} moved", name=name, moved=moved)
    flops = format_si(one.matmul_flops, "FLOP")
    return tr("{name} {flops}, {moved} moved", name=name, flops=flops, moved=moved)


def _place_in_step(one: GroupCounts) -> int:
    return _PHASES.index(one.name) if one.name in _PHASES else len(_PHASES)


def _indexed(counts: CallCounts) -> Iterator[tuple[str, str]]:
    """The bytes that are as counted for this data, and no property of the code alone."""
    if counts.indexed_bytes_read or counts.indexed_bytes_written:
        yield (
            tr("By data"),
            tr(
                "{read} of the bytes read and {written} of those written, as the values of indices and masks were here",
                read=format_size(counts.indexed_bytes_read),
                written=format_size(counts.indexed_bytes_written),
            ),
        )


def _tree(tree: ModuleNode, width: int, *, unicode: bool, depth: int | None) -> Iterator[RenderableType]:
    top = (tree,) if _is_line(tree) else tree.children
    if not tree.children and not _ran(tree):
        yield heading(tr("Modules"))
        yield Text(f"  {tr('no op ran')}")
        return
    wide = width >= NARROW
    if depth is not None and top[0] is tree:
        depth += 1
    lines = _lines_to(top, depth, unicode=unicode)
    columns = (
        [tr("calls"), tr("params"), tr("matmul\nFLOP"), tr("bytes\nmoved"), tr("saved\nbytes")]
        if wide
        else [tr("params"), tr("matmul\nFLOP")]
    )
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in columns:
        table.add_column(justify="right", no_wrap=True)
    cells = [_numbers(line, wide) for line in lines]
    used = sum(
        max(cell_len(part) for row in (columns, *cells) for part in row[at].split("\n")) + 2
        for at in range(len(columns))
    )
    table.add_row(Text(f"\n{tr('Modules')}", style="bold"), *(Text(name, style="bold dim") for name in columns))
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
        yield from _node_lines(node, node.name or tr("whole call"), indent, indent, depth, (branch, last, trunk))


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
        name = first.name if len(group) == 1 else tr("{first} ... {last}, each", first=first.name, last=group[-1].name)
        yield from _node_lines(
            first,
            name,
            indent + (last if end else branch),
            indent + (" " * len(last) if end else trunk),
            depth - 1,
            marks,
        )
    if own:
        label = tr("its own ops") if node.path else tr("outside modules")
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
    parameters = tr("shared") if line.shared else counted
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
            places.setdefault(one.name, Counter())[node.path or tr("no module")] += one.calls
    for op in counts.unmodelled[:_SHOWN_UNMODELLED]:
        found = [name for name, _ in places.get(op.name, Counter()).most_common()]
        where = ", ".join(found[:_SHOWN_PLACES])
        if len(found) > _SHOWN_PLACES:
            where = trn(
                "{places} and {count} more place",
                "{places} and {count} more places",
                len(found) - _SHOWN_PLACES,
                places=where,
            )
        text = f"{op_name(op.name)}, {trn('{count} call', '{count} calls', op.calls)}"
        yield clean(tr("{op}, in {where}", op=text, where=where) if where else text, unicode=unicode)
    rest = len(counts.unmodelled) - _SHOWN_UNMODELLED
    if rest > 0:
        yield trn("and {count} more op", "and {count} more ops", rest)


def _all_nodes(node: ModuleNode) -> Iterator[ModuleNode]:
    yield node
    for child in node.children:
        yield from _all_nodes(child)


def _finding(finding: Finding, *, unicode: bool) -> Text:
    message = clean(finding.message, unicode=unicode)
    said = message if message.endswith((".", "!", "?", "。")) else tr("{said}.", said=message)
    if finding.advice:
        said = tr("{first} {then}", first=said, then=clean(finding.advice, unicode=unicode))
    text = Text(said)
    text.append(f" [{clean(finding.code, unicode=unicode)}]", style="dim")
    return text
