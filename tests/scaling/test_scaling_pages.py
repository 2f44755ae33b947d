"""A scaling result in words, on a page, as a document: nothing too wide, modelled looks modelled, old files read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from boundby.report.chart import Chart
from boundby.report.document import Table
from boundby.report.scaling_document import scaling_document
from boundby.report.scaling_page import plot_lines, render_scaling
from boundby.report.scaling_words import no_loss, number, sentence, share_text, times
from boundby.results.errors import BoundbyError
from boundby.results.interval import interval
from boundby.results.scaling import Scaling, decode_scaling, encode_scaling
from boundby.scaling.given import given_points, read_pairs
from boundby.scaling.speedups import law_values
from boundby.scaling.summary import scaling_of

FILE = Path(__file__).parent / "files" / "scaling_v1.json"


def of(pairs: str, **more) -> Scaling:
    return scaling_of(given_points(read_pairs(pairs)), origin="given", **more)


RESULTS = {
    "one": of("1:1.0,2:1.8"),
    "many": of("1:35.0ms,2:20.0ms,4:12.0ms,8:9.1ms,16:8.8ms"),
    "slower": of("2:0.5"),
    "beyond": of("2:2.5,4:5.5"),
    "threads": of("1:1.0,2:1.9,4:3.5", unit="threads", usable_cores=4, target="train.py"),
    "laws": Scaling(origin="laws", laws=law_values((0.0, 0.01, 1.0), (8, 132, None))),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("width", [40, 80, 100])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_asked_for(name, width, unicode):
    text = render_scaling(RESULTS[name], width=width, color=False, unicode=unicode, next_command="boundby scaling")
    assert max(map(len, text.splitlines())) <= width
    assert unicode or text.isascii()
    assert " ".join(text.split()).startswith(" ".join(sentence(RESULTS[name]).split()))


@pytest.mark.parametrize("name", RESULTS)
def test_a_document_tells_measured_and_modelled_apart(name):
    document = scaling_document(RESULTS[name])
    blocks = [block for section in document.sections for block in section.blocks]
    (chart,) = [block for block in blocks if isinstance(block, Chart)]
    assert chart.summary == sentence(RESULTS[name])
    here = "measured" if RESULTS[name].origin == "measured" else "given"
    measured = [line for line in chart.lines if line.look == here]
    assert len(measured) == (0 if name == "laws" else 1)
    assert all(line.look == "modelled" for line in chart.lines if line not in measured)
    for line in chart.lines:
        assert len(line.x) == len(line.y) < 40
        assert all(y > 0 for y in line.y)
    for table in (block for block in (*document.lead, *blocks) if isinstance(block, Table)):
        assert all(len(row) == len(table.head) for row in table.rows)


def test_the_sentence_goes_by_the_law_that_fits():
    assert "universal law" in sentence(RESULTS["many"])
    assert "By Amdahl's law 8 threads would be" in sentence(RESULTS["threads"])
    assert "make it slower" in sentence(RESULTS["slower"])
    assert sentence(Scaling(origin="laws", laws=law_values((0.01,), (8,)))).endswith("more than 100x as fast.")


def test_a_share_of_none_is_no_loss_and_has_no_limit():
    for pairs in (
        "1:1,2:2,4:4",
        "1:1,2:2.00001,4:3.99999",
        "1:1.00,2:1.99,4:3.99,8:8.01",
        "1:1.00,2:2.10,4:4.20,8:8.40",
        "2:2.1",
    ):
        text = " ".join(render_scaling(of(pairs), width=100, color=False, unicode=True).split())
        assert "no loss seen" in text
        assert "no limit seen" in text
        assert "no number of them more than" not in text
        assert "0.0%" not in text
        assert "at most 0%" not in text
    assert "no number of them more than 10x" in sentence(of("1:1,2:1.8,4:3.1"))
    assert share_text(-0.0) == "0%"
    # A share of 0.04% is four fifths of the time on 10,000 workers, even where it may be 0.
    law = of("1:1,2:2.0,10000:2000").amdahl
    assert law is not None
    assert not no_loss(replace(law, serial_share=replace(law.serial_share, low=0.0)))


def test_bars_of_the_plot_are_as_long_as_their_values():
    first, second, *modelled = plot_lines(RESULTS["one"], width=80, unicode=True)
    assert second.count("█") == pytest.approx(1.8 * first.count("█"), abs=1.5)
    assert all("░" in line and "█" not in line for line in modelled)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (interval(1.8, 1.75, 1.85), "1.80x (1.75-1.85)"),
        (interval(1.0), "1.0x"),
        (interval(4.7, 3.8, 6.4), "4.7x (3.8-6.4)"),
        (interval(1.0, 1.0, 4.0), "1.0x (1.0-4.0)"),
        (interval(16_727.0), "16,727x"),
    ],
)
def test_a_band_has_the_digits_that_show_it(value, text):
    assert times(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.344, "0.344"), (7.4766, "7.48"), (57.14, "57.1"), (133_816.3, "133,816")]
)
def test_numbers_have_three_digits_and_whole_ones_all(value, text):
    assert number(value) == text


def test_a_file_of_version_1_is_read_and_written_as_it_was():
    kept = decode_scaling(FILE.read_bytes())
    assert kept.usl is not None
    assert kept.usl.peak_workers == pytest.approx(12.4, abs=1)
    assert decode_scaling(encode_scaling(kept)) == kept


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((b'"version": 1', b'"version": 2'), "unknown-version"),
        ((b"boundby.scaling", b"boundby.sweep"), "unknown-schema"),
        ((b'"points": [', b'"points": [3,'), "damaged-file"),
    ],
)
def test_other_files_are_refused_by_name(change, code):
    with pytest.raises(BoundbyError) as raised:
        decode_scaling(FILE.read_bytes().replace(*change, 1), name="mine.json")
    assert raised.value.code == code
