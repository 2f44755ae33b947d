"""The page of a report: what stands on it, in which order, and that it holds for any report."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from sample_reports import ALL, FOLDER, compute_bound, hostile, input_bound, line, memory_bound, op_of, overhead_bound

from boundby.report.chart import Chart
from boundby.report.document import Block, Bullets, Code, Document, Paragraph, Table
from boundby.report.html import render_html
from boundby.report.markdown import render_markdown
from boundby.report.report_document import report_document
from boundby.results.interval import interval
from boundby.results.machine import Finding
from boundby.results.remedy import Measured, Numerics, PastTrials, Predicted, Remedy
from boundby.results.report import ModelledFor, Report, TimelineSpan

TRIED = Remedy(
    name="fused-optimizer",
    title="fused optimizer kernels",
    predicted=Predicted(
        speedup=1.3, low=1.2, high=1.4, reason="its ops take 30% of the step", change="pass fused=True"
    ),
    measured=Measured(
        speedup=1.31,
        low=1.22,
        high=1.4,
        floor=0.05,
        turns=40,
        steps_per_turn=3,
        base_step_s=0.0038,
        step_s=0.0029,
        base_start_s=1.0,
        start_s=4.0,
        break_even_steps=3300,
    ),
    numerics=Numerics(of="loss", steps=20, largest=2e-7, last=1e-7),
    advice="do",
    held=True,
)
UNTRIED = Remedy(name="bf16-autocast", title="bf16 autocast", why="the machine was not quiet enough for its probe")
FAILED = Remedy(name="compile", title="torch.compile", failed="RuntimeError: no compiler")
SPANS = (
    TimelineSpan(phase="forward", module="blocks.0", start_s=0.0, time_s=0.001, op_s=0.0008, ops=40),
    TimelineSpan(phase="gap", module=None, start_s=0.001, time_s=0.0005, op_s=0.0, ops=0),
    TimelineSpan(phase="backward", module=None, start_s=0.0015, time_s=0.002, op_s=0.0015, ops=80),
)


def full() -> Report:
    """A report with something in every section."""
    report = overhead_bound()
    row = replace(report.ops[1], matmul_flops=40_000_000, dtype="fp32", bytes_read=1_000_000, bytes_written=500_000)
    return replace(
        report,
        ops=(row, *report.ops),
        remedies=(TRIED, UNTRIED, FAILED),
        timeline=SPANS,
        past_trials=PastTrials(trials=9, held=7),
        findings=(Finding(code="steps-spread", message="step times spread widely", advice="Look for other load."),),
        counts=memory_bound().counts,
    )


def blocks(document: Document) -> list[Block]:
    return [*document.lead, *(block for section in document.sections for block in section.blocks)]


def charts(document: Document) -> dict[str, Chart]:
    return {block.name: block for block in blocks(document) if isinstance(block, Chart)}


def table(document: Document, caption: str) -> Table:
    return next(block for block in blocks(document) if isinstance(block, Table) and block.caption == caption)


def text_of(document: Document) -> str:
    return render_markdown(document)


def test_the_sentence_stands_first_and_the_sections_follow_in_their_order() -> None:
    document = report_document(full(), folder=FOLDER)
    first = document.lead[0]
    assert isinstance(first, Paragraph)
    tried = "Measured best: fused-optimizer, 1.31x (1.22-1.40) as fast."
    assert (first.text, first.emphasis) == (f"{tried} {full().verdict.sentence}", True)
    assert [section.title for section in document.sections] == [
        "Where the time of a step goes",
        "Roofline",
        "One step along time",
        "The costliest source lines",
        "What helped",
        "How far to trust this",
        "The machine",
        "How to have it again",
    ]


@pytest.mark.parametrize("name", ALL)
def test_any_report_makes_a_page(name: str) -> None:
    document = report_document(ALL[name](), folder=FOLDER)
    assert "<html" in render_html(document)
    assert text_of(document)
    names = [one.name for one in blocks(document) if isinstance(one, Chart)]
    assert len(set(names)) == len(names)


def test_the_split_is_one_stacked_bar_and_a_bar_with_its_band_for_each_share() -> None:
    chart = charts(report_document(overhead_bound()))["split"]
    stacked = [bar for bar in chart.bars if bar.category == "the step"]
    assert sum(bar.value for bar in stacked) == pytest.approx(1)
    for before, after in pairwise(stacked):
        assert after.start == pytest.approx(before.start + before.value)
    overhead = next(bar for bar in chart.bars if bar.category == "overhead")
    assert (overhead.value, overhead.low, overhead.high) == (0.62, 0.58, 0.66)
    assert "input" not in chart.y.categories, "a share of nothing is left to the table"
    assert table(report_document(overhead_bound()), "The split").rows[0][:4] == ("overhead", "62%", "58-66%", "2.4 ms")


def test_ops_lie_on_the_roofline_at_their_intensity_and_rate() -> None:
    report = full()
    chart = charts(report_document(report, folder=FOLDER))["roofline"]
    row = report.ops[0]
    mark = next(one for one in chart.marks if one.x == pytest.approx(40_000_000 / 1_500_000))
    seconds = 0.16 * report.step.time_s.median
    assert row.share == 0.16
    assert mark.y == pytest.approx(40_000_000 / seconds)
    assert (mark.size, mark.group, mark.label) == (pytest.approx(seconds), "matmul", "addmm")
    told = " ".join(mark.details)
    for part in ("model.py:31", "blocks.1.mlp", "16% of the step", "1.5x its matmul floor", "fp32"):
        assert part in told
    assert {line.name.split()[0] for line in chart.lines} == {"fp32", "main"}
    slope = next(line for line in chart.lines if line.name.startswith("main memory"))
    assert slope.low is not None
    assert slope.y[0] / slope.x[0] == pytest.approx(27.1e9)
    assert slope.low[0] / slope.x[0] == pytest.approx(25e9)
    assert min(one.x for one in chart.marks) >= chart.lines[0].x[0]


def test_ops_without_flops_or_costs_stand_beside_the_roofline_and_never_at_zero() -> None:
    report = full()
    step_s = report.step.time_s.median
    copy = replace(report.ops[0], op="copy_", matmul_flops=0, time_s=0.0005, share=0.0005 / step_s)
    custom = replace(copy, op="mylib::scan", modelled=False, bytes_read=0, bytes_written=0, share=0.0004 / step_s)
    silent = replace(copy, op="view", time_s=0.0, share=0.0)
    document = report_document(replace(report, ops=(copy, copy, custom, silent, report.ops[0])), folder=FOLDER)
    assert [one.label for one in charts(document)["roofline"].marks] == ["addmm"]
    rows = table(document, "Ops that have no place on the roofline").rows
    assert [(row[0], row[2], row[5]) for row in rows] == [
        ("copy_", "1.0 ms", "no FLOP; 3.0 GB/s"),
        ("mylib.scan", "400 µs", "could not be modelled"),
    ]


def test_an_op_faster_than_every_ceiling_is_drawn_there_and_said_to_be() -> None:
    report = full()
    fast = replace(report.ops[0], time_s=1e-6, share=1e-6 / report.step.time_s.median)
    mark = charts(report_document(replace(report, ops=(fast,))))["roofline"].marks[0]
    assert mark.y == pytest.approx(4e13)
    assert any("above the ceilings" in detail for detail in mark.details)


def test_a_step_that_took_far_longer_when_watched_is_not_divided_on_its_page() -> None:
    report = replace(full(), reconciliation=interval(20.52))
    document = report_document(report, folder=FOLDER)
    assert "split" not in charts(document)
    text = text_of(document)
    assert "Not drawn: watched step by step, it came to 2,052% of what the step takes unwatched" in text
    assert "Times are those of the watched steps, which took far longer" in text
    (first, *_) = table(document, "Source lines with their ops, those of the backward pass included").rows
    assert first[:2] == ("unknown", "1.1 ms")
    assert any("unknown of the step" in one for one in charts(document)["roofline"].marks[0].details)


def test_a_time_is_its_share_of_the_step() -> None:
    """Whatever the watched steps took: a reader may multiply."""
    report = overhead_bound()
    lines = tuple(replace(line, time_s=1.7 * line.time_s) for line in report.lines)
    rows = table(
        report_document(replace(report, lines=lines)),
        "Source lines with their ops, those of the backward pass included",
    ).rows
    assert rows[0][:2] == ("29%", "1.1 ms")
    assert rows[0][5] == "1.1x its overhead floor of 980 µs"


def test_the_timeline_has_a_bar_for_each_stretch_in_the_row_of_its_phase() -> None:
    chart = charts(report_document(full()))["timeline"]
    assert chart.y.categories == ("forward", "backward", "no op")
    assert [(bar.category, bar.start, bar.value) for bar in chart.bars] == [
        ("forward", 0.0, 0.001),
        ("no op", 0.001, 0.0005),
        ("backward", 0.0015, 0.002),
    ]
    assert "timeline" not in charts(report_document(overhead_bound()))
    assert chart.summary.startswith("A step of 3.50 ms as it was watched: ")
    waiting = charts(report_document(replace(input_bound(), timeline=SPANS)))["timeline"]
    assert "3.50 ms beside its wait for a DataLoader, which is not drawn: " in waiting.summary


def test_code_stands_beside_its_line_where_the_file_is_there_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import torch\n\ndef f(x):\n    y = x * 2\n    return y + 1\n\nprint('end')\n")

    def codes(*rows: tuple[int, str], read: bool = True) -> list[str]:
        lines = tuple(
            line(str(file), number, code, 0.001 / number, 0.3, "memory", 0.0005, ("mul",), 1) for number, code in rows
        )
        report = replace(overhead_bound(), lines=lines, ops=tuple(op_of(one, None) for one in lines))
        found = blocks(report_document(report, folder=str(tmp_path), confidential=not read))
        return [one.text for one in found if isinstance(one, Code) and "boundby" not in one.text]

    assert codes((4, "y = x * 2")) == ["        3  def f(x):\n   30%  4      y = x * 2\n        5      return y + 1"]
    assert codes((4, "y = x * 3")) == ["   30%  4  y = x * 3"], "the file has changed since"
    together = codes((4, "y = x * 2"), (5, "return y + 1"))
    assert len(together) == 1
    assert together[0].count("30%") == 2
    assert codes((4, "y = x * 2"), read=False) == []
    file.unlink()
    assert codes((4, "y = x * 2")) == ["   30%  4  y = x * 2"]


@pytest.mark.parametrize("name", ["passwd", "notes.txt", "folder.py"])
def test_no_other_file_is_read_for_code(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "folder.py":
        path.mkdir()
    else:
        path.write_text("secret above\nroot:x:0\nsecret below\n")
    row = line(str(path), 2, "root:x:0", 0.001, 0.3, "memory", 0.0005, ("mul",), 1)
    text = text_of(report_document(replace(overhead_bound(), lines=(row,))))
    assert "root:x:0" in text
    assert "secret" not in text


def test_a_step_whose_ops_have_no_times_has_a_page_that_says_so() -> None:
    text = text_of(report_document(replace(overhead_bound(), lines=(), ops=(), timeline=())))
    assert "Unknown: the step's ops could not be timed." in text
    assert "Roofline" not in text
    assert "no step was watched" in text_of(report_document(ALL["unknown"]()))


def test_remedies_are_told_as_predicted_and_as_measured() -> None:
    document = report_document(full())
    rows = table(document, "Remedies, times as fast as the script as it is").rows
    assert rows[0] == (
        "fused-optimizer",
        "fused optimizer kernels",
        "1.30x (1.20-1.40)",
        "1.31x (1.22-1.40)",
        "yes",
        "do",
    )
    assert rows[1][2:] == ("unknown", "not tried", "", "try")
    assert rows[2][2:] == ("unknown", "failed", "", "failed")
    bars = charts(document)["remedies"].bars
    assert [(bar.look, bar.value, bar.low, bar.high) for bar in bars] == [
        ("modelled", 1.3, 1.2, 1.4),
        ("measured", 1.31, 1.22, 1.4),
    ]
    text = text_of(document)
    for part in (
        "paid back after 3,300 steps",
        "0.0001% over 20 steps",
        "to do: pass fused=True",
    ):
        assert part in text
    assert "Predictions held in 7 of 9 trials here so far." in text
    dismissed = replace(full(), remedies=(replace(UNTRIED, advice="skip", predicted=TRIED.predicted),))
    assert "to do" not in text_of(report_document(dismissed))


def test_reconciliation_findings_and_what_is_not_modelled_are_always_told() -> None:
    text = text_of(report_document(full()))
    assert "explain 98% (96-100%) of the unwatched step's time." in text
    assert "step times spread widely. Look for other load." in text
    assert "steps-spread" in text
    assert "take at least 2.1% of the step" in text
    assert "torchvision.nms" in text
    off = text_of(report_document(replace(full(), reconciliation=interval(0.7, 0.6, 0.8))))
    assert "may be off by as much as is missing" in off
    unknown = text_of(report_document(ALL["unknown"]()))
    assert "not known: no step was watched" in unknown
    assert "No limit of this machine was measured" in unknown


def test_what_was_found_in_the_script_has_a_section_of_its_own() -> None:
    found = Finding(
        code="writes-every-step",
        message="train.py:58: prints 2 times a step",
        advice="Do it every so many steps.",
        about="script",
        path=f"{FOLDER}/train.py",
        line=58,
        time_s=interval(0.0004, 0.0003, 0.0005),
    )
    unknown = replace(found, code="profiler-on", path=None, line=None, time_s=None)
    report = replace(full(), findings=(*full().findings, found, unknown))
    document = report_document(report, folder=FOLDER)
    assert [one.title for one in document.sections[4:7]] == [
        "What helped",
        "Found in the script",
        "How far to trust this",
    ]
    assert table(document, "What no ceiling shows").rows == (
        ("writes-every-step", "train.py:58", "400 µs", "300 µs to 500 µs"),
        ("profiler-on", "", "unknown", ""),
    )
    trust = document.sections[6]
    assert "prints" not in str(trust)
    assert "spread widely" in str(trust)


def test_what_is_modelled_or_of_a_datasheet_does_not_look_measured() -> None:
    report = full()
    here = report.machine.description
    there = replace(report.machine, ceilings=tuple(replace(one, source="modelled") for one in report.machine.ceilings))
    model = ModelledFor(machine="Big", measured_on=here, measured_time_s=report.step.time_s, measured_bound="overhead")
    document = report_document(replace(report, machine=there, modelled_for=model))
    drawn = charts(document)
    assert {bar.look for bar in drawn["split"].bars} == {"modelled"}
    assert {bar.look for bar in drawn["timeline"].bars} == {"modelled"}
    assert {one.look for one in drawn["roofline"].lines} == {"modelled"}
    assert "Modelled, not measured" in text_of(document)
    assert "Not measured on this machine: 1 of the 6 limits." in text_of(report_document(compute_bound()))


def test_paths_are_short_in_tables_and_whole_beside_the_code() -> None:
    rows = overhead_bound().lines
    elsewhere = replace(rows[0], path="/usr/lib/python3/site-packages/torch/optim/adam.py", line=7)
    report = replace(overhead_bound(), lines=(elsewhere, *rows[1:]))
    document = report_document(report, folder="/elsewhere")
    places = [
        row[2] for row in table(document, "Source lines with their ops, those of the backward pass included").rows
    ]
    assert places[:2] == ["torch/optim/adam.py:7", "…/project/model.py:31"]
    assert "outside any line of the script" in places
    captions = [block.caption for block in blocks(document) if isinstance(block, Code)]
    assert any(one.startswith(elsewhere.path or "-") for one in captions)


def test_the_command_is_told_as_a_shell_takes_it() -> None:
    codes = [one.text for one in blocks(report_document(compute_bound())) if isinstance(one, Code)]
    assert codes[-2:] == ["boundby run -o 'my out.json' gemm.py", "boundby run -o after.json gemm.py"]


def test_hostile_text_stays_text() -> None:
    report = hostile()
    evil = "<img src=x onerror=alert(1)>\"'</script>"
    rows = tuple(replace(one, module=evil, op=evil, path=f"/tmp/{evil}.py", matmul_flops=10**9) for one in report.ops)
    report = replace(
        report,
        ops=rows,
        lines=tuple(replace(one, path=f"/tmp/{evil}.py", code=evil, ops=(evil,)) for one in report.lines),
        timeline=(replace(SPANS[0], module=evil),),
        remedies=(replace(TRIED, name=evil, title=evil), replace(UNTRIED, why=evil)),
        findings=(Finding(code=evil, message=evil, advice=evil),),
    )
    page = render_html(report_document(report))
    assert "<img" not in page
    assert "alert(1)>\"'</script>" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "\x1b" not in page
    outside_code = render_markdown(report_document(report)).split("```")[::2]
    assert "<img" not in "".join(outside_code)


def test_a_step_of_very_many_ops_makes_a_small_page() -> None:
    report = full()
    rows = tuple(
        replace(
            report.ops[0],
            op=f"aten.op{place % 300}.default",
            path=f"{FOLDER}/file{place % 200}.py",
            line=place,
            module=f"blocks.{place}.attn",
            time_s=1e-6 * (place % 97 + 1),
            matmul_flops=10**6 * (place % 3),
        )
        for place in range(20_000)
    )
    lines = tuple(replace(report.lines[0], path=row.path, line=row.line) for row in rows)
    spans = tuple(replace(SPANS[0], start_s=0.001 * place, module=f"blocks.{place}") for place in range(400))
    page = render_html(report_document(replace(report, ops=rows, lines=lines, timeline=spans)))
    assert len(page.encode()) < 3_000_000


def test_bullets_are_whole_sentences() -> None:
    for block in blocks(report_document(full())):
        if isinstance(block, Bullets):
            assert all(item.endswith((".", "]")) or item.startswith("line ") for item in block.items), block.items


def test_lines_above_a_measured_limit_are_marked_and_the_mark_explained() -> None:
    text = text_of(report_document(compute_bound(), folder=FOLDER))
    assert "! faster than its matmul floor of 24 ms" in text
    assert text.count("! Above a measured limit:") == 1
    assert "Above a measured limit" not in text_of(report_document(memory_bound(), folder=FOLDER))
