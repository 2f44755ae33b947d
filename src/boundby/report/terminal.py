"""A report as text for a terminal: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.costliest import render_costliest
from boundby.report.machine_summary import source_words
from boundby.report.next_command import next_command as fitting_command
from boundby.report.page import bullets, finding_text, heading, page_width, render_page
from boundby.report.remedies_text import render_remedies
from boundby.report.remedy_words import is_tried, trials_sentence
from boundby.report.report_words import (
    ended_findings,
    followed,
    listed,
    modelled_text,
    reconciliation_text,
    step_kinds_text,
    step_time_text,
)
from boundby.report.safe_text import clean, elide, elide_middle
from boundby.report.split_bar import render_split
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.op_names import op_name
from boundby.results.report import Report
from boundby.results.units import (
    format_percent,
    format_si,
    format_size,
)

_SHOWN_UNMODELLED = 5
_LONGEST_NAME = 40


def render_report(
    report: Report,
    *,
    width: int,
    color: bool,
    unicode: bool,
    folder: str | None = None,
    next_command: str | None = None,
) -> str:
    """The report as lines of text of at most ``width`` columns; the first line is the verdict's sentence.

    Args:
        report: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written; the text is pure ASCII otherwise.
        folder: an absolute path; paths below it are shown relative to it. None shows paths as recorded.
        next_command: the command to name at the end; one that fits the report where None.

    Returns:
        Text that ends in a newline. Control characters of the user's code and paths are shown as escapes.
    """
    columns = page_width(width)
    parts = _parts(report, columns, unicode=unicode, folder=folder, next_command=next_command)
    return render_page(parts, width=columns, color=color)


def _parts(
    report: Report, width: int, *, unicode: bool, folder: str | None, next_command: str | None
) -> Iterator[RenderableType]:
    verdict = report.verdict.sentence or tr("What bounds this step is unknown.")
    yield Text(clean(followed(trials_sentence(report.remedies), verdict), unicode=unicode), style="bold")
    ended = ended_findings(report)
    if ended:
        yield _findings(ended, unicode=unicode)
    yield ""
    tried = any(is_tried(one) for one in report.remedies)
    if tried:
        yield from render_remedies(report.remedies, unicode=unicode, past=report.past_trials)
        yield ""
    yield _facts(_step_facts(report, unicode=unicode))
    yield ""
    yield from render_split(report, width=width, unicode=unicode)
    yield ""
    yield from render_costliest(report, width=width, unicode=unicode, folder=folder)
    if report.remedies and not tried:
        yield ""
        yield from render_remedies(report.remedies, unicode=unicode, past=report.past_trials)
    habits = [one for one in report.findings if one.about == "script"]
    if habits:
        yield ""
        yield heading(tr("Found in the script"))
        yield _findings(habits, unicode=unicode)
    yield ""
    yield heading(tr("How far to trust this"))
    yield bullets(((Text(text), "") for text in _trust(report, unicode=unicode)), mark="  -", mark_width=4)
    spoiling = [one for one in report.findings if one.about != "script" and one not in ended]
    if spoiling:
        yield ""
        yield heading(tr("What could spoil the measurement"))
        yield _findings(spoiling, unicode=unicode)
    if report.verdict.evidence:
        yield ""
        yield heading(tr("Evidence"))
        evidence = ((Text(clean(line, unicode=unicode)), "") for line in report.verdict.evidence)
        yield bullets(evidence, mark="  -", mark_width=4)
    yield ""
    yield _facts([(tr("Next"), clean(next_command or fitting_command(report), unicode=unicode))])


def _facts(facts: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(Text(name), Text(text))
    return table


def _step_facts(report: Report, *, unicode: bool) -> list[tuple[str, str]]:
    step, counts = report.step, report.counts
    time = step_time_text(report, unicode=unicode) if step.steps_timed else tr("time unknown")
    kind = {"training": tr("a training step"), "inference": tr("an inference step"), "callable": tr("a call")}[
        step.kind
    ]
    if step.name not in ("", "step"):
        kind = f"{kind} ({elide(clean(step.name, unicode=unicode), _LONGEST_NAME, unicode=unicode)})"
    where = tr("the CPU") if step.device == "cpu" else clean(step.device, unicode=unicode)
    told = trn(
        "{time}, {kind} on {count} thread of {where}",
        "{time}, {kind} on {count} threads of {where}",
        step.threads,
        time=time,
        kind=kind,
        where=where,
    )
    facts = [(tr("Step"), told), (tr("Steps"), _steps(report))]
    if counts.ops:
        work = tr(
            "{ops} a step, {launches} (ops that do work); {flops}; {read} read, {written} written",
            ops=trn("{count} op", "{count} ops", counts.ops),
            launches=trn("{count} launch", "{count} launches", counts.launches),
            flops=format_si(counts.matmul_flops + counts.pointwise_flops, "FLOP"),
            read=format_size(counts.bytes_read),
            written=format_size(counts.bytes_written),
        )
        facts.append((tr("Work"), work))
    facts.append((tr("Machine"), _machine(report, unicode=unicode)))
    return facts


def _steps(report: Report) -> str:
    step = report.step
    steps = trn(
        "{count} step timed with nothing watching, {watched} watched",
        "{count} steps timed with nothing watching, {watched} watched",
        step.steps_timed,
        watched=str(step.steps_watched),
    )
    if step.warmup_steps:
        steps = tr("{steps}, after {warmup} to warm up", steps=steps, warmup=str(step.warmup_steps))
    if step.events_per_step > 1:
        count = step.events_per_step
        events = {
            "training": trn("{count} optimizer step", "{count} optimizer steps", count),
            "inference": trn("{count} module call", "{count} module calls", count),
            "callable": trn("{count} call", "{count} calls", count),
        }["inference" if _updates_by_itself(report) else step.kind]
        steps = tr("{steps}; a step is a cycle of {events}", steps=steps, events=events)
    return steps


def _updates_by_itself(report: Report) -> bool:
    """Whether a training step has no optimizer, so that its module calls were what it was found by."""
    phases = {row.phase for row in report.ops}
    return report.step.kind == "training" and "backward" in phases and "optimizer" not in phases


def _machine(report: Report, *, unicode: bool) -> str:
    about = report.machine.description
    parts = [clean(about.cpu, unicode=unicode) if about.cpu else tr("processor unknown")]
    parts.append(trn("{count} usable core", "{count} usable cores", about.usable_cores))
    if about.torch:
        parts.append(f"torch {clean(about.torch, unicode=unicode)}")
    return listed(parts)


def _trust(report: Report, *, unicode: bool) -> Iterator[str]:
    yield reconciliation_text(report)
    yield _unmodelled(report, unicode=unicode)
    ceilings = report.machine.ceilings
    sources = sorted({ceiling.source for ceiling in ceilings} - {"measured"})
    if sources:
        yield tr(
            "Not measured on this machine: {others} of the {total} limits ({sources}).",
            others=str(sum(ceiling.source != "measured" for ceiling in ceilings)),
            total=str(len(ceilings)),
            sources=listed([source_words(one) for one in sources]),
        )
    elif not ceilings:
        yield tr("No limit of this machine was measured, so no floor is known.")
    kinds = step_kinds_text(report)
    if kinds:
        yield kinds


def _unmodelled(report: Report, *, unicode: bool) -> str:
    ops = report.counts.unmodelled
    if not ops:
        if report.counts.ops == 0:
            return tr("No op was seen, so none was modelled.")
        return modelled_text(
            report, lambda name: elide_middle(clean(op_name(name), unicode=unicode), _LONGEST_NAME, unicode=unicode)
        )
    ops = tuple(sorted(ops, key=lambda op: op.share or 0.0, reverse=True))
    names = ", ".join(
        trn(
            "{name} ({count} call)",
            "{name} ({count} calls)",
            op.calls,
            name=elide_middle(clean(op_name(op.name), unicode=unicode), _LONGEST_NAME, unicode=unicode),
        )
        for op in ops[:_SHOWN_UNMODELLED]
    )
    rest = len(ops) - _SHOWN_UNMODELLED
    if rest > 0:
        names = trn("{names} and {count} more", "{names} and {count} more", rest, names=names)
    shares = [op.share for op in ops if op.share is not None]
    if not shares:
        return tr("Could not be modelled, share of the step unknown: {names}.", names=names)
    share = format_percent(sum(shares))
    if len(shares) < len(ops):
        return tr("Could not be modelled, at least {share} of the step: {names}.", share=share, names=names)
    return tr("Could not be modelled, {share} of the step: {names}.", share=share, names=names)


def _findings(findings: Sequence[Finding], *, unicode: bool) -> Table:
    # What asks for nothing is no warning.
    shown = ((finding_text(one, unicode=unicode), "" if one.advice else "  -") for one in findings)
    return bullets(shown, mark="  !", mark_width=4, style="yellow")
