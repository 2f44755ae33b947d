"""What a person reads in Chinese: no English sentence left, within the width, broken where Chinese may be broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sample_reports
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from boundby.bound.compare import compare_reports
from boundby.report.compare_page import render_comparison
from boundby.report.markdown import render_markdown
from boundby.report.page import bullets, finding_text, render_page
from boundby.report.report_document import report_document
from boundby.report.report_words import followed, listed, sentence
from boundby.report.safe_text import clean
from boundby.report.terminal import render_report
from boundby.results.language import choose_language, tr
from boundby.results.machine import Finding
from boundby.results.report import Report

WIDTHS = (40, 80, 100)
# Four words in a row; names of ops, functions and fields have no blanks in them.
ENGLISH = re.compile(r"[A-Za-z][a-z]+,? [a-z]{2,},? [a-z]{2,},? [a-z]{2,}")
# By their names, since ASCII has look-alikes.
COMMA, OPEN, CLOSE = "\N{FULLWIDTH COMMA}", "\N{FULLWIDTH LEFT PARENTHESIS}", "\N{FULLWIDTH RIGHT PARENTHESIS}"
SENTENCE = "这个训练步受内存带宽限制。"


@pytest.fixture
def chinese() -> Iterator[None]:
    choose_language("zh")
    yield
    choose_language("en")


def without_english_of_its_own(report: Report) -> Report:
    """The report without what was said in English when it was made, and without code."""
    return replace(
        report,
        verdict=replace(report.verdict, sentence=SENTENCE, evidence=()),
        findings=(),
        lines=tuple(replace(one, code=None) for one in report.lines),
        remedies=(),
    )


@pytest.mark.parametrize("name", sorted(sample_reports.ALL))
@pytest.mark.usefixtures("chinese")
class TestReports:
    def test_no_english_is_left_on_the_terminal(self, name: str) -> None:
        report = without_english_of_its_own(sample_reports.ALL[name]())
        for width in WIDTHS:
            text = render_report(report, width=width, color=False, unicode=True, folder=sample_reports.FOLDER)
            assert text.startswith(SENTENCE)
            assert ENGLISH.findall(text.replace(report.machine.description.cpu or "", "")) == []

    def test_lines_fit(self, name: str) -> None:
        for width in WIDTHS:
            text = render_report(sample_reports.ALL[name](), width=width, color=False, unicode=True)
            assert max(map(cell_len, text.splitlines())) <= width

    def test_no_english_is_left_on_its_page(self, name: str) -> None:
        report = without_english_of_its_own(sample_reports.ALL[name]())
        page = render_markdown(report_document(report, folder=sample_reports.FOLDER))
        shown = "\n".join(line for line in page.splitlines() if "boundby" not in line)
        assert ENGLISH.findall(shown.replace(report.machine.description.cpu or "", "")) == []

    def test_no_english_is_left_of_a_comparison(self, name: str) -> None:
        a, b = (without_english_of_its_own(one) for one in (sample_reports.unknown(), sample_reports.ALL[name]()))
        found = compare_reports(a, b, name_a="a.json", name_b="b.json", across_machines=True)
        for width in WIDTHS:
            text = render_comparison(found, width=width, color=False, unicode=True, path_b="b.json")
            assert max(map(cell_len, text.splitlines())) <= width
            assert ENGLISH.findall(text.replace(a.machine.description.cpu or "", "")) == []


@given(
    text=st.text(st.sampled_from(f"算子开销限制ab1 。{COMMA}{OPEN}{CLOSE}"), max_size=120),
    width=st.integers(4, 30),
)
def test_chinese_is_broken_within_the_width_and_nothing_of_it_is_lost(text: str, width: int) -> None:
    page = render_page([Text(text)], width=width, color=False)
    assert all(cell_len(line) <= width for line in page.splitlines())
    assert "".join(page.split()) == "".join(text.split())


def test_a_line_is_filled_before_it_is_broken() -> None:
    text = Text("t.py:7: 其后的计算图连同它保存的一切都留在内存中")
    assert render_page([text], width=20, color=False).splitlines()[0] == "t.py:7: 其后的计算图"
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text("步"), text)
    assert render_page([table], width=24, color=False).splitlines()[0] == "步 t.py:7: 其后的计算图"


def test_styles_are_kept_where_a_line_is_broken() -> None:
    text = Text("计算图连同它保存的一切")
    text.append("都留在内存中", style="bold")
    page = render_page([bullets([(text, "")])], width=14, color=True)
    assert re.sub(r"\x1b\[1m(.*?)\x1b\[0m", r"<\1>", page).count("<") == 2


@pytest.mark.usefixtures("chinese")
def test_sentences_and_lists_are_put_together_as_chinese_is() -> None:
    assert sentence("已测量") == "已测量。"
    assert sentence("已测量。") == "已测量。"
    assert followed("一。", "", "二。") == "一。二。"
    assert followed("English, from another run.", "It stays apart.", "二。").count(". ") == 2
    assert listed(["一", "二", "三"]) == f"一{COMMA}二{COMMA}三"
    finding = Finding(code="busy", message="机器繁忙", advice="请重试。")
    assert finding_text(finding, unicode=True).plain == "机器繁忙。请重试。 [busy]"


def test_english_is_put_together_as_before() -> None:
    assert followed("One.", "Two.") == "One. Two."
    assert followed() == listed([]) == ""
    assert listed(["a", "b"]) == "a, b"


@pytest.mark.usefixtures("chinese")
def test_a_stream_without_block_characters_may_write_chinese_all_the_same() -> None:
    assert clean(tr("unknown"), unicode=False) == tr("unknown") != "unknown"
    assert clean("µ\x1b", unicode=False) == "u\\x1b"
