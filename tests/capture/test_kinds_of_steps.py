"""Steps that differ in shapes, and timed steps that lived on input fetched ahead."""

from __future__ import annotations

from array import array

import numpy as np

from boundby.capture.attribute import AttributedStep
from boundby.capture.join import _after_first_wait, _by_shapes, _Seen, _Times
from boundby.capture.recorder import Recorded
from boundby.capture.usage import NO_USAGE


def attributed(site: int, seconds: float) -> AttributedStep:
    return AttributedStep(
        ops=["op"],
        stamps=array("q", [0, int(seconds * 1e9)]),
        site=array("I", [site]),
        works=array("B", [1]),
        faults=array("I", [0]),
        keys=array("Q"),
        sizes=array("Q"),
        offsets=array("Q", [0, 0]),
        inputs=array("B", [0]),
        device="cpu",
    )


def times(seconds: float) -> _Times:
    return _Times(windows=np.array([seconds]), gaps=np.zeros(1), tail=0.0, usage=NO_USAGE, turn=1, watching=0.0)


def test_shapes_that_show_in_the_length_make_kinds_of_their_own():
    seen = _Seen(
        ops=["op"],
        attributed=[attributed(0, 1.0), attributed(1, 4.0)],
        times=[times(0.9), times(1.2), times(3.5), times(4.1), times(5.0)],
    )
    short, long = _by_shapes(seen)
    assert [one.windows[0] for one in short.times] == [0.9, 1.2]
    assert [one.windows[0] for one in long.times] == [3.5, 4.1, 5.0]
    assert (short.attributed[0].site[0], long.attributed[0].site[0]) == (0, 1)


def test_shapes_that_hardly_matter_do_not():
    seen = _Seen(ops=["op"], attributed=[attributed(0, 1.0), attributed(1, 1.1)], times=[times(1.0)])
    assert _by_shapes(seen) == [seen]


def test_steps_up_to_the_first_wait_of_a_round_are_left_out():
    kept = Recorded(
        timed_s=[1.0, 1.0, 4.0, 1.0, 4.0, 1.0, 1.0, 4.0, 1.0],
        input_s=[0.0, 0.0, 3.0, 0.0, 3.0, 0.0, 0.0, 3.0, 0.0],
        turns=[1, 1, 1, 1, 1, 2, 2, 2, 2],
    )
    assert _after_first_wait(kept, list(range(9))) == [3, 4, 8]


def test_all_steps_stay_where_none_waits():
    kept = Recorded(timed_s=[1.0] * 4, input_s=[0.0] * 4, turns=[1, 1, 2, 2])
    assert _after_first_wait(kept, [0, 1, 2, 3]) == [0, 1, 2, 3]
