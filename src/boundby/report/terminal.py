"""A report as text for a terminal: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.costliest import render_costliest
from boundby.report.next_command import next_command as fitting_command
from boundby.report.page import bullets, heading, page_width, render_page
from boundby.report.remedies_text import render_remedies
from boundby.report.safe_text import clean, elide, elide_middle
from boundby.report.split_bar import render_split
from boundby.results.report import Report
from boundby.results.units import (
    format_percent,
    format_percent_range,
    format_si,
    format_size,
    format_time_band,
    plural,
)

_KINDS = {"training": "a training step", "inference": "an inference step", "callable": "a call"}
_EVENTS = {"training": "optimizer step", "inference": "module call", "callable": "call"}
_SHOWN_UNMODELLED = 5
_SHOWN_CLASSES = 4
_LONGEST_NAME = 40
# Reconciliation further than this from the whole step is worth a warning in words.
_RECONCILED_WITHIN = 0.05


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
    sentence = clean(report.verdict.sentence, unicode=unicode) or "What bounds this step is unknown."
    yield Text(sentence, style="bold")
    yield ""
    tried = any(one.measured is not None or one.failed for one in report.remedies)
    if tried:
        yield from render_remedies(report.remedies, unicode=unicode)
        yield ""
    yield _facts(_step_facts(report, unicode=unicode))
    yield ""
    yield from render_split(report, width=width, unicode=unicode)
    yield ""
    yield from render_costliest(report, width=width, unicode=unicode, folder=folder)
    if report.remedies and not tried:
        yield ""
        yield from render_remedies(report.remedies, unicode=unicode)
    yield ""
    yield heading("How far to trust this")
    yield bullets(((Text(text), "") for text in _trust(report, unicode=unicode)), mark="  -", mark_width=4)
    if report.findings:
        yield ""
        yield heading("What could spoil the measurement")
        yield _findings(report, unicode=unicode)
    if report.verdict.evidence:
        yield ""
        yield heading("Evidence")
        evidence = ((Text(clean(line, unicode=unicode)), "") for line in report.verdict.evidence)
        yield bullets(evidence, mark="  -", mark_width=4)
    yield ""
    yield _facts([("Next", clean(next_command or fitting_command(report), unicode=unicode))])


def _facts(facts: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(Text(name), Text(text))
    return table


def _step_facts(report: Report, *, unicode: bool) -> list[tuple[str, str]]:
    step, counts = report.step, report.counts
    if step.steps_timed:
        time = format_time_band(step.time_s.median, step.time_s.low, step.time_s.high, unicode=unicode)
    else:
        time = "time unknown"
    name = (
        ""
        if step.name in ("", "step")
        else f" ({elide(clean(step.name, unicode=unicode), _LONGEST_NAME, unicode=unicode)})"
    )
    where = "the CPU" if step.device == "cpu" else clean(step.device, unicode=unicode)
    facts = [("Step", f"{time}, {_KINDS[step.kind]}{name} on {plural(step.threads, 'thread')} of {where}")]
    steps = f"{plural(step.steps_timed, 'step')} timed with nothing watching, {step.steps_watched} watched"
    if step.warmup_steps:
        steps += f", after {step.warmup_steps} to warm up"
    if step.events_per_step > 1:
        steps += f"; a step is a cycle of {plural(step.events_per_step, _EVENTS[step.kind])}"
    facts.append(("Steps", steps))
    if counts.ops:
        work = f"{plural(counts.ops, 'op')} a step, {plural(counts.launches, 'launch', 'launches')} (ops that do work)"
        flops = counts.matmul_flops + counts.pointwise_flops
        moved = f"{format_size(counts.bytes_read)} read, {format_size(counts.bytes_written)} written"
        facts.append(("Work", f"{work}; {format_si(flops, 'FLOP')}; {moved}"))
    facts.append(("Machine", _machine(report, unicode=unicode)))
    return facts


def _machine(report: Report, *, unicode: bool) -> str:
    about = report.machine.description
    parts = [clean(about.cpu, unicode=unicode) if about.cpu else "processor unknown"]
    parts.append(plural(about.usable_cores, "usable core"))
    if about.torch:
        parts.append(f"torch {clean(about.torch, unicode=unicode)}")
    return ", ".join(parts)


def _trust(report: Report, *, unicode: bool) -> Iterator[str]:
    yield _reconciliation(report)
    yield _unmodelled(report, unicode=unicode)
    sources = sorted({ceiling.source for ceiling in report.machine.ceilings} - {"measured"})
    if sources:
        others = sum(ceiling.source != "measured" for ceiling in report.machine.ceilings)
        total = len(report.machine.ceilings)
        yield f"Not measured on this machine: {others} of the {total} limits ({', '.join(sources)})."
    elif not report.machine.ceilings:
        yield "No limit of this machine was measured, so no floor is known."
    classes = sorted(report.step.classes, key=lambda one: one.steps, reverse=True)
    if len(classes) > 1:
        shown = [f"{one.steps} with {plural(one.ops, 'op')}" for one in classes[:_SHOWN_CLASSES]]
        rest = len(classes) - len(shown)
        listed = ", ".join(shown) + (f", and {plural(rest, 'more kind')}" if rest else "")
        yield f"The watched steps are of {len(classes)} kinds: {listed}."


def _reconciliation(report: Report) -> str:
    known = report.reconciliation
    if known is None:
        reason = (
            "no step was watched" if report.step.steps_watched == 0 else "watched and unwatched steps do not compare"
        )
        return f"How much of the step the watched ops and the gaps between them explain is not known: {reason}."
    value, band = format_percent(known.value), format_percent_range(known.low, known.high)
    explained = value if value == band else f"{value} ({band})"
    text = f"Reconciliation: watched ops and the gaps between them explain {explained} of the unwatched step's time"
    if abs(known.value - 1) > _RECONCILED_WITHIN:
        return f"{text}; the shares may be off by as much as is missing from, or above, 100%."
    return f"{text}."


def _unmodelled(report: Report, *, unicode: bool) -> str:
    ops = report.counts.unmodelled
    if not ops:
        if report.counts.ops == 0:
            return "No op was seen, so none was modelled."
        return "Every op that was seen could be modelled."
    ops = tuple(sorted(ops, key=lambda op: op.share or 0.0, reverse=True))
    names = [
        f"{elide_middle(clean(op.name, unicode=unicode), _LONGEST_NAME, unicode=unicode)} ({plural(op.calls, 'call')})"
        for op in ops[:_SHOWN_UNMODELLED]
    ]
    rest = len(ops) - len(names)
    listed = ", ".join(names) + (f" and {rest} more" if rest else "")
    shares = [op.share for op in ops if op.share is not None]
    if not shares:
        return f"Could not be modelled, share of the step unknown: {listed}."
    at_least = "" if len(shares) == len(ops) else "at least "
    return f"Could not be modelled, {at_least}{format_percent(sum(shares))} of the step: {listed}."


def _findings(report: Report, *, unicode: bool) -> Table:
    items = []
    for finding in report.findings:
        message = clean(finding.message, unicode=unicode)
        text = Text(message if message.endswith((".", "!", "?")) else f"{message}.")
        if finding.advice:
            text.append(f" {clean(finding.advice, unicode=unicode)}")
        text.append(f" [{clean(finding.code, unicode=unicode)}]", style="dim")
        items.append((text, ""))
    return bullets(items, mark="  !", mark_width=4, style="yellow")
