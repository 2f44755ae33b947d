"""A page as HTML: every word escaped, nothing fetched, its scripts the only ones that may run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.report.chart import Axis, Bar, Chart, Line, Mark
from boundby.report.document import Bullets, Code, Document, Paragraph, Section, Table
from boundby.report.html import check_html, render_html
from boundby.report.html.chart_data import COLORS, chart_data, group_colors
from boundby.report.safe_text import clean
from boundby.results.errors import BoundbyError

# What a page is made of; markup of a user's words would show as another tag or attribute.
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2", "h3", "p", "ul", "li"),
    *("pre", "code", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details"),
    *("summary", "span", "small", "svg", "path", "circle", "rect", "script"),
}
LARGEST_PAGE = 1_500_000


class Page(HTMLParser):
    """A page taken apart: its text outside of scripts and style, its scripts by type, and all of its tags."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs] or [(tag, "", None)]
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs).get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif self._inside != "style":
            self.text.append(data)

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _, _ in self.attributes}

    def charts(self) -> list[dict[str, object]]:
        found = [json.loads(text) for kind, text in self.scripts if kind == "application/json"]
        return [one for one in found if "lines" in one]


def rules_of(page: Page) -> dict[str, str]:
    """The page's policy, by what it is about."""
    (policy,) = (value for _, name, value in page.attributes if name == "content" and "default-src" in (value or ""))
    return dict(rule.strip().split(" ", 1) for rule in policy.split(";"))


def chart_of(words: str, name: str = "one") -> Chart:
    return Chart(
        name=name,
        title=words,
        summary=words,
        x=Axis(name=words, unit="s", scale="log"),
        y=Axis(name=words, unit="flop/s"),
        lines=(Line(name=words, x=(1.0, 2.0), y=(3.0, 4.0), look="modelled", labels=(words, words)),),
        marks=(Mark(x=1.0, y=2.0, group=words, label=words, details=(words,)),),
    )


def page_of(words: str) -> Document:
    return Document(
        title=words,
        lead=(Paragraph(text=words, emphasis=True),),
        sections=(
            Section(
                title=words,
                blocks=(
                    Paragraph(text=words, note=True),
                    Bullets(items=(words,)),
                    Table(caption=words, head=(words, "b"), rows=((words, "1"),), numeric=(1,)),
                    Code(text=words, caption=words),
                    chart_of(words),
                ),
            ),
        ),
    )


PLAIN = Page(render_html(page_of("words")))
WORDS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "<img src=x onerror=alert(1)>",
            "</script><script>alert(1)</script>",
            "<!--<script>",
            "]]>",
            "' onmouseover='x",
            '" style="x',
            "{{ 7 * 7 }}{% raw %}",
            "a\u2028b\u202ec\x00",
            "&lt;b&gt; &amp",
        ]
    ),
)


@settings(max_examples=60)
@given(WORDS)
def test_words_stay_words(rest: str) -> None:
    words = f"w{rest}"
    page = Page(render_html(page_of(words)))
    assert page.tags <= TAGS
    assert shape_of(page) == shape_of(PLAIN)
    assert [kind for kind, _ in page.scripts] == [kind for kind, _ in PLAIN.scripts]
    shown = clean(words, unicode=True)
    assert page.text.count(shown) == PLAIN.text.count("words") or any(one in words for one in "\n\r\t")
    (chart,) = page.charts()
    assert chart["title"] == shown
    assert chart["marks"][0]["says"][-1] == shown


def shape_of(page: Page) -> list[tuple[str, str]]:
    """Its tags with their attributes, in order; a column's class may differ by how long its words are."""
    return [(tag, name) for tag, name, _ in page.attributes if name not in ("", "class")]


def test_only_the_pages_own_scripts_may_run_and_nothing_may_be_fetched() -> None:
    html = render_html(page_of("words"))
    page = Page(html)
    rules = rules_of(page)
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    (drawing,) = (text for kind, text in page.scripts if kind is None)
    (packed,) = (text for kind, text in page.scripts if kind == "text/plain")
    library = zlib.decompress(base64.b64decode(packed))
    digests = [base64.b64encode(hashlib.sha256(text).digest()).decode() for text in (drawing.encode(), library)]
    assert rules["script-src"].split() == [f"'sha256-{one}'" for one in digests]
    # A page carries the one script of Bokeh's that draws, and no address of anything.
    assert b"Bokeh" in library[:2000]
    assert re.findall(r"https?:|//[a-z]+\.[a-z]", html.replace(packed, "").replace(drawing, "")) == []
    assert not {name for _, name, _ in page.attributes} & {"src", "href", "action", "srcset"}
    assert len(html) < LARGEST_PAGE / 2


def test_a_page_without_charts_has_no_script_at_all() -> None:
    html = render_html(Document(title="t", lead=(Paragraph(text="p"),), sections=()))
    page = Page(html)
    assert page.scripts == []
    assert rules_of(page)["script-src"] == "'none'"
    assert len(html) < 20_000


def test_the_language_and_the_outline_are_told() -> None:
    html = render_html(Document(title="t", lead=(), sections=(Section(title="s", blocks=()),), language="zh"))
    assert html.startswith("<!doctype html>")
    assert '<html lang="zh">' in html
    assert re.findall(r"<h(\d)", html) == ["1", "2"]


def test_each_chart_has_its_title_its_words_and_its_table() -> None:
    page = Page(render_html(page_of("words")))
    text = " ".join(page.text)
    assert {"figure", "figcaption", "details", "table"} <= page.tags
    assert "1.00 s" in text
    assert "3.00 FLOP/s" in text
    assert "modelled" in text


def test_no_head_is_written_where_all_of_it_is_empty() -> None:
    table = Table(caption="c", head=("", ""), rows=(("a", "b"),))
    page = Page(render_html(Document(title="t", lead=(table,), sections=())))
    assert "thead" not in page.tags
    assert "td" in page.tags


def test_without_bokeh_it_is_told_before_anything_is_run() -> None:
    code = """
import importlib.util as util, sys
found = util.find_spec
util.find_spec = lambda name, *rest: None if name == "bokeh" else found(name, *rest)
from boundby.cli.main import main
main(sys.argv[1:])
"""
    for words in (["decode", "llama-3.2-1b", "-o", "x.html"], ["machine", "-o", "x.html"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout) == (1, "")
        message, advice = done.stderr.splitlines()
        assert message.endswith("[no-plots]")
        assert "pip install bokeh" in advice


def test_a_wheel_without_its_script_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    check_html()
    monkeypatch.setattr("boundby.report.html.bokeh_script.find_spec", lambda name: None)
    with pytest.raises(BoundbyError) as caught:
        check_html()
    assert caught.value.code == "no-plots"


def test_importing_loads_no_library_and_rendering_no_python_of_bokeh() -> None:
    code = """
import sys
import boundby.report.html, boundby.report.markdown
print(sorted({"bokeh", "jinja2", "numpy", "torch"} & set(sys.modules)))
from boundby.report.chart import Axis, Chart, Mark
from boundby.report.document import Document
axis = Axis(name="a")
boundby.report.html.render_html(Document(title="t", lead=(
    Chart(name="c", title="t", summary="s", x=axis, y=axis, marks=(Mark(x=1.0, y=2.0),)),), sections=()))
print(sorted({"bokeh", "numpy", "torch"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["[]", "[]"]


def test_a_group_has_one_colour_on_the_page_and_lines_have_others() -> None:
    axis = Axis(name="a", scale="category", categories=("k",))
    value = Axis(name="v")
    first = Chart(
        name="a", title="", summary="", x=value, y=axis, bars=tuple(Bar(category="k", value=1, group=g) for g in "pqr")
    )
    second = Chart(
        name="b",
        title="",
        summary="",
        x=value,
        y=value,
        marks=(Mark(x=1, y=1, group="r"), Mark(x=1, y=2, group="new")),
        lines=(Line(name="l", x=(1, 2), y=(1, 2)), Line(name="m", x=(1, 2), y=(1, 2), background=True)),
    )
    colors = group_colors([first, second])
    drawn = [json.loads(chart_data(chart, colors).json) for chart in (first, second)]
    assert [bar["color"] for bar in drawn[0]["bars"]] == [0, 1, 2]
    assert [mark["color"] for mark in drawn[1]["marks"]] == [2, 3]
    assert drawn[1]["lines"][0]["color"] not in (2, 3)
    assert drawn[1]["lines"][1]["color"] is None
    # The background is named in the picture and not in the legend.
    assert [one.name for one in chart_data(second, colors).legend] == ["l", "r", "new"]


def test_groups_beyond_the_colours_differ_in_shape() -> None:
    marks = tuple(Mark(x=1, y=1, group=f"g{place}") for place in range(2 * COLORS))
    chart = Chart(name="a", title="", summary="", x=Axis(name="x"), y=Axis(name="y"), marks=marks)
    drawn = json.loads(chart_data(chart, group_colors([chart])).json)["marks"]
    assert len({(mark["color"], mark["shape"]) for mark in drawn}) == len(marks)


def test_how_values_were_got_is_seen_and_said() -> None:
    axis = Axis(name="a", scale="category", categories=("k",))
    looks = ("measured", "modelled", "datasheet")
    chart = Chart(
        name="a",
        title="",
        summary="",
        x=axis,
        y=Axis(name="v"),
        bars=tuple(Bar(category="k", value=1, group="g", look=look) for look in looks),
        lines=tuple(Line(name=look, x=(1, 2), y=(1, 2), look=look) for look in looks),
    )
    data = chart_data(chart, group_colors([chart]))
    drawn = json.loads(data.json)
    assert len({(tuple(bar["dash"]), bar["fill"]) for bar in drawn["bars"]}) == 3
    assert len({tuple(line["dash"]) for line in drawn["lines"]}) == 3
    said = ["measured", "modelled", "from a datasheet"]
    assert [bar["says"][-1] for bar in drawn["bars"]] == said
    assert [line["says"][0][-1] for line in drawn["lines"]] == said
    assert [one.look for one in data.legend] == ["", *said[1:]] * 2


def test_marks_are_as_large_as_their_sizes_and_never_too_small_to_hit() -> None:
    def radii(*sizes: float) -> list[float]:
        marks = tuple(Mark(x=1, y=1, size=size) for size in sizes)
        chart = Chart(name="a", title="", summary="", x=Axis(name="x"), y=Axis(name="y"), marks=marks)
        return [mark["radius"] for mark in json.loads(chart_data(chart, group_colors([chart])).json)["marks"]]

    small, large = radii(0.25, 1.0)
    assert large == pytest.approx(2 * small)
    assert min(radii(0.0, 1e-9, 1.0)) >= 4
    assert len(set(radii(0.0, 0.0))) == 1
