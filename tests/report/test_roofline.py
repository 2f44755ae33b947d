import re
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from boundby.report.machine_table import render_machine
from boundby.report.page import render_page
from boundby.report.roofline import decades, roofline
from boundby.report.roofline_picture import HEIGHT, WIDTH, render_picture
from boundby.report.roofline_text import ROWS, render_roofline
from boundby.results.errors import BoundbyError
from boundby.results.machine import Ceiling, Finding, Machine, MachineDescription

ABOUT = MachineDescription(
    cpu="a processor",
    usable_cores=2,
    logical_cores=2,
    memory_bytes=8 << 30,
    memory_limit_bytes=None,
    os="Linux",
    python="3.12",
    torch="2.9",
    threads=2,
    affinity=(0, 1),
    measured_at="2026-01-01T00:00:00+00:00",
)
SIZES = (1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20)


def product(dtype: str, rate: float, **more) -> Ceiling:
    shape = (1, 512, 512, 512)
    return Ceiling(
        kind="matmul",
        name=more.pop("name", "mm"),
        dtype=dtype,
        threads=2,
        shape=shape,
        value=rate,
        low=0.99 * rate,
        high=1.005 * rate,
        unit="flop/s",
        **more,
    )


def stream(size: int, rate: float) -> Ceiling:
    return Ceiling(
        kind="bandwidth",
        name="triad",
        dtype="fp32",
        threads=2,
        size_bytes=size,
        value=rate,
        low=0.9 * rate,
        high=1.05 * rate,
        unit="byte/s",
    )


def machine_of(products: list[Ceiling], rates: tuple[float, ...] = (170e9, 170e9, 170e9, 66e9, 63e9)) -> Machine:
    streams = [stream(size, rate) for size, rate in zip(SIZES, rates, strict=True)]
    return Machine(description=ABOUT, ceilings=(*products, *streams))


MACHINE = machine_of([product("bf16", 440e9), product("fp32", 216e9), product("fp64", 92e9), product("fp16", 4.3e9)])


def drawn(machine: Machine, *, width: int = 80, unicode: bool = True) -> str:
    return render_page(render_roofline(machine, width=width, unicode=unicode), width=width, color=False)


def test_ridge_points_are_peak_over_bandwidth_of_main_memory():
    chart = roofline(MACHINE)
    assert chart is not None
    assert chart.main.ceiling.value == 63e9
    assert {ridge.roof.name: ridge.flop_per_byte for ridge in chart.ridges} == pytest.approx(
        {"bf16": 440 / 63, "fp32": 216 / 63, "fp64": 92 / 63}
    )
    assert [line.name for line in chart.below] == ["fp16"]
    for line in chart.roofs:
        assert chart.y[0] < line.ceiling.value < chart.y[1]
        assert chart.x[0] < chart.roof_start(line) < chart.x[1]
    for line in chart.slopes:
        assert chart.x[0] < chart.slope_end(line) < chart.x[1]


def test_levels_are_those_of_the_curve():
    chart = roofline(MACHINE)
    assert chart is not None
    assert [(line.name, line.ceiling.value) for line in chart.slopes] == [
        ("up to 16 MiB", 170e9),
        ("main memory", 63e9),
    ]
    flat = roofline(machine_of([product("fp32", 1e11)], rates=(60e9,) * 5))
    assert flat is not None
    assert [line.name for line in flat.slopes] == ["main memory"]


def test_the_hardwares_roofs_stand_beside_and_have_no_ridge_points():
    native = product("fp32", 230e9, name="fma", stack="native")
    chart = roofline(machine_of([product("fp32", 216e9), native]))
    assert chart is not None
    assert [(line.name, line.native) for line in chart.roofs] == [("fp32 hardware", True), ("fp32", False)]
    assert [ridge.roof.name for ridge in chart.ridges] == ["fp32"]
    assert "fp32 hardware" in drawn(machine_of([product("fp32", 216e9), native]))


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("unicode", [True, False])
def test_the_chart_fits_its_width_and_shows_its_lines(width, unicode):
    text = drawn(MACHINE, width=width, unicode=unicode)
    lines = text.splitlines()
    assert max(map(cell_len, lines)) <= width
    assert text.isascii() is not unicode
    rows = [line for line in lines if re.match(r".{7}[│┤|+]", line) and "└" not in line]
    assert len(rows) >= ROWS
    for label in ("bf16 440", "fp32 216", "fp64 92", "GFLOP/s", "FLOP/byte", "main memory 63 GB/s"):
        assert label in text
    assert text.count("●" if unicode else " o ") >= 1


def test_higher_rates_stand_higher_and_more_flop_a_byte_farther_right():
    rows = drawn(MACHINE).splitlines()
    places = {
        dtype: next((y, row.index("●")) for y, row in enumerate(rows) if dtype in row and "●" in row)
        for dtype in ("bf16 440", "fp32 216", "fp64 92")
    }
    (y0, x0), (y1, x1), (y2, x2) = places.values()
    assert y0 < y1 < y2
    assert x0 > x1 > x2


def test_nothing_is_drawn_without_roofs_or_slopes():
    only_products = Machine(description=ABOUT, ceilings=(product("fp32", 1e11),))
    assert list(render_roofline(only_products, width=80, unicode=True)) == []
    with pytest.raises(BoundbyError) as caught:
        render_picture(only_products)
    assert caught.value.code == "no-roofline"


rate = st.floats(1e8, 1e16)


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(st.sampled_from(["fp64", "fp32", "bf16", "fp16", "int8"]), rate, min_size=1),
    st.tuples(*[st.floats(1e8, 1e14)] * 5),
    st.integers(20, 130),
    st.booleans(),
)
def test_any_machine_can_be_drawn(peaks, rates, width, unicode):
    machine = machine_of([product(dtype, value) for dtype, value in peaks.items()], rates)
    text = render_machine(machine, width=width, color=False, unicode=unicode)
    assert max(map(cell_len, text.splitlines())) <= max(40, min(width, 100))
    assert "Roofline" in text
    document = ElementTree.fromstring(render_picture(machine))
    for element in document.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2"):
            if name in element.attrib:
                assert -200 <= float(element.attrib[name]) <= 1200


@pytest.mark.parametrize(("low", "high", "marks"), [(0.5, 200, [1, 10, 100]), (1, 10, [1, 10]), (0.02, 0.5, [0.1])])
def test_axes_are_marked_at_powers_of_ten(low, high, marks):
    assert list(decades(low, high)) == pytest.approx(marks)


def texts_of(picture: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"))


def test_the_picture_names_its_lines_its_axes_and_its_source():
    words = [element.text for element in texts_of(render_picture(MACHINE))]
    told = " | ".join(word or "" for word in words)
    for part in ("bf16 440 GFLOP/s", "main memory 63 GB/s", "up to 16 MiB 170 GB/s", "FLOP/byte", "FLOP/s"):
        assert part in told
    for part in ("a processor", "torch 2.9", "2026-01-01", "Measured", "fp16 4.3 GFLOP/s"):
        assert part in told


def test_words_of_the_picture_do_not_overlap_and_stay_inside():
    native = product("fp32", 217e9, name="fma", stack="native")
    picture = render_picture(replace(MACHINE, ceilings=(*MACHINE.ceilings, native)))
    boxes = []
    for element in texts_of(picture):
        if "transform" in element.attrib:
            continue
        size = float(element.attrib["font-size"])
        # Wider than most letters are, so that another font fits too.
        width = 0.6 * size * len(element.text or "")
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        start = x - {"middle": width / 2, "end": width}.get(element.attrib.get("text-anchor", ""), 0)
        boxes.append((start, y - 0.8 * size, start + width, y + 0.2 * size, element.text))
    for left, top, right, bottom, words in boxes:
        assert left >= 0, words
        assert right <= WIDTH, words
        assert 0 <= top < bottom <= HEIGHT, words
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one[4], other[4])


def test_what_a_file_says_cannot_become_markup():
    evil = '<script>alert("x")</script>\x1b[31m\x00&'
    described = replace(ABOUT, cpu=evil, torch=evil, os=evil, python=evil, measured_at=evil)
    machine = Machine(
        description=described,
        ceilings=(product(evil, 1e11), *MACHINE.ceilings[4:]),
        findings=(Finding(code="x", message=evil),),
    )
    picture = render_picture(machine)
    assert "<script" not in picture
    assert "\x1b" not in picture
    assert "\x00" not in picture
    assert {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()} <= {
        *("svg", "title", "desc", "style", "rect", "text", "clipPath", "line", "g", "polygon", "circle")
    }
    assert "\x1b" not in drawn(machine)


def test_the_picture_has_colours_for_dark_screens_and_words_for_those_who_cannot_see_it():
    picture = render_picture(MACHINE)
    assert "prefers-color-scheme: dark" in picture
    assert 'role="img"' in picture
    assert "Ridge points: bf16 7.0 FLOP/byte" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_marks_stand_beside_unsteady_and_contradicted_limits():
    plain = render_machine(MACHINE, width=80, color=False, unicode=True)
    assert "moved while it was measured" not in plain
    marked = [replace(one, unsteady=one.dtype == "fp32", contradicted=one.dtype == "fp64") for one in MACHINE.ceilings]
    text = render_machine(replace(MACHINE, ceilings=tuple(marked)), width=80, color=False, unicode=True)
    assert "216*" in text
    assert "92.0!" in text
    assert "above what another limit allows" in text
    assert "moved while it was measured" in text
