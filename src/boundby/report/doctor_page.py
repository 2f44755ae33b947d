"""What `boundby doctor` found, on one page: the problems first, then a line for all that is fine or unknown."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import bullets, heading, page_width, render_page
from boundby.report.safe_text import clean
from boundby.results.doctor import Diagnosis, Examination
from boundby.results.language import tr, trn

_INDENT = 2
_MARK_WIDTH = 4


def render_examination(examination: Examination, *, width: int, color: bool, unicode: bool) -> str:
    """The diagnoses, those that could spoil a measurement first and at length.

    Args:
        examination: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.

    Returns:
        Text that ends in a newline. What could not be read stands under a heading of its own.
    """
    columns = page_width(width)
    return render_page(_parts(examination, unicode=unicode), width=columns, color=color)


def _parts(examination: Examination, *, unicode: bool) -> Iterator[RenderableType]:
    problems, fine, unread = (
        [one for one in examination.checks if one.state == state] for state in ("problem", "ok", "unknown")
    )
    yield Text(_sentence(len(problems), len(unread)), style="bold")
    stack = [
        examination.cpu or tr("processor unknown"),
        examination.os,
        f"Python {examination.python}",
        f"torch {examination.torch}" if examination.torch else tr("torch not loaded"),
    ]
    yield Text(clean(", ".join(stack), unicode=unicode))
    for one in problems:
        yield ""
        yield from _problem(one, unicode=unicode)
    yield from _list(tr("Fine"), tr("as far as it was seen"), fine, unicode=unicode)
    yield from _list(tr("Unknown"), tr("could not be read, so it may or may not be a problem"), unread, unicode=unicode)
    yield ""
    yield Text(tr("Next     {command}", command=_next_command(examination, problems)))


def _sentence(problems: int, unread: int) -> str:
    said = trn(
        "{count} thing could spoil a measurement here", "{count} things could spoil a measurement here", problems
    )
    if problems == 0:
        said = tr("Nothing found that could spoil a measurement here")
    if not unread:
        return tr("{said}.", said=said)
    return trn(
        "{said}; {count} check could not be made.", "{said}; {count} checks could not be made.", unread, said=said
    )


def _problem(one: Diagnosis, *, unicode: bool) -> Iterator[RenderableType]:
    first = Text(clean(one.seen, unicode=unicode), style="bold")
    first.append(f" [{one.code}]", style="not bold dim")
    yield bullets([(first, "")], mark="  !", mark_width=_MARK_WIDTH, style="yellow")
    told = ((label, text) for label, text in ((tr("Effect: "), one.effect), (tr("Do: "), one.advice)) if text)
    yield bullets(
        ((Text.assemble((label, "dim"), clean(text, unicode=unicode)), "") for label, text in told),
        mark_width=_MARK_WIDTH,
    )


def _list(title: str, meaning: str, checks: list[Diagnosis], *, unicode: bool) -> Iterator[RenderableType]:
    if not checks:
        return
    yield ""
    yield heading(title, meaning)
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=_INDENT - 1)
    table.add_column(width=max(cell_len(one.name) for one in checks) + 1, no_wrap=True)
    table.add_column(overflow="fold")
    for one in checks:
        table.add_row("", Text(one.name), Text(clean(one.seen, unicode=unicode)))
    yield table


def _next_command(examination: Examination, problems: list[Diagnosis]) -> str:
    if examination.torch is None:
        return tr("{command}, which has to work first", command="python -c 'import torch'")
    # Ceilings that are kept may have been measured under the same problems.
    if problems:
        return tr("{command}, once these are dealt with", command="boundby machine --again")
    return "boundby machine"
