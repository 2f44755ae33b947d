"""What a person reads: gold outputs, and what must hold for any report."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
import sample_reports
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from boundby.report.machine_table import render_machine
from boundby.report.markdown import render_markdown
from boundby.report.next_command import next_command, rerun_command, saved_command
from boundby.report.report_document import report_document
from boundby.report.safe_text import clean, elide, elide_middle, short_path
from boundby.report.split_bar import bar_cells
from boundby.report.terminal import render_report
from boundby.results.counts import Unmodelled
from boundby.results.interval import interval
from boundby.results.machine import Ceiling, CeilingKind, Finding
from boundby.results.machine_file import decode_machine
from boundby.results.report import SHARES, Floors, MedianTime, PageFaults, Report

FILES = Path(__file__).parent / "files"
WIDTHS = (40, 80, 100)
Unit: TypeAlias = Literal["flop/s", "byte/s", "s"]
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class TextFile(SingleFileSnapshotExtension):
    """One readable file a gold output."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def gold(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(TextFile)


def shown(report: Report, width: int = 80, *, color: bool = False, unicode: bool = True) -> str:
    return render_report(report, width=width, color=color, unicode=unicode, folder=sample_reports.FOLDER)


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("name", list(sample_reports.ALL))
def test_gold(name: str, width: int, gold: SnapshotAssertion) -> None:
    assert shown(sample_reports.ALL[name](), width) == gold


@pytest.mark.parametrize("name", ["overhead", "hostile"])
def test_gold_in_ascii(name: str, gold: SnapshotAssertion) -> None:
    assert shown(sample_reports.ALL[name](), unicode=False) == gold


@pytest.mark.parametrize("width", [40, 80])
def test_gold_machine(width: int, gold: SnapshotAssertion) -> None:
    machine = sample_reports.compute_bound().machine
    assert render_machine(machine, width=width, color=False, unicode=True) == gold


def test_gold_machine_as_measured(gold: SnapshotAssertion) -> None:
    machine = decode_machine((FILES / "machine-measured.json").read_bytes())
    text = render_machine(machine, width=80, color=False, unicode=True)
    assert len(text.splitlines()) <= 76
    assert text == gold


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=40), st.sampled_from(WIDTHS), st.booleans())
def test_any_text_in_a_machine_stays_inside_the_page(text: str, width: int, unicode: bool) -> None:
    machine = sample_reports.compute_bound().machine
    named = tuple(replace(one, name=text, dtype=text) for one in machine.ceilings)
    hostile = replace(
        machine,
        description=replace(machine.description, cpu=text, torch=text, device=text, python=text, measured_at=text),
        ceilings=(*machine.ceilings, *named),
        findings=(Finding(code=text, message=text, advice=text),),
    )
    out = render_machine(hostile, width=width, color=False, unicode=unicode)
    assert max(cell_len(line) for line in out.splitlines()) <= width
    assert all(character == "\n" or character.isprintable() for character in out)
    assert unicode or out.isascii()


def test_a_machine_in_short_says_where_one_limit_gives_way_to_another() -> None:
    def ceiling(kind: CeilingKind, name: str, value: float, unit: Unit, size_bytes: int | None = None) -> Ceiling:
        dtype = None if kind == "overhead" else "fp32"
        return Ceiling(
            kind=kind, name=name, dtype=dtype, value=value, low=value, high=value, unit=unit, size_bytes=size_bytes
        )

    machine = replace(
        sample_reports.MACHINE,
        ceilings=(
            ceiling("matmul", "mm", 200e9, "flop/s"),
            ceiling("bandwidth", "triad", 40e9, "byte/s", 2**28),
            ceiling("bandwidth", "triad", 100e9, "byte/s", 2**20),
            ceiling("overhead", "pointwise", 2e-6, "s"),
            ceiling("overhead", "page_fault", 250e-9, "s"),
        ),
    )
    text = " ".join(render_machine(machine, width=100, color=False, unicode=False).split())
    assert "40.0 GB/s from main memory, up to 100 GB/s from caches (triad)" in text
    assert "5.0 fp32 FLOP/byte" in text
    assert "takes 2.00 us where it is pointwise, 2.0 us to 2.0 us by which it is" in text
    assert "at 2.00 us that is most of its time below 200 KiB of data" in text
    short = replace(machine, ceilings=tuple(one for one in machine.ceilings if one.size_bytes != 2**28))
    text = " ".join(render_machine(short, width=100, color=False, unicode=False).split())
    assert "100 GB/s up to 1 MiB, the largest set measured: main memory was not reached (triad)" in text
    assert "ridge" not in text
    assert "main memory binds" not in text
    assert "takes 250 ns the first time it is written" in text
    bare = render_machine(replace(machine, ceilings=()), width=80, color=False, unicode=True)
    assert "no limit is known" in bare
    assert "In short" not in bare


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("name", list(sample_reports.ALL))
def test_every_line_fits_and_is_plain(name: str, width: int, unicode: bool) -> None:
    text = shown(sample_reports.ALL[name](), width, unicode=unicode)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert all(line == line.rstrip() for line in text.splitlines())
    assert all(character == "\n" or character.isprintable() for character in text)
    assert unicode or text.isascii()
    assert text.endswith("\n")


@pytest.mark.parametrize("name", list(sample_reports.ALL))
def test_colour_changes_no_character(name: str) -> None:
    report = sample_reports.ALL[name]()
    coloured = shown(report, color=True)
    assert "\x1b[" in coloured
    plain = "\n".join(line.rstrip() for line in ANSI.sub("", coloured).split("\n"))
    assert plain == shown(report)


@pytest.mark.parametrize("name", sorted(set(sample_reports.ALL) - {"hostile"}))
def test_the_first_line_is_the_sentence(name: str) -> None:
    report = sample_reports.ALL[name]()
    first = shown(report, 80).split("\n\n")[0]
    assert " ".join(first.split("\n")) == report.verdict.sentence


def test_sections_come_in_their_order() -> None:
    text = shown(sample_reports.memory_bound())
    marks = [
        "bound by memory",
        "Step ",
        "Where the time",
        "Costliest",
        "explain 88%",
        "Could not",
        "kinds:",
        "spoil",
        "Next ",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)


def test_a_part_that_was_not_seen_reads_unknown_and_not_zero() -> None:
    text = shown(sample_reports.unknown())
    assert "time unknown" in text
    assert "not known: no step was watched" in text
    assert "0%" not in text
    report = replace(sample_reports.overhead_bound(), reconciliation=None)
    assert "do not compare" in shown(report)


def test_where_the_rest_of_a_step_is_is_told_where_the_lines_are_little_of_it() -> None:
    report = sample_reports.overhead_bound()
    few = replace(report, lines=tuple(replace(line, share=0.01, time_s=0.02 * 3.8e-3) for line in report.lines))
    assert "is outside of ops" in " ".join(shown(few).split())


def test_a_line_takes_its_share_of_the_step_however_long_watched_steps_took() -> None:
    report = sample_reports.overhead_bound()
    step = replace(report.step, time_s=MedianTime(median=0.0172, low=0.017, high=0.0175))
    far = replace(report, step=step, lines=(replace(report.lines[0], share=0.16, time_s=0.0021),))
    row = next(line for line in shown(far).splitlines() if "train.py:58" in line)
    assert row.split()[:3] == ["16%", "2.8", "ms"]


def test_a_step_that_took_far_longer_when_watched_is_not_divided() -> None:
    text = shown(replace(sample_reports.overhead_bound(), reconciliation=interval(20.52, 18.0, 23.0)))
    flat = " ".join(text.split())
    assert "not drawn: watched step by step, it came to 2,052% of what the step takes unwatched" in flat
    assert "Times are those of the watched steps, which took far longer than the unwatched step" in flat
    assert not any(glyph in text for glyph in "█▓▒░")
    assert "29%" not in text


def test_one_timed_step_has_no_spread_and_says_so() -> None:
    report = sample_reports.overhead_bound()
    one = MedianTime(median=0.00276, low=0.00276, high=0.00276)
    text = shown(replace(report, step=replace(report.step, time_s=one, steps_timed=1)))
    assert "2.76 ms (spread unknown: one step was timed)" in " ".join(text.split())
    assert "spread unknown" not in shown(report)


def test_ops_modelled_by_their_bytes_alone_are_named() -> None:
    report = replace(
        sample_reports.overhead_bound(),
        partly_modelled=(
            Unmodelled(name="aten.argmin", calls=1, share=0.24),
            Unmodelled(name="aten.cumsum", calls=2, share=0.01),
            Unmodelled(name="aten.sort", calls=1, share=0.0001),
        ),
    )
    text = " ".join(shown(report).split())
    assert "Every op that was seen could be modelled" not in text
    assert "by their bytes alone" in text
    assert "argmin (1 call), " in text
    assert "cumsum (2 calls). What of their 25% of the step is beyond that" in text
    assert "sort" not in text, "what takes next to nothing changes nothing"
    untold = replace(report, partly_modelled=(Unmodelled(name="aten.cumsum", calls=2, share=None),))
    text = " ".join(shown(untold).split())
    assert "cumsum (2 calls). What they take beyond that is unexplained; how much of the step that is," in text


def test_page_faults_are_told_with_their_cost() -> None:
    report = sample_reports.overhead_bound()

    def told(per_step: float, seconds_each: float | None, time_s: float | None, *, share: float | None = None) -> str:
        faults = PageFaults(per_step=per_step, seconds_each=seconds_each, time_s=time_s)
        parts = report.overhead_parts
        parts = replace(parts, allocation=parts.allocation if share is None else share)
        text = shown(replace(report, page_faults=faults, overhead_parts=parts))
        return next(line for line in text.splitlines() if line.split()[:1] == ["allocation"])

    time_s = report.step.time_s.median
    assert told(1200, 250e-9, 300e-6, share=300e-6 / time_s).endswith("  1,200 page faults, 250 ns each: 300 µs a step")
    assert told(1200, 250e-9, 300e-6).endswith("  1,200 page faults, at most 250 ns each")
    assert told(0, 250e-9, 0.0).endswith("  page faults in some steps only")
    assert told(1, None, None).endswith("  1 page fault; cost unknown")
    assert "allocation" not in shown(
        replace(
            report,
            page_faults=None,
            overhead_parts=replace(report.overhead_parts, allocation=0.0),
        )
    )


def test_a_line_under_its_floor_is_reported_as_such() -> None:
    text = shown(sample_reports.compute_bound())
    assert "! faster than its matmul floor of 24 ms: above the measured limit" in text
    assert " ".join(text.split()).count("! Above a measured limit:") == 1


@pytest.mark.parametrize(("above", "marked"), [(False, False), (None, True), (True, True)])
def test_the_band_of_a_floor_decides_where_it_is_known(above: bool | None, marked: bool) -> None:
    report = sample_reports.compute_bound()
    floors = replace(report.lines[0].floors, above=above)
    text = shown(replace(report, lines=(replace(report.lines[0], floors=floors),)))
    assert ("! faster than its matmul floor" in text) is marked
    assert ("! Above a measured limit" in text) is marked
    assert ("at its matmul floor of 24 ms" in text) is not marked


def test_overhead_above_its_limit_is_marked_too() -> None:
    report = sample_reports.overhead_bound()
    floors = replace(report.lines[0].floors, overhead_s=0.2, memory_s=0.0, matmul_s=0.0, pointwise_s=0.0, above=True)
    text = shown(replace(report, lines=(replace(report.lines[0], floors=floors, time_s=0.1),)))
    assert "! faster than its overhead floor of 200 ms" in text


def test_floors() -> None:
    report = sample_reports.overhead_bound()

    def floor(floors: Floors, time_s: float = 1.0) -> str:
        row = replace(report.lines[0], floors=floors, time_s=time_s, share=time_s / report.step.time_s.median)
        return shown(replace(report, lines=(row,)))

    nothing = Floors(overhead_s=0.0, memory_s=0.0, matmul_s=0.0, pointwise_s=0.0, bound="memory")
    assert "no floor known" in floor(nothing)
    assert "no floor known" in floor(replace(nothing, bound="none"))
    assert "at its memory floor of 1.0 s" in floor(replace(nothing, memory_s=1.0))
    assert "4.0x its memory floor of 250 ms" in floor(replace(nothing, memory_s=0.25))


def test_limits_that_were_not_measured_are_named() -> None:
    assert "Not measured on this machine: 1 of the 6 limits (datasheet)." in shown(sample_reports.compute_bound())
    table = render_machine(sample_reports.compute_bound().machine, width=80, color=False, unicode=True)
    assert "97.3 fp32, 97.3 bf16 [datasheet] GFLOP/s" in table
    assert "97.3 [d]" in table
    assert "Not measured on this machine: [d] from a datasheet." in table


def test_many_unmodelled_ops_and_kinds_of_step_are_cut_with_their_number() -> None:
    report = sample_reports.overhead_bound()
    ops = tuple(Unmodelled(name=f"lib::op{index}", calls=index, share=0.01) for index in range(9))
    text = " ".join(shown(replace(report, counts=replace(report.counts, unmodelled=ops))).split())
    assert "9.0% of the step" in text
    assert "and 4 more" in text
    unshared = tuple(replace(op, share=None) for op in ops)
    assert "share of the step unknown" in shown(replace(report, counts=replace(report.counts, unmodelled=unshared)))
    classes = tuple(replace(report.step.classes[0], digest=str(index), ops=index) for index in range(9))
    text = " ".join(shown(replace(report, step=replace(report.step, classes=classes))).split())
    assert "9 kinds" in text
    assert "5 more kinds" in text


def test_the_next_command() -> None:
    report = sample_reports.overhead_bound()

    def told(*command: str) -> tuple[str, str]:
        with_command = replace(report, tool=replace(report.tool, command=command))
        return next_command(with_command), rerun_command(with_command, "after.json")

    assert told("boundby", "run", "--steps", "9", "a b.py") == (
        "boundby run -o report.json --steps 9 'a b.py'",
        "boundby run -o after.json --steps 9 'a b.py'",
    )
    assert told("boundby", "run", "--output", "x.json", "t.py") == (
        "boundby show x.json",
        "boundby run --output after.json t.py",
    )
    assert told("boundby", "run", "t.py", "-o", "model.pt")[0] == "boundby run -o report.json t.py -o model.pt"
    assert told("boundby", "try", "-o", "page.html", "compile", "t.py") == (
        "boundby try -o report.json compile t.py",
        "boundby try -o after.json compile t.py",
    )
    assert told("boundby", "--lang", "zh", "run", "t.py")[0] == "boundby --lang zh run -o report.json t.py"
    assert told("boundby", "--lang=zh", "run", "-o", "x.json", "t.py")[0] == "boundby show x.json"
    assert told() == (
        'Path("report.json").write_text(report.to_json()) in your program keeps it',
        "boundby run -o after.json SCRIPT",
    )
    page = told("boundby", "run", "--warmup", "3", "-o", "x.html", "--stop", "a b.py", "-o", "y")[0]
    assert page == "boundby try 'a b.py' -o y"
    assert told("boundby", "run", "-o", "x.md", "-m", "pkg.train", "--lr", "1")[0] == "boundby try -m pkg.train --lr 1"
    odd = told("boundby", "run", "-o", "x.html", "new\nline's.py")[0]
    assert odd == r"boundby try $'new\x0aline\'s.py'"
    echo = f"echo -n {odd.removeprefix('boundby try ')}"
    assert subprocess.run(["bash", "-c", echo], capture_output=True).stdout == b"new\nline's.py"
    given_one = render_report(report, width=80, color=False, unicode=True, next_command="boundby doctor")
    assert given_one.endswith("Next     boundby doctor\n")


def test_what_can_be_done_with_a_saved_report() -> None:
    report = sample_reports.overhead_bound()
    run = replace(report, tool=replace(report.tool, command=("boundby", "run", "t.py")))
    assert saved_command(run, "a.json") == "boundby run -o after.json t.py"
    saved_by_a_program = replace(report, tool=replace(report.tool, command=()))
    then = ", once your program has saved a second report"
    assert saved_command(saved_by_a_program, "my a.json") == f"boundby compare 'my a.json' after.json{then}"
    assert saved_command(saved_by_a_program, "") == f"boundby compare before.json after.json{then}"


@given(st.text(max_size=60), st.booleans())
def test_cleaned_text_is_one_line_of_visible_characters(text: str, unicode: bool) -> None:
    cleaned = clean(text, unicode=unicode)
    assert all(character.isprintable() for character in cleaned)
    assert unicode or cleaned.isascii()


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=80), st.integers(4, 60), st.booleans())
def test_elided_text_fits(text: str, width: int, unicode: bool) -> None:
    for cut in (elide(text, width, unicode=unicode), elide_middle(text, width, unicode=unicode)):
        assert cell_len(cut) <= width
        assert cut == text or cell_len(text) > width


def test_paths_are_relative_only_below_the_folder() -> None:
    assert short_path("/a/b/c.py", "/a") == "b/c.py"
    assert short_path("/ab/c.py", "/a") == "/ab/c.py"
    assert short_path("/x/c.py", None) == "/x/c.py"
    assert short_path("<string>", "/a") == "<string>"


@given(st.lists(st.floats(-0.2, 1), min_size=6, max_size=6), st.integers(1, 100))
def test_the_bar_is_full_and_in_proportion(values: list[float], width: int) -> None:
    shares = dict(zip(SHARES, values, strict=True))
    cells = bar_cells(shares, width)
    total = sum(max(value, 0.0) for value in values)
    if total <= 0:
        assert set(cells.values()) == {0}
        return
    assert sum(cells.values()) == width
    for name, value in shares.items():
        assert abs(cells[name] - max(value, 0.0) / total * width) < 1


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=80), st.sampled_from(WIDTHS), st.booleans())
def test_any_text_anywhere_stays_inside_the_page(text: str, width: int, unicode: bool) -> None:
    report = sample_reports.overhead_bound()
    row = replace(report.lines[0], path=text, code=text, ops=(text, text))
    hostile = replace(
        report,
        verdict=replace(report.verdict, sentence=text, evidence=(text,)),
        step=replace(report.step, name=text, device=text),
        findings=(Finding(code=text, message=text, advice=text),),
        counts=replace(report.counts, unmodelled=(Unmodelled(name=text, calls=1),)),
        lines=(row,),
        ops=(replace(report.ops[0], path=text, line=row.line, module=text),),
        tool=replace(report.tool, command=("boundby", "run", text)),
    )
    out = shown(hostile, width, unicode=unicode)
    assert max(cell_len(line) for line in out.splitlines()) <= width
    assert all(character == "\n" or character.isprintable() for character in out)


@pytest.mark.parametrize("code", ["script-failed", "trials-interrupted"])
def test_that_something_failed_or_was_interrupted_stands_before_any_figure(code: str) -> None:
    failed = Finding(code=code, message="it ended with status 3", advice="Mend it.")
    report = replace(sample_reports.memory_bound(), findings=(failed,))
    text = shown(report)
    assert text.count(f"[{code}]") == 1
    assert "What could spoil the measurement" not in text
    assert text.index(f"[{code}]") < text.index("Step ")
    page = render_markdown(report_document(report))
    assert page.count(code) == 1
    assert page.index(code) < page.index("Time of a step")


def test_a_finding_that_asks_for_nothing_is_no_warning() -> None:
    report = sample_reports.overhead_bound()
    told = [
        Finding(code="value-read", message="train.py:7: reads a value", about="script"),
        Finding(code="reads-values", message="train.py:8: reads values", advice="Keep them.", about="script"),
    ]
    lines = shown(replace(report, findings=tuple(told))).splitlines()
    assert "  - train.py:7: reads a value. [value-read]" in lines
    assert "  ! train.py:8: reads values. Keep them. [reads-values]" in lines
