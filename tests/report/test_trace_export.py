"""The watched step as a trace: every op once and in order, nested without a crossing, hostile names as text."""

from __future__ import annotations

import json
import math
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.report.trace_export import render_trace
from boundby.results.counts import OpCost, Phase
from boundby.results.errors import BoundbyError
from boundby.results.trace import OpSite, StepOps, Trace

US = 1e-6
COST = OpCost(kind="pointwise", pointwise_flops=8, bytes_read=32, bytes_written=32)


def site(op: str = "aten.add.Tensor", *, module: str | None = None, phase: Phase = "forward", line: int = 1) -> OpSite:
    return OpSite(
        op=op, cost=COST, shapes="8", path="/home/ann/train.py", line=line, code="y = x + 1", module=module, phase=phase
    )


def trace(sites: list[OpSite], windows: list[float], gaps: list[float], tail_s: float = 0.0) -> Trace:
    count = len(sites)
    return Trace(
        kind="training",
        step_s=(1e-3,),
        input_s=(0.0,),
        step_faults=(0,),
        watched=(),
        sites=tuple(sites),
        ops=StepOps(
            site=array("I", range(count)),
            window_s=array("d", windows),
            gap_s=array("d", gaps),
            faults=array("I", [0] * count),
            distance_bytes=array("d", [0.0] * count),
            tail_s=tail_s,
        ),
        classes=(),
        anchors=(),
        threads=1,
        device="cpu",
    )


def events(made: Trace) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render_trace(made, folder="/home/ann"))["traceEvents"]
    return found


def slices(made: Trace, kind: str) -> list[dict[str, Any]]:
    return [one for one in events(made) if one["ph"] == "X" and one["cat"] == kind]


def named(made: Trace, kind: str) -> list[tuple[str, float, float]]:
    return [(one["name"], one["ts"], one["dur"]) for one in slices(made, kind)]


def test_phases_hold_modules_and_modules_hold_what_they_call() -> None:
    made = trace(
        [
            site("a", module="net.0"),
            site("b", module="net.1.fc"),
            site("c", module="net.1.fc", phase="backward"),
            site("d", module="net.0", phase="backward"),
            site("e", phase="optimizer"),
        ],
        windows=[10 * US] * 5,
        gaps=[5 * US, 1 * US, 2 * US, 1 * US, 3 * US],
        tail_s=4 * US,
    )
    assert named(made, "step") == [("step", 0.0, 66.0)]
    assert named(made, "phase") == [("forward", 5.0, 21.0), ("backward", 28.0, 21.0), ("optimizer", 52.0, 10.0)]
    assert named(made, "module") == [
        ("net", 5.0, 21.0),
        ("net.0", 5.0, 10.0),
        ("net.1", 16.0, 10.0),
        ("net.1.fc", 16.0, 10.0),
        ("net", 28.0, 21.0),
        ("net.1", 28.0, 10.0),
        ("net.1.fc", 28.0, 10.0),
        ("net.0", 39.0, 10.0),
    ]
    assert [name for name, *_ in named(made, "op")] == ["a", "b", "c", "d", "e"]


def test_ops_of_one_line_are_one_stretch_of_its_track() -> None:
    made = trace([site(line=1), site(line=1), site(line=2)], windows=[US] * 3, gaps=[0.0, US, US])
    assert named(made, "line") == [("train.py:1  y = x + 1", 0.0, 3.0), ("train.py:2  y = x + 1", 4.0, 1.0)]
    assert slices(made, "line")[0]["args"] == {"place": "train.py:1", "ops": 2, "code": "y = x + 1"}


def test_an_op_says_what_it_does_and_leaves_out_what_is_not_known() -> None:
    (op,) = slices(trace([site(module="net")], windows=[US], gaps=[0.0]), "op")
    assert op["args"] == {
        "shapes": "8",
        "dtype": "fp32",
        "module": "net",
        "line": "train.py:1",
        "code": "y = x + 1",
        "pointwise_flops": 8,
        "bytes_read": 32,
        "bytes_written": 32,
    }


def test_tracks_and_the_process_have_names() -> None:
    told = {(one["name"], one["tid"]): one["args"] for one in events(trace([site()], [US], [0.0])) if one["ph"] == "M"}
    assert told["process_name", 0] == {"name": "boundby"}
    assert told["thread_name", 1] == {"name": "step"}
    assert told["thread_name", 2] == {"name": "source lines"}


SITES = st.builds(
    site,
    module=st.sampled_from([None, "a", "a.b", "a.b.c", "a.c", "b"]),
    phase=st.sampled_from(["forward", "backward", "optimizer"]),
    line=st.integers(1, 3),
)
SECONDS = st.floats(0, 1e-3)


@given(st.lists(st.tuples(SITES, SECONDS, st.floats(-1e-7, 1e-3)), min_size=1, max_size=30), SECONDS)
def test_slices_of_a_track_nest_and_hold_every_op(ops: list[tuple[OpSite, float, float]], tail_s: float) -> None:
    made = trace([one for one, *_ in ops], [one[1] for one in ops], [one[2] for one in ops], tail_s)
    for track in (1, 2):
        open_until: list[int] = []
        last = 0
        for one in (one for one in events(made) if one["ph"] == "X" and one["tid"] == track):
            begin = round(one["ts"] * 1000)
            end = begin + round(one["dur"] * 1000)
            assert begin >= last, "in order of time"
            last = begin
            while open_until and open_until[-1] < end:
                assert open_until.pop() <= begin, "two slices cross"
            open_until.append(end)
    assert [one["args"]["line"] for one in slices(made, "op")] == [f"train.py:{one.line}" for one, *_ in ops]


def test_hostile_names_stay_text() -> None:
    made = trace([site("\x1b[31m</script>\udcff", module="<img src=x>\n")], [US], [0.0])
    text = render_trace(made, name="\udcfe").decode("utf-8")
    assert "\x1b" not in text
    assert json.loads(text)["traceEvents"][0]["args"] == {"name": "\\udcfe"}


@pytest.mark.parametrize("gap", [math.nan, math.inf])
def test_ops_without_times_are_no_trace(gap: float) -> None:
    with pytest.raises(BoundbyError) as caught:
        render_trace(trace([site()], [US], [gap]))
    assert caught.value.code == "no-op-times"
