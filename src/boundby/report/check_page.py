"""A check as text: whether it passed, what is over and by how much, and the lines that did it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import NARROW, bullets, heading, indented, page_width, render_page
from boundby.report.report_words import listed
from boundby.report.safe_text import clean, elide, elide_middle
from boundby.results.budgets import RATIOS, Check, Counted, Judgement, LineGrowth, OpGrowth
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.op_names import op_name
from boundby.results.units import format_count, format_percent, format_percent_range, format_si, format_size

SHOWN_LINES = 6
_SHOWN_OPS = 4
_NAMED = 3
_INDENT = 4
_SIZES = ("bytes_read", "bytes_written", "saved_bytes")


def render_check(check: Check, *, width: int, color: bool, unicode: bool, update_command: str | None = None) -> str:
    """A check as lines of text of at most ``width`` columns; the first line is the answer.

    Args:
        check: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written; the text is pure ASCII otherwise.
        update_command: the command that makes these counts the baseline, to be named at the end; none where None.

    Returns:
        Text that ends in a newline. Control characters of paths and code are shown as escapes.
    """
    columns = page_width(width)
    return render_page(_parts(check, columns, unicode, update_command), width=columns, color=color)


def check_sentence(check: Check) -> str:
    """The answer in one sentence."""
    if check.passed:
        return tr("{target} keeps its budgets: {what}.", target=check.target, what=_kept_told(check))
    over = list(dict.fromkeys(_words(one.of) for one in check.judgements if one.state == "over"))
    if not over:
        unknown = ", ".join(dict.fromkeys(_words(one.of) for one in check.judgements if one.state == "unknown"))
        return tr(
            "{target} cannot be told to keep its budgets; not known: {names}.", target=check.target, names=unknown
        )
    named = ", ".join(over[:_NAMED])
    if len(over) > _NAMED:
        named = trn("{names} and {count} more", "{names} and {count} more", len(over) - _NAMED, names=named)
    return tr("{target} is over budget: {names}.", target=check.target, names=named)


def _kept_told(check: Check) -> str:
    by_baseline = sum(one.source == "baseline" for one in check.judgements)
    written = len(check.judgements) - by_baseline
    parts = []
    within = any(
        one.tolerance and isinstance(one.value, int) and one.baseline is not None and one.value > one.baseline
        for one in check.judgements
    )
    if by_baseline and within:
        parts.append(
            trn(
                "no count of {count} grew beyond its tolerance",
                "none of {count} counts grew beyond its tolerance",
                by_baseline,
            )
        )
    elif by_baseline:
        parts.append(trn("no count of {count} grew", "none of {count} counts grew", by_baseline))
    if written:
        parts.append(trn("{count} budget kept", "{count} budgets kept", written))
    return ", ".join(parts)


def _parts(check: Check, width: int, unicode: bool, update_command: str | None) -> Iterator[RenderableType]:
    style = "bold green" if check.passed else "bold red"
    yield Text(clean(check_sentence(check), unicode=unicode), style=style)
    over = [one for one in check.judgements if one.state == "over"]
    if over:
        yield ""
        yield heading(tr("What is over"))
        yield _over_table(over, width, unicode=unicode)
        yield from _where(over, width, unicode=unicode)
    for state, title in (("unknown", tr("What is not known")), ("unsure", tr("What is within its uncertainty"))):
        mine = [one for one in check.judgements if one.state == state]
        if mine:
            yield ""
            yield heading(title)
            yield bullets(
                ((Text(clean(_remark(one), unicode=unicode)), "") for one in mine), mark="  -", mark_width=_INDENT
            )
    if check.shrunk:
        yield ""
        yield heading(tr("What shrank"), tr("--update makes it the new limit"))
        for name, old, new in check.shrunk:
            yield indented(Text(clean(count_told(name, old, new), unicode=unicode)))
    if check.notes and not check.passed:
        yield ""
        notes = (Text(clean(note, unicode=unicode)) for note in check.notes)
        yield bullets(((note, "") for note in notes), mark="  !", mark_width=_INDENT, style="yellow")
    if update_command is not None:
        yield ""
        for line in _next(check, over, update_command):
            yield Text(clean(line, unicode=unicode), no_wrap=True, overflow="ignore")


def _next(check: Check, over: Sequence[Judgement], update_command: str) -> Iterator[str]:
    """What to do now. What failed is to be mended; the command that would accept it comes last, and says so."""
    if check.passed:
        yield tr("Next     {command}", command=update_command)
        return
    places = [_place(one.line) for one in grown_lines(over_lines(over)) if one.line.path is not None]
    if not over:
        yield tr("Next     find out why it is not known")
    elif not places:
        yield tr("Next     mend what made it grow, and check again")
    else:
        named = listed(places[:_NAMED])
        if len(places) > _NAMED:
            named = trn("{names} and {count} more", "{names} and {count} more", len(places) - _NAMED, names=named)
        yield tr("Next     mend {place}, and check again", place=named)
    yield tr("         Only where this is meant, make it the new baseline:")
    yield f"         {update_command}"


def _over_table(over: Sequence[Judgement], width: int, *, unicode: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=max(len(_words(one.of)) for one in over) + 2, overflow="fold")
    table.add_column(justify="right", overflow="fold")
    table.add_column(overflow="fold")
    for one in over:
        cells = [f"  {_words(one.of)}", shown_value(one), limit_told(one)]
        if width < NARROW:
            cells[2] = _limit(one)
        table.add_row(*(Text(clean(cell, unicode=unicode)) for cell in cells))
    return table


def shown_value(judged: Judgement) -> str:
    """What a count or a ratio is, a ratio with its interval."""
    if isinstance(judged.value, Interval):
        value = judged.value
        return f"{format_percent(value.value)} ({format_percent_range(value.low, value.high)})"
    if judged.value is not None and judged.source == "baseline" and judged.baseline is not None:
        return _amounts(judged.of, judged.baseline, judged.value)[1]
    return amount(judged.of, judged.value)


def limit_told(judged: Judgement) -> str:
    """The limit, by how much it is missed, and where it was written."""
    if judged.source == "baseline":
        old, new = judged.baseline, judged.value
        before = amount(judged.of, old) if old is None or not isinstance(new, int) else _amounts(judged.of, old, new)[0]
        if not isinstance(new, int) or old is None or new <= old:
            return tr("was {old}", old=before)
        told = tr("was {old}: {grown}", old=before, grown=_grown(new, old, judged.of))
        if judged.tolerance:
            told = tr("{told}; {tolerance} allowed", told=told, tolerance=format_percent(judged.tolerance))
        return told
    limit = _limit(judged)
    said = (
        tr("at least {limit} by {name}", limit=limit, name=judged.name)
        if judged.least
        else tr("at most {limit} by {name}", limit=limit, name=judged.name)
    )
    if isinstance(judged.value, int) and judged.baseline is not None and judged.value != judged.baseline:
        said = tr("{said}; was {old}", said=said, old=amount(judged.of, judged.baseline))
    return said


def _limit(judged: Judgement) -> str:
    if judged.limit is None:
        return amount(judged.of, None)
    return format_percent(judged.limit) if _is_ratio(judged) else amount(judged.of, int(judged.limit))


def _is_ratio(judged: Judgement) -> bool:
    return judged.of in RATIOS


def _grown(new: int, old: int, name: str) -> str:
    share = f" ({format_percent((new - old) / old)})" if old else ""
    return f"+{amount(name, new - old)}{share}"


def _remark(judged: Judgement) -> str:
    limit = _limit(judged)
    if judged.state == "unknown" and judged.source == "baseline":
        return tr("{name}: it was {old} in the baseline, and is not known now.", name=_words(judged.of), old=limit)
    if judged.state == "unknown" and _is_ratio(judged):
        return tr(
            "{name}: not known, so whether the budget of {limit} is kept is not either. Shares need a step whose "
            "times settled and whose parts add up, on a machine that was measured: see what `boundby run` says of the "
            "script, give it more steps, or let nothing else run.",
            name=judged.name,
            limit=limit,
        )
    if judged.state == "unknown":
        return tr(
            "{name}: not known, so whether the budget of {limit} is kept is not either.", name=judged.name, limit=limit
        )
    return tr(
        "{name}: {value}, with a budget of {limit}; its interval reaches what is allowed, so this is no failure.",
        name=judged.name,
        value=shown_value(judged),
        limit=limit,
    )


@dataclass(slots=True)
class GrownLine:
    """A line with all that grew at it."""

    line: LineGrowth
    counts: dict[str, tuple[int | None, int]] = field(default_factory=dict)


def grown_lines(over: Sequence[Judgement]) -> list[GrownLine]:
    """The lines that have part in what is over, each once, those with part in most first."""
    found: dict[tuple[str | None, int | None, int | None], GrownLine] = {}
    for judged in over:
        for line in judged.lines:
            entry = found.setdefault((line.path, line.line, line.old_line), GrownLine(line=line))
            if judged.lines_by is not None:
                entry.counts.setdefault(judged.lines_by, (line.old, line.new))
    ranks = {name: place for place, name in enumerate(dict.fromkeys(j.lines_by for j in over))}
    order = list(found.values())
    return sorted(order, key=lambda one: (-len(one.counts), min(ranks[name] for name in one.counts)))


def over_lines(over: Sequence[Judgement]) -> Sequence[Judgement]:
    """Of the limits that are exceeded those whose lines tell most: where something grew, only these."""
    return [one for one in over if one.grown and one.lines] or over


def _where(over: Sequence[Judgement], width: int, *, unicode: bool) -> Iterator[RenderableType]:
    told = over_lines(over)
    grown = any(one.grown for one in told)
    lines = grown_lines(told)
    yield ""
    if not lines:
        yield indented(Text(tr("No line is known for it."), style="dim"))
        return
    yield heading(tr("Where it grew") if grown else tr("Where most of it is"))
    for entry in lines[:SHOWN_LINES]:
        place, *details = _line_texts(entry, width - _INDENT, unicode=unicode)
        yield indented(place)
        yield bullets(((text, "") for text in details), mark_width=_INDENT)
    if len(lines) > SHOWN_LINES:
        more = trn(
            "and {count} more line: --json has it", "and {count} more lines: --json has all", len(lines) - SHOWN_LINES
        )
        yield indented(Text(more, style="dim"))


def _line_texts(entry: GrownLine, room: int, *, unicode: bool) -> Iterator[Text]:
    line = entry.line
    yield Text(elide_middle(clean(_place(line), unicode=unicode), room, unicode=unicode), style="bold")
    if line.code and line.code.strip():
        yield Text(elide(clean(line.code.strip(), unicode=unicode), room, unicode=unicode))
    if line.old_code and line.old_code.strip():
        was = tr("was: {code}", code=line.old_code.strip())
        yield Text(elide(clean(was, unicode=unicode), room, unicode=unicode), style="dim")
    counts = "; ".join(count_told(name, old, new) for name, (old, new) in entry.counts.items())
    yield Text(clean(counts, unicode=unicode))
    if line.ops:
        told = "; ".join(op_told(one) for one in line.ops[:_SHOWN_OPS])
        if len(line.ops) > _SHOWN_OPS:
            told = tr("{ops}; and {count} more", ops=told, count=format_count(len(line.ops) - _SHOWN_OPS))
        yield Text(clean(told, unicode=unicode), style="dim")


def _place(line: LineGrowth) -> str:
    if line.path is None:
        return tr("outside any line of the code")
    return line.path if line.line is None else f"{line.path}:{line.line}"


def counts_changed(before: Counted, now: Counted) -> Iterator[str]:
    """The totals that are not what they were, one line each."""
    for name, new in now.totals.items():
        old = before.totals.get(name)
        if old is not None and new is not None and old != new:
            yield count_told(name, old, new)


def count_told(name: str, old: int | None, new: int) -> str:
    """A count before and now."""
    if old is None:
        return f"{_words(name)} {amount(name, new)}"
    before, now = _amounts(name, old, new)
    return tr("{name} {old} to {new}", name=_words(name), old=before, new=now)


def op_told(growth: OpGrowth) -> str:
    """An op with its calls before and now."""
    name = op_name(growth.op)
    if growth.old is None:
        return f"{name} {format_count(growth.new)}"
    if growth.old == 0:
        return tr("new: {op} {count}", op=name, count=format_count(growth.new))
    return tr("{op} {old} to {new}", op=name, old=format_count(growth.old), new=format_count(growth.new))


def amount(name: str, value: int | None) -> str:
    """A count in the unit that its name tells."""
    if value is None:
        return format_count(None)
    if name in _SIZES:
        return format_size(value)
    return format_si(value, "FLOP") if name.endswith("_flops") else format_count(value)


def _amounts(name: str, old: int, new: int) -> tuple[str, str]:
    """Both counts in their unit, or exactly where rounding hides that they differ."""
    before, now = amount(name, old), amount(name, new)
    return (format_count(old), format_count(new)) if before == now and old != new else (before, now)


def _words(name: str) -> str:
    return name.replace("_", " ")
