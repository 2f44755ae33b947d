"""Reports and machines in a notebook and in print: the same words as text and in a frame that stands by itself."""

from __future__ import annotations

import io
import pickle
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from sample_reports import ALL, MACHINE, overhead_bound

from boundby.results.machine import Machine
from boundby.results.report import Report

LARGEST_FRAME = 60_000


class Tags(HTMLParser):
    """All tags with their attributes, and the text beside them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._style else data


def frame_of(shown: Report | Machine) -> dict[str, str | None]:
    """The attributes of the one element that a notebook is given."""
    tags = Tags(shown._repr_mimebundle_()["text/html"]).tags
    assert [name for name, _ in tags] == ["iframe"]
    return tags[0][1]


def page_of(shown: Report | Machine) -> Tags:
    return Tags(frame_of(shown)["srcdoc"] or "")


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_a_report_of_a_callback_does_not_name_a_command_that_it_does_not_come_of() -> None:
    report = overhead_bound()
    shown = str(replace(report, tool=replace(report.tool, command=())))
    assert "boundby run" not in shown
    assert 'BoundbyCallback(output="report.html") keeps the report' in shown


def test_a_report_is_printed_as_the_terminal_shows_it() -> None:
    report = overhead_bound()
    assert squeezed(str(report)).startswith(squeezed(report.verdict.sentence))
    assert "Where the time of a step goes" in str(report)
    assert "\x1b" not in str(report)
    assert not str(report).endswith("\n")


def test_repr_is_one_line() -> None:
    assert repr(overhead_bound()) == f"<boundby.Report: {overhead_bound().verdict.sentence}>"
    assert repr(MACHINE) == f"<boundby.Machine: AMD EPYC 9R14, {len(MACHINE.ceilings)} ceilings>"


@pytest.mark.parametrize("shown", [*(make() for make in ALL.values()), MACHINE], ids=[*ALL, "machine"])
def test_a_frame_has_the_words_of_the_text_and_no_script(shown: Report | Machine) -> None:
    bundle = shown._repr_mimebundle_()
    assert sorted(bundle) == ["text/html", "text/plain"]
    assert bundle["text/plain"] == str(shown)
    assert bundle["text/html"] == shown._repr_html_()
    frame, page = frame_of(shown), page_of(shown)
    assert frame["sandbox"] == ""
    assert "script" not in {name for name, _ in page.tags}
    assert not any(name in ("src", "href") or name.startswith("on") for _, attrs in page.tags for name in attrs)
    first = squeezed(str(shown).split("\n\n")[0])
    assert first in squeezed(page.text)
    assert len(bundle["text/html"]) < LARGEST_FRAME


def test_the_frame_is_as_high_as_its_lines() -> None:
    frame = frame_of(overhead_bound())
    lines = (frame["srcdoc"] or "").partition("<pre>")[2].partition("</pre>")[0].rstrip("\n").count("\n") + 1
    height = re.search(r"height: (\d+)px", frame["style"] or "")
    assert lines > 20
    assert height is not None
    assert 17 * lines < int(height[1]) < 17 * (lines + 4)


def test_what_binds_has_its_colour() -> None:
    assert {"bold", "red"} <= {
        style for _, attrs in page_of(overhead_bound()).tags for style in (attrs.get("class") or "").split()
    }


def test_a_machine_shows_its_roofline_once() -> None:
    page = page_of(MACHINE)
    drawn = "svg" in {name for name, _ in page.tags}
    assert drawn
    assert "Roofline (" not in page.text
    without = page_of(replace(MACHINE, ceilings=()))
    assert "svg" not in {name for name, _ in without.tags}


def test_hostile_text_stays_text() -> None:
    hostile = '</pre></iframe><img src=x onerror="alert(1)">'
    report = overhead_bound()
    report = replace(
        report,
        verdict=replace(report.verdict, sentence=hostile),
        lines=(replace(report.lines[0], code=hostile, path=f"/{hostile}.py"), *report.lines[1:]),
    )
    page = page_of(report)
    assert "img" not in {name for name, _ in page.tags}
    assert "onerror" in page.text


def test_what_is_not_asked_for_is_not_made() -> None:
    assert list(overhead_bound()._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]
    assert list(overhead_bound()._repr_mimebundle_(exclude={"text/plain"})) == ["text/html"]


def test_a_stream_of_ascii_is_given_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert str(overhead_bound()).isascii()


def test_reports_are_still_plain_data() -> None:
    report = overhead_bound()
    assert pickle.loads(pickle.dumps(report)) == report
    assert replace(report) == report
    assert hash(MACHINE.description) == hash(replace(MACHINE).description)


def test_lines_of_cells_have_the_cells_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Compiler:
        def format_code_name(self, path: str) -> tuple[str, str] | None:
            return ("Cell", "In[7]") if path == "/tmp/ipykernel_1/2.py" else None

    class Shell:
        compile = Compiler()

    class Loaded:
        @staticmethod
        def get_ipython() -> Any:
            return Shell()

    report = overhead_bound()
    report = replace(
        report,
        lines=(replace(report.lines[0], path="/tmp/ipykernel_1/2.py", line=3), *report.lines[1:]),
    )
    monkeypatch.setitem(sys.modules, "IPython.core.getipython", Loaded())  # type: ignore[arg-type]  # a stand-in
    assert "In[7]:3" in str(report)
    assert "In[7]:3" in page_of(report).text
