"""A report as a page of plain data: the answer first, then what it rests on, and how to have it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from boundby.report.document import Block, Bullets, Code, Document, Paragraph, Section, Table
from boundby.report.next_command import rerun_command
from boundby.report.private_text import without_private_text
from boundby.report.remedy_words import trials_sentence
from boundby.report.report_lines import lines_section
from boundby.report.report_remedies import remedies_section
from boundby.report.report_roofline import roofline_section
from boundby.report.report_split import split_section
from boundby.report.report_timeline import timeline_section
from boundby.report.report_trust import finding_told, machine_section, script_section, trust_section
from boundby.report.report_words import ended_findings, followed, sentence, short_name, step_time_text
from boundby.results.language import language, tr, trn
from boundby.results.report import Report
from boundby.results.units import format_si, format_size

_GENERIC_NAMES = ("", "step")


def report_document(report: Report, *, confidential: bool = False, folder: str | None = None) -> Document:
    """The page of a report, in the language in use. All that comes from the user's code stands in it as plain text.

    Args:
        report: what to show.
        confidential: whether to leave out paths, source lines, and the names that come from the script.
        folder: an absolute path; paths below it are shown relative to it. None shows them as recorded.
    """
    if confidential:
        report, folder = without_private_text(report), None
    sections = (
        split_section(report),
        roofline_section(report, folder=folder),
        timeline_section(report),
        lines_section(report, folder=folder, read_sources=not confidential),
        remedies_section(report),
        script_section(report, folder=folder),
        trust_section(report),
        machine_section(report),
        _reproduce(report, confidential=confidential),
    )
    return Document(
        title=_title(report),
        lead=tuple(_lead(report)),
        sections=tuple(one for one in sections if one is not None),
        language=language(),
    )


def _title(report: Report) -> str:
    return {
        "training": tr("What bounds this training step"),
        "inference": tr("What bounds this inference step"),
        "callable": tr("What bounds this call"),
    }[report.step.kind]


def _lead(report: Report) -> Iterator[Block]:
    verdict = report.verdict.sentence or tr("What bounds this step is unknown.")
    yield Paragraph(text=followed(trials_sentence(report.remedies), verdict), emphasis=True)
    ended = ended_findings(report)
    if ended:
        yield Bullets(items=tuple(finding_told(one) for one in ended))
    if report.modelled_for is not None:
        yield Paragraph(
            text=tr("Modelled, not measured: times, shares and floors are those of a machine the step did not run on."),
            note=True,
        )
    yield Table(caption=tr("The step"), head=(tr("What"), tr("Value")), rows=tuple(_facts(report)))
    if report.verdict.evidence:
        yield Bullets(items=tuple(sentence(one) for one in report.verdict.evidence))


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    step, counts = report.step, report.counts
    if step.steps_timed:
        yield (
            tr("Time of a step"),
            step_time_text(report) + ("" if report.modelled_for is None else f", {tr('modelled')}"),
        )
    else:
        yield tr("Time of a step"), tr("unknown")
    if step.name not in _GENERIC_NAMES:
        yield tr("What a step is"), short_name(step.name)
    where = tr("the CPU") if step.device == "cpu" else step.device
    yield (
        tr("Where"),
        trn("{count} thread of {where}", "{count} threads of {where}", step.threads, where=where),
    )
    yield tr("Steps"), _steps(report)
    if counts.ops:
        flops = counts.matmul_flops + counts.pointwise_flops
        yield (
            tr("Work of a step"),
            tr(
                "{ops}, {launches} of them do work; {flops}; {read} read, {written} written",
                ops=trn("{count} op", "{count} ops", counts.ops),
                launches=f"{counts.launches:,}",
                flops=format_si(flops, "FLOP"),
                read=format_size(counts.bytes_read),
                written=format_size(counts.bytes_written),
            ),
        )
    if counts.saved_bytes is not None:
        yield tr("Kept for the backward pass"), format_size(counts.saved_bytes)


def _steps(report: Report) -> str:
    step = report.step
    text = trn(
        "{count} timed with nothing watching, {watched} watched",
        "{count} timed with nothing watching, {watched} watched",
        step.steps_timed,
        watched=f"{step.steps_watched:,}",
    )
    if step.warmup_steps:
        text = tr("{steps}, after {warmup} to warm up", steps=text, warmup=f"{step.warmup_steps:,}")
    if step.events_per_step > 1:
        events = trn("{count} event", "{count} events", step.events_per_step)
        text = tr("{steps}; a step is a cycle of {events}", steps=text, events=events)
    return text


def _reproduce(report: Report, *, confidential: bool) -> Section:
    command = report.tool.command
    blocks: list[Block] = []
    if command:
        blocks.append(Code(text=shlex.join(command), caption=tr("This page tells of what was seen by:")))
    if command and not confidential:
        blocks.append(Code(text=rerun_command(report, "after.json"), caption=tr("To measure again, for a comparison:")))
    about = report.machine.description
    blocks.append(
        Paragraph(
            text=tr(
                "Made by {tool} {version} with torch {torch} and Python {python} on {system}.",
                tool=report.tool.name,
                version=report.tool.version,
                torch=about.torch or tr("unknown"),
                python=about.python,
                system=about.os,
            ),
            note=True,
        )
    )
    return Section(title=tr("How to have it again"), blocks=tuple(blocks))
