"""A check as a page: whether it passed, every limit with its value, and the lines that are over."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.report.check_page import (
    GrownLine,
    amount,
    check_sentence,
    count_told,
    grown_lines,
    limit_told,
    op_told,
    over_lines,
    shown_value,
)
from boundby.report.document import Block, Bullets, Code, Document, Paragraph, Section, Table
from boundby.results.budgets import Check, Judgement
from boundby.results.language import language, tr


def check_document(check: Check) -> Document:
    """The check as a page for `report.html` or `report.markdown`.

    Args:
        check: what to show.
    """
    return Document(
        title=tr("Check of {target}", target=check.target),
        lead=(Paragraph(text=check_sentence(check), emphasis=True),),
        sections=tuple(_sections(check)),
        language=language(),
    )


def _sections(check: Check) -> Iterator[Section]:
    over = [one for one in check.judgements if one.state == "over"]
    lines = grown_lines(over_lines(over))
    if lines:
        title = tr("Where it grew") if any(one.grown for one in over_lines(over)) else tr("Where most of it is")
        yield Section(title=title, blocks=tuple(block for entry in lines for block in _line(entry)))
    if check.judgements:
        yield Section(title=tr("Limits"), blocks=(_limits(check.judgements),))
    if check.shrunk:
        told = tuple(count_told(name, old, new) for name, old, new in check.shrunk)
        yield Section(title=tr("What shrank"), blocks=(Bullets(items=told),))
    if check.notes:
        yield Section(title=tr("What else could make counts differ"), blocks=(Bullets(items=check.notes),))


def _line(entry: GrownLine) -> Iterator[Block]:
    line = entry.line
    place = tr("outside any line of the code") if line.path is None else line.path
    if line.path is not None and line.line is not None:
        place = f"{place}:{line.line}"
    if line.code:
        code = line.code.strip()
        if line.old_code:
            code = f"{code}\n# {tr('was: {code}', code=line.old_code.strip())}"
        yield Code(text=code, caption=place)
    else:
        yield Paragraph(text=place)
    counts = [count_told(name, old, new) for name, (old, new) in entry.counts.items()]
    yield Bullets(items=(*counts, *(op_told(one) for one in line.ops)))


def _limits(judgements: tuple[Judgement, ...]) -> Table:
    states = {
        "kept": tr("kept"),
        "over": tr("over"),
        "unsure": tr("within its uncertainty"),
        "unknown": tr("not known"),
    }
    return Table(
        caption=tr("Every limit, and what was found"),
        head=(tr("of"), tr("now"), tr("limit"), tr("result")),
        rows=tuple(
            (
                one.of.replace("_", " "),
                amount(one.of, None) if one.value is None else shown_value(one),
                limit_told(one),
                states[one.state],
            )
            for one in judgements
        ),
        numeric=(1,),
    )
