"""The page of `boundby doctor`: problems first, the unknown apart from the fine, at any width, whatever names hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from boundby.report.doctor_page import render_examination
from boundby.results.doctor import Diagnosis, Examination

LOAD = Diagnosis(
    name="other load",
    state="problem",
    seen="Other processes use 1.02 of 2 CPUs now. Busiest, in CPUs: python (pid 7) 0.96.",
    code="other-load",
    effect="It takes the processor from steps in the middle, and empties their caches.",
    advice="Stop it, or wait until it is done.",
)
SWAP = Diagnosis(name="swap", state="ok", seen="there is none")
HEAT = Diagnosis(name="heat", state="unknown", seen="no thermal_throttle counters in /sys")
FOUND = Examination(
    examined_at="2026-01-02T03:04:05+00:00",
    cpu="AMD EPYC 9R14",
    os="Linux 6.1",
    python="3.11.7",
    torch="2.13.0",
    checks=(SWAP, LOAD, HEAT),
)


def page(found: Examination = FOUND, *, width: int = 80, color: bool = False, unicode: bool = True) -> str:
    return render_examination(found, width=width, color=color, unicode=unicode)


def test_the_page() -> None:
    assert page() == (
        "1 thing could spoil a measurement here; 1 check could not be made.\n"
        "AMD EPYC 9R14, Linux 6.1, Python 3.11.7, torch 2.13.0\n"
        "\n"
        "  ! Other processes use 1.02 of 2 CPUs now. Busiest, in CPUs: python (pid 7)\n"
        "    0.96. [other-load]\n"
        "    Effect: It takes the processor from steps in the middle, and empties their\n"
        "    caches.\n"
        "    Do: Stop it, or wait until it is done.\n"
        "\n"
        "Fine (as far as it was seen)\n"
        "  swap  there is none\n"
        "\n"
        "Unknown (could not be read, so it may or may not be a problem)\n"
        "  heat  no thermal_throttle counters in /sys\n"
        "\n"
        "Next     boundby machine --again, once these are dealt with\n"
    )


def test_a_place_without_problems_says_what_it_does_not_know() -> None:
    assert page(replace(FOUND, checks=(SWAP, HEAT))).startswith(
        "Nothing found that could spoil a measurement here; 1 check could not be made.\n"
    )
    quiet = page(replace(FOUND, checks=(SWAP,)))
    assert quiet.startswith("Nothing found that could spoil a measurement here.\n")
    assert "Unknown" not in quiet
    assert quiet.endswith("Next     boundby machine\n")


def test_without_torch_the_next_thing_is_to_load_it() -> None:
    text = page(replace(FOUND, torch=None))
    assert "torch not loaded" in text
    assert text.splitlines()[-1].startswith("Next     python -c 'import torch'")


@pytest.mark.parametrize("unicode", [True, False])
@given(width=st.integers(10, 200), text=st.text(min_size=1, max_size=200))
def test_no_line_is_wider_than_the_page_and_no_name_reaches_the_terminal_raw(
    unicode: bool, width: int, text: str
) -> None:
    found = replace(FOUND, cpu=text, checks=(replace(LOAD, seen=text, advice=text), replace(HEAT, seen=text)))
    shown = page(found, width=width, unicode=unicode)
    assert all(cell_len(line) <= max(40, min(width, 100)) for line in shown.splitlines())
    assert "\x1b" not in shown
    assert unicode or shown.isascii()


def test_colour_only_when_asked_for() -> None:
    assert "\x1b[" in page(color=True)
