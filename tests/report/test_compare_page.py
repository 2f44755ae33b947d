"""What a person reads of a comparison: the answer first, within the width, and nothing hostile left in it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sample_reports
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from boundby.bound.compare import compare_reports
from boundby.bound.compare_machines import compare_machines
from boundby.report.compare_page import render_comparison
from boundby.results.comparison import Comparison, ReportComparison
from boundby.results.machine import Ceiling, Machine
from boundby.results.report import Report

NAMES = sorted(sample_reports.ALL)


def compared(a: Report, b: Report, *, across_machines: bool = False) -> Comparison:
    return compare_reports(a, b, name_a="a.json", name_b="b.json", across_machines=across_machines)


def shown(found: Comparison, width: int = 80, *, color: bool = False, unicode: bool = True) -> str:
    return render_comparison(found, width=width, color=color, unicode=unicode, folder=sample_reports.FOLDER)


def words(text: str) -> str:
    return " ".join(text.split())


def faster(machine: Machine, factor: float) -> Machine:
    """The machine with every limit ``factor`` times as fast."""

    def changed(one: Ceiling) -> Ceiling:
        by = 1 / factor if one.unit == "s" else factor
        return replace(one, value=one.value * by, low=one.low * by, high=one.high * by)

    return replace(machine, ceilings=tuple(changed(one) for one in machine.ceilings))


def test_the_first_line_is_the_answer() -> None:
    report = sample_reports.overhead_bound()
    text = shown(compared(report, report))
    assert words(text).startswith("No difference: 3.8 ms a step in a.json, 3.8 ms in b.json. Their counts are equal. ")
    assert "equal: 605 ops a step, and all else" in text
    assert "none by more than its noise" in text
    assert "Next" not in text
    following = render_comparison(
        compared(report, report), width=80, color=False, unicode=True, path_b="my runs/b.json"
    )
    assert following.endswith("Next     boundby show 'my runs/b.json'\n")


def test_what_changed_is_told() -> None:
    text = shown(compared(sample_reports.overhead_bound(), sample_reports.memory_bound()))
    told = words(text)
    assert text.startswith("b.json is 171x slower than a.json")
    assert re.search(r"ops +605 +12 +-593 \(-98%\)", text)
    assert re.search(r"overhead +62% \(58-66%\) +2.4 ms +14% \(11-18%\) +91 ms +differs", text)
    assert "net.py:7 return x * scale + shift not there, then 610 ms" in told
    assert "1 thread and 2" in told
    assert "[settings-differ]" in told


def test_shares_that_cannot_be_told_apart_are_said_to_be() -> None:
    report = sample_reports.overhead_bound()
    found = compared(report, report)
    assert isinstance(found, ReportComparison)
    assert "no difference" in shown(found)
    unclear = replace(found, split=tuple(replace(one, unclear=True) for one in found.split))
    assert "cannot tell" in shown(unclear)
    assert "no difference" not in shown(unclear)
    assert shown(unclear, 40).count("?") == shown(found, 40).count("?") + shown(found).count("no difference")


def test_what_is_refused_is_told() -> None:
    report = sample_reports.overhead_bound()
    other = replace(report, machine=replace(report.machine, description=replace(report.machine.description, cpu="Z80")))
    text = words(shown(compared(report, other)))
    assert "a.json and b.json were made on different machines: their times are not compared." in text
    assert "--across-machines. [machines-differ]" in text
    assert "Where the time of a step goes" not in text
    assert "Where the time of a step goes" in shown(compared(report, other, across_machines=True))


def test_machines_side_by_side() -> None:
    a = sample_reports.MACHINE
    text = shown(compare_machines(a, faster(a, 2.0), name_a="old.json", name_b="new.json"))
    assert words(text).startswith(
        "Beside old.json, new.json multiplies fp32 matrices 2.00x faster, moves main memory (copy) 2.00x faster and"
    )
    assert re.search(r"matmul fp32 +97.3 GFLOP/s +195 GFLOP/s +2.00x faster \(1.88-2.13x\)", text)
    assert re.search(r"view op +900 ns +450 ns +2.00x faster", text)
    same = shown(compare_machines(a, a, name_a="old.json", name_b="new.json"))
    assert same.startswith("No difference between old.json and new.json in any of 5 limits.\n")
    assert "All limits that differ" not in same


def test_what_was_not_measured_is_marked() -> None:
    a = sample_reports.MACHINE
    b = replace(a, ceilings=tuple(replace(one, source="datasheet") for one in faster(a, 2.0).ceilings))
    text = shown(compare_machines(a, b, name_a="a", name_b="b"))
    assert "195 GFLOP/s [m]" in text
    assert "Limits marked [m] were not measured" in text


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(NAMES), st.integers(30, 120), st.booleans(), st.booleans())
def test_any_comparison_keeps_to_its_width_and_to_visible_characters(
    a: str, b: str, width: int, unicode: bool, across: bool
) -> None:
    found = compared(sample_reports.ALL[a](), sample_reports.ALL[b](), across_machines=across)
    lines = shown(found, width, unicode=unicode).splitlines()
    assert max(cell_len(line) for line in lines) <= max(40, min(width, 100))
    assert all(character.isprintable() for line in lines for character in line)
    assert unicode or all(line.isascii() for line in lines)


@pytest.mark.parametrize("width", [40, 80])
def test_machines_keep_to_their_width(width: int) -> None:
    a = sample_reports.MACHINE
    found = compare_machines(a, faster(a, 0.3), name_a="\x1b[31m" + "n" * 90, name_b="[red]b\n")
    lines = shown(found, width).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert all(character.isprintable() for line in lines for character in line)
    assert any("\\x1b[31m" in line for line in lines)


def test_colour_only_where_it_is_asked_for() -> None:
    report = sample_reports.overhead_bound()
    found = compared(report, report)
    coloured = shown(found, color=True)
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == shown(found).split()
