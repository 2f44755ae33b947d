"""A page as Markdown: read back by a parser of it, all words are what they were."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from boundby.report.chart import Axis, Bar, Chart, Line
from boundby.report.document import Bullets, Code, Document, Paragraph, Section, Table
from boundby.report.markdown import render_markdown
from boundby.report.safe_text import clean

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
WORDS = st.text(
    alphabet=st.one_of(st.sampled_from("\\`*_{}[]()<>#+-.!|~&$=:1a \n\t\"'/"), st.characters(codec="utf-8")),
    max_size=30,
)


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def inline_texts(markdown: str) -> list[str]:
    """The text of each inline part, and marks for whatever in it is more than text, emphasis of a paragraph apart."""
    found = []
    for token in PARSER.parse(markdown):
        if token.type == "inline":
            words = []
            for child in token.children:
                if child.type in ("text", "softbreak"):
                    words.append(child.content or " ")
                elif child.type not in ("strong_open", "strong_close", "em_open", "em_close"):
                    words.append(f"<{child.type}>")
            found.append("".join(words))
        elif token.type in ("html_block", "hr", "blockquote_open", "code_block"):
            found.append(f"<{token.type}>")
    return found


@given(WORDS)
def test_words_stay_words(words: str) -> None:
    shown = squeezed(clean(words, unicode=True))
    document = Document(
        title=words,
        lead=(
            Paragraph(text=words),
            Paragraph(text=words, emphasis=True),
            Paragraph(text=words, note=True),
            Bullets(items=(words,)),
        ),
        sections=(Section(title="s", blocks=(Table(caption="", head=("a", "b"), rows=((words, "z"),)),)),),
    )
    texts = [squeezed(text) for text in inline_texts(render_markdown(document))]
    # A paragraph and an item without words leave nothing behind; a cell does.
    assert texts == [*([shown] * 5 if shown else [""]), "s", "a", "b", shown, "z"]


@given(st.text(alphabet=st.sampled_from("`~a \n\t<#"), max_size=40))
def test_code_comes_back_as_it_was(code: str) -> None:
    document = Document(title="t", lead=(Code(text=code),), sections=())
    (fence,) = (token for token in PARSER.parse(render_markdown(document)) if token.type == "fence")
    assert fence.content.rstrip("\n") == code.rstrip("\r\n").expandtabs(4) or "\t" in code


def test_emphasis_headings_tables_and_charts() -> None:
    kinds = Axis(name="remedy", scale="category", categories=("fused",))
    chart = Chart(
        name="c",
        title="Gains",
        summary="One helps.",
        x=kinds,
        y=Axis(name="gain", unit="%"),
        bars=(Bar(category="fused", value=0.2, low=0.15, high=0.24, look="modelled"),),
    )
    line = Chart(
        name="d",
        title="Times",
        summary="Grows.",
        x=Axis(name="batch"),
        y=Axis(name="time", unit="s"),
        lines=(Line(name="seen", x=(1, 2), y=(0.001, 0.002)),),
    )
    document = Document(
        title="Title",
        lead=(Paragraph(text="The answer.", emphasis=True), Paragraph(text="A note.", note=True)),
        sections=(
            Section(
                title="Part",
                blocks=(chart, line, Table(caption="Cap", head=("a", "n"), rows=(("x|y", "1"),), numeric=(1,))),
            ),
        ),
    )
    assert render_markdown(document) == (
        "# Title\n\n**The answer.**\n\n*A note.*\n\n## Part\n\n"
        "### Gains\n\nOne helps.\n\n"
        "| remedy | gain | Low to high | How |\n| --- | ---: | ---: | --- |\n"
        "| fused | 20% | 15% to 24% | modelled |\n\n"
        "### Times\n\nGrows.\n\n"
        "| Line | batch | time | How |\n| --- | ---: | ---: | --- |\n"
        "| seen | 1 | 1.00 ms | measured |\n| seen | 2 | 2.00 ms | measured |\n\n"
        "**Cap**\n\n| a | n |\n| --- | ---: |\n| x\\|y | 1 |\n"
    )
