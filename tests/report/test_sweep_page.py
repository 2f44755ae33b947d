"""A sweep as text: the sentence, the parts with their bands, the plot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from boundby.report.markdown import render_markdown
from boundby.report.sweep_document import sweep_document
from boundby.report.sweep_page import plot_lines, render_sweep
from boundby.results.interval import interval
from boundby.results.sweep import SweepPoint, decode_sweep, encode_sweep, swept
from boundby.scaling.fits import fit_growth


def sweep_of(*times: tuple[int, float], spread: float = 0.0, argument: str = "batch", backward: bool = False):
    return swept(
        target="models.py:make",
        argument=argument,
        backward=backward,
        threads=2,
        points=tuple(
            SweepPoint(at=at, time_s=interval(seconds, seconds * (1 - spread), seconds * (1 + spread)))
            for at, seconds in times
        ),
        fit=fit_growth(times),
    )


GROWS = [(n, 2e-3 + 5e-5 * n) for n in (1, 4, 16, 64, 256)]


def text_of(sweep, *, width=80, unicode=True, next_command=""):
    return render_sweep(sweep, width=width, color=False, unicode=unicode, next_command=next_command)


def test_the_sentence_names_the_parts_and_where_they_are_equal():
    text = text_of(sweep_of(*GROWS), next_command="boundby sweep -o sweep.json")
    first = " ".join(text.split("\n\n")[0].split())
    assert first == "A call takes 2.0 ms and 50 µs for each of batch: at batch 40 both parts are as long."
    assert "20,000 of batch a second" in text
    assert "nine tenths at 360" in text
    assert text.rstrip().endswith("boundby sweep -o sweep.json")


def test_other_growth_is_said_in_its_power():
    squares = sweep_of(*[(n, 1e-3 + 1e-7 * n * n) for n in (32, 64, 128, 256)], argument="width", backward=True)
    text = " ".join(text_of(squares).split())
    assert "A call and its backward pass take 1.0 ms and 100 ns for each of width^2: at width 100" in text


def test_time_that_does_not_grow_and_time_that_is_all_growth():
    assert "whatever the batch" in " ".join(text_of(sweep_of((1, 1e-3), (8, 1e-3), (64, 1e-3))).split())
    all_growth = text_of(sweep_of((64, 64e-3), (128, 128e-3), (256, 256e-3)))
    assert "no cheaper" in " ".join(all_growth.split())


@pytest.mark.parametrize(
    ("times", "spread", "words"),
    [
        # What no growth is fitted to, though the times are far apart.
        ([(16, 0.161), (32, 0.13), (64, 0.054), (128, 0.328), (256, 0.436)], 0.4, "No fit: the times are too noisy"),
        ([(1, 1e-3), (4, 74e-3), (16, 2e-3), (64, 5e-3)], 0.4, "No fit: the times are too noisy"),
        # Steady times that are no line.
        ([(1, 1.0), (2, 1.0), (4, 1.0), (8, 1.0), (16, 1.0), (32, 9.0), (64, 90.0)], 0.0, "No fit: "),
    ],
)
def test_a_fit_that_cannot_tell_says_so_first(times, spread, words):
    sweep = sweep_of(*times, spread=spread)
    assert not sweep.fitted
    for told in (sweep, decode_sweep(encode_sweep(sweep)), replace(sweep, fitted=True)):
        text = " ".join(text_of(told).split())
        assert text.startswith(words)
        assert "whatever" not in text
        assert "fitted" not in text
        assert f"{told.points[0].at} to {told.points[-1].at}" in text
        page = render_markdown(sweep_document(told))
        assert words in page
        assert "itted" not in page


def test_the_plot_has_every_point_and_rises_to_the_right():
    lines = plot_lines(sweep_of(*GROWS), width=80, unicode=True)
    grid = [line.partition("│")[2] for line in lines if "│" in line]
    assert sum(line.count("●") for line in grid) == len(GROWS)
    places = sorted((line.index("●"), -row) for row, line in enumerate(grid) if "●" in line)
    assert [row for _, row in places] == sorted(row for _, row in places)
    assert grid[0].rstrip().endswith("●")
    assert lines[-1].split() == ["1", "batch", "256"]
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_without_unicode_all_is_ascii_and_fits(width):
    text = text_of(sweep_of(*GROWS, argument="größe"), width=width, unicode=False)
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= min(width, 100)


def test_what_spoils_a_sweep_is_said():
    unsteady = sweep_of(*GROWS, spread=0.3)
    assert [one.code for one in unsteady.findings] == ["sweep-unsteady"]
    bent = sweep_of((1, 1e-3), (2, 1e-3), (4, 1e-3), (8, 5e-3), (16, 5e-3))
    assert [one.code for one in bent.findings] == ["sweep-misfit"]
    assert "[sweep-misfit]" in text_of(bent)
    assert sweep_of(*GROWS).findings == ()
