"""The labs' frame: where labs are, how they run, and how a timed line is told from one that is always the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import repeat

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import boundby.labs.lab as frame
from boundby.labs.lab import LABS, Entry, Lab, Settings, chosen_entries, lab_device, lab_named, run_demonstrations
from boundby.report.chart import Axis, Chart
from boundby.report.demonstration import Demonstration, LabTable, Line, Shown
from boundby.report.document import Bullets, Paragraph, Table
from boundby.report.lab_document import lab_document
from boundby.report.lab_text import Paper, render_demonstration, render_list, render_opening
from boundby.report.wrapping import wrapped
from boundby.results.errors import BoundbyError
from boundby.results.lab import LabDemonstration, LabLine, LabResult, decode_lab, encode_lab
from boundby.timing.rounds import time_rounds

# By their names, since they are hard to tell from those of ASCII.
COMMA, STOP = "\N{FULLWIDTH COMMA}", "\N{IDEOGRAPHIC FULL STOP}"
OPEN, CLOSE = "\N{FULLWIDTH LEFT PARENTHESIS}", "\N{FULLWIDTH RIGHT PARENTHESIS}"
PAPER = Paper(width=80, color=False, unicode=True)


def shown_of(
    *, cell: str = "1.00 µs", said: str = "It took 1.00 µs.", head: tuple[str, ...] = ("n", "time", "median", "GB/s")
) -> Demonstration:
    table = LabTable(
        caption="Sizes",
        head=head,
        rows=(("8", cell, "2 µs", cell), ("1,024", cell, "2 µs", ""), ("16,384", "", "", "")),
        timed=(1, 2, 3),
        files_only=(2,),
        left=(),
    )
    chart = Chart(name="one", title="One", summary="A chart.", x=Axis(name="n"), y=Axis(name="time", unit="s"))
    shown = Shown(
        about=("What it does.",),
        blocks=(table, chart, Line(text="The same on every machine.")),
        observations=(Line(text=said, timed=True), Line(text="Ops stay.")),
        data={"time_s": 1e-6},
    )
    return Demonstration(number=2, name="one", title="A demonstration", shown=shown)


def unmarked(text: str, mark: str = "⏱") -> list[str]:
    return [line for line in text.splitlines() if not line.startswith(mark)]


# The registry


def test_every_lab_has_its_name_and_demonstrations_of_different_names() -> None:
    for name in LABS:
        lab = lab_named(name)
        names = [entry.name for entry in lab.entries]
        assert lab.name == name
        assert lab.title()
        assert len(set(names)) == len(names)
        assert all(entry.title() for entry in lab.entries)


def test_listing_the_labs_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from boundby.labs.lab import LABS, lab_named; [lab_named(name).title() for name in LABS]; "
        "print({'torch', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


def test_a_lab_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(BoundbyError, match="'compute'") as raised:
        lab_named("compute")
    assert (raised.value.code, raised.value.status) == ("unknown-lab", 2)


@pytest.mark.parametrize("number", [0, -1, 6])
def test_a_demonstration_that_is_none_is_refused_by_number(number: int) -> None:
    with pytest.raises(BoundbyError) as raised:
        chosen_entries(lab_named("measure"), [1, number])
    assert raised.value.code == "no-demonstration"


def test_demonstrations_run_in_the_labs_order_and_once() -> None:
    chosen = chosen_entries(lab_named("measure"), [4, 1, 4])
    assert [number for number, _ in chosen] == [1, 4]
    assert len(chosen_entries(lab_named("measure"), [])) == 5


def test_a_lab_of_the_cpu_says_so_before_it_looks_for_a_device() -> None:
    with pytest.raises(BoundbyError, match="'cuda'") as raised:
        lab_device(lab_named("measure"), "cuda")
    assert raised.value.code == "lab-device"
    assert lab_device(lab_named("measure"), "cpu") == lab_device(lab_named("measure"), None) == "cpu"


def test_a_lab_of_accelerators_refuses_what_torch_does_not_have() -> None:
    lab = Lab(name="any", title=lambda: "Any", entries=(), accelerated=True)
    with pytest.raises(BoundbyError) as raised:
        lab_device(lab, "warp-drive")
    assert raised.value.code == "no-device"
    assert lab_device(lab, "cpu") == "cpu"
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    assert lab_device(lab, None) == ("cpu" if here is None else here.type)


def test_a_lab_that_needs_torch_says_so_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame, "torch_version", lambda: None)
    with pytest.raises(BoundbyError, match="no torch") as raised:
        lab_device(lab_named("measure"), None)
    assert raised.value.code == "no-torch"
    assert lab_device(lab_named("launch"), None) == "cpu"


# Running


class FakeModules:
    """Demonstrations without a file: each notes the settings it was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[Settings, int]] = []
        monkeypatch.setattr(frame.importlib, "import_module", lambda name: self)

    def show(self, settings: Settings) -> Shown:
        self.seen.append((settings, torch.get_num_threads()))
        settings.progress(0.5)
        return Shown(about=(), blocks=(), observations=(), data={"calls": len(self.seen)})


def test_a_later_demonstration_sees_what_earlier_ones_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeModules(monkeypatch)
    entries = tuple(Entry(name=name, title=lambda name=name: name.upper(), module=name) for name in "abc")
    told: list[tuple[int, float]] = []
    done = list(
        run_demonstrations(
            Lab(name="fake", title=lambda: "Fake", entries=entries),
            Settings(),
            [1, 3],
            progress=lambda number, share: told.append((number, share)),
        )
    )
    assert [(one.number, one.name, one.title) for one in done] == [(1, "a", "A"), (3, "c", "C")]
    assert [dict(settings.earlier) for settings, _ in fake.seen] == [{}, {"a": {"calls": 1}}]
    assert told == [(1, 0.5), (3, 0.5)]


def test_a_lab_of_one_thread_gives_torch_one_and_then_its_own_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeModules(monkeypatch)
    lab = Lab(
        name="fake",
        title=lambda: "Fake",
        entries=(Entry(name="a", title=lambda: "A", module="a"),),
        one_thread=True,
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        list(run_demonstrations(lab, Settings()))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [threads for _, threads in fake.seen] == [1]


# Timing, on a clock that only the calls move


class FakeClock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def work(self, costs_ns: Iterable[int]) -> Callable[[], None]:
        costs = iter(costs_ns)

        def call() -> None:
            self.now_ns += next(costs)

        return call


def test_a_short_call_is_looped_until_a_round_is_long_enough() -> None:
    clock = FakeClock()
    (found,) = time_rounds([clock.work(repeat(10_000))], round_s=0.01, clock=clock)
    assert found.fastest_s == found.median_s == found.slowest_s == pytest.approx(10e-6)
    assert found.loops * 10e-6 >= 0.8 * 0.01
    assert len(found.rounds_s) == 5


def test_the_processor_time_of_the_rounds_says_whether_the_core_was_shared() -> None:
    clock = FakeClock()
    (found,) = time_rounds([clock.work(repeat(10**9))], clock=clock, cpu_clock=lambda: clock.now_ns // 2)
    assert found.cpu_share == pytest.approx(0.5)


def test_a_long_call_is_called_once_to_warm_up_and_once_a_round() -> None:
    clock = FakeClock()
    times = iter([9.0, 3.0, 2.0, 5.0, 4.0, 6.0])
    (found,) = time_rounds([clock.work(int(1e9 * one) for one in times)], clock=clock)
    assert (found.fastest_s, found.median_s, found.slowest_s, found.loops) == (2.0, 4.0, 6.0, 1)
    assert list(times) == []


def test_calls_are_timed_in_turns_and_each_round_waits_for_the_device() -> None:
    clock = FakeClock()
    order: list[str] = []

    def call(name: str) -> Callable[[], None]:
        def work() -> None:
            order.append(name)
            clock.now_ns += 10**9

        return work

    shares: list[float] = []
    time_rounds(
        [call("a"), call("b")],
        rounds=3,
        clock=clock,
        synchronize=lambda: order.append("wait") if order else None,
        progress=shares.append,
    )
    calls = [name for name in order if name != "wait"]
    assert calls[2:] == ["a", "b"] * 3
    assert order.count("wait") >= len(calls)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_round_in_which_the_clock_stepped_back_is_left_out() -> None:
    clock = FakeClock()
    (found,) = time_rounds([clock.work(int(1e9 * one) for one in (1, 2, -3, 4))], rounds=3, clock=clock)
    assert found.rounds_s == (2.0, 4.0)
    with pytest.raises(ValueError, match="clock"):
        time_rounds([clock.work(int(1e9 * one) for one in (1, 0, -1))], rounds=2, clock=clock)


# On a terminal


def test_each_line_of_a_timing_is_marked_and_no_other() -> None:
    long = "It took 1.00 µs, " * 20
    text = render_demonstration(shown_of(said=long), PAPER)
    marked = [line for line in text.splitlines() if line.startswith("⏱ ")]
    assert [line for line in text.splitlines() if "µs" in line] == marked
    assert len(marked) > 4
    assert all(cell_len(line) <= 80 for line in text.splitlines())


@given(st.text(st.characters(codec="ascii", exclude_characters="\n\r", categories=("L", "N")), min_size=1, max_size=30))
def test_no_timing_moves_a_line_without_the_mark(cell: str) -> None:
    assert unmarked(render_demonstration(shown_of(cell=cell), PAPER)) == unmarked(
        render_demonstration(shown_of(), PAPER)
    )


def test_a_column_that_only_files_have_is_not_printed() -> None:
    text = render_demonstration(shown_of(), PAPER)
    assert "median" not in text
    assert "2 µs" not in text


def test_columns_of_wide_characters_end_under_each_other() -> None:
    text = render_demonstration(shown_of(head=("元素数", "时间", "中位数", "速率")), PAPER)
    lines = text.splitlines()
    head = next(line for line in lines if "元素数" in line)
    first, second = (line for line in lines if line.startswith("⏱") and "µs" in line and "took" not in line)
    assert cell_len(head) == cell_len(first)
    assert cell_len(head[: head.index("时间") + 2]) == cell_len(second)


def test_ascii_has_a_mark_of_its_own() -> None:
    text = render_demonstration(shown_of(), Paper(width=80, color=False, unicode=False))
    assert text.isascii()
    assert [line for line in text.splitlines() if "us" in line] == [
        line for line in text.splitlines() if line.startswith("[t] ")
    ]
    assert "[t]" in render_opening("Lab", "a machine", Paper(width=80, color=False, unicode=False))


def test_what_is_left_out_to_be_quick_is_said() -> None:
    assert "Quick:" not in render_opening("Lab", "a machine", PAPER)
    assert "Quick: the largest sizes are left out" in render_opening("Lab", "a machine", PAPER, quick=True)
    lead = lab_document("Lab", "a machine", [], quick=True).lead
    assert [block for block in lead if isinstance(block, Paragraph) and block.text.startswith("Quick:")]


def test_nothing_is_said_of_timing_where_nothing_is_timed() -> None:
    text = render_opening("Lab", "", PAPER, quick=True)
    assert "Quick" not in text
    assert not [line for line in text.splitlines() if line.startswith("⏱")]
    same = render_opening("Lab", "a machine", PAPER, quick=True, smaller=False)
    assert "Quick: rounds are shorter" in same
    assert "left out" not in same


def test_a_page_marks_what_is_timed() -> None:
    document = lab_document("Lab", "a machine", [shown_of()])
    assert document.lead[0] == Paragraph(text="⏱ a machine")
    blocks = document.sections[0].blocks
    shown = shown_of().shown
    table = next(block for block in blocks if isinstance(block, Table))
    source = next(block for block in shown.blocks if isinstance(block, LabTable))
    for row, written in zip(source.rows, table.rows, strict=True):
        assert written[0].startswith("⏱ ") == any(row[index] for index in source.timed)
    bullets = next(block for block in blocks if isinstance(block, Bullets))
    assert [item.startswith("⏱ ") for item in bullets.items] == [line.timed for line in shown.observations]


def test_the_list_numbers_demonstrations_as_the_option_does() -> None:
    text = render_list([("measure", "Title", ["First", "Second"])], PAPER)
    assert "1. First" in text
    assert "2. Second" in text


@given(st.text(st.sampled_from(f"ab 中文%1{COMMA}{STOP}{OPEN}{CLOSE}"), max_size=120), st.integers(4, 40))
def test_wrapping_keeps_the_text_and_the_width(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_chinese_breaks_between_characters_but_not_before_a_stop() -> None:
    lines = wrapped(f"峰值是一百{COMMA}带宽是五十{STOP}脊点{OPEN}每字节的运算数{CLOSE}是二{STOP}", 12)
    assert len(lines) > 3
    assert not [line for line in lines if line[0] in (COMMA, STOP, CLOSE) or line[-1] == OPEN]


# In files


def test_a_page_has_the_medians_and_the_charts() -> None:
    document = lab_document("Lab", "a machine", [shown_of()])
    (section,) = document.sections
    assert section.title == "2. A demonstration"
    kinds = [type(block) for block in section.blocks]
    assert kinds == [Paragraph, Table, Chart, Paragraph, Paragraph, Bullets]
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert table.head == ("n", "time", "median", "GB/s")
    assert table.numeric == (0, 1, 2, 3)


def test_a_file_is_read_back_as_it_was_written() -> None:
    result = LabResult(
        lab="measure",
        quick=True,
        device="cpu",
        threads=1,
        language="zh",
        demonstrations=(
            LabDemonstration(
                number=1,
                name="matmul",
                title="矩阵乘法",
                data={"rows": [{"n": 8, "time_s": 1e-6, "median_s": None}]},
                observations=(LabLine(text="一", timed=True),),
            ),
        ),
    )
    assert decode_lab(encode_lab(result)) == result


def test_a_file_of_a_later_version_is_refused_by_its_number() -> None:
    result = LabResult(lab="measure", quick=True, device="cpu", threads=1, language="en", demonstrations=())
    later = encode_lab(result).replace(b'"version": 1', b'"version": 2')
    with pytest.raises(BoundbyError, match="version 2") as raised:
        decode_lab(later, name="lab.json")
    assert raised.value.code == "unknown-version"


def test_a_table_whose_rows_do_not_fit_its_head_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="2 cells"):
        LabTable(caption="", head=("a", "b"), rows=(("1",),))
