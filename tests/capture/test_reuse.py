"""How far back an op's largest input was last touched, by arithmetic and against a plain LRU stack."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.capture import reuse
from boundby.capture.reuse import reuse_distances

Touch = tuple[int, int]  # block, bytes
Op = tuple[list[Touch], list[Touch]]  # inputs, outputs


def distances(ops: list[Op]) -> list[float]:
    keys, sizes, offsets, inputs = [], [], [0], []
    for read, written in ops:
        for key, size in (*read, *written):
            keys.append(key)
            sizes.append(size)
        offsets.append(len(keys))
        inputs.append(len(read))
    return list(reuse_distances(keys, sizes, offsets, inputs))


def lru_distances(ops: list[Op]) -> list[float]:
    """The same by a list of blocks, the latest last: what lies behind the input on it is what was touched since."""
    stack: list[Touch] = []
    found: list[float] = []
    for lap in range(2):
        for read, written in ops:
            touches = [*read, *written]
            if lap and not touches:
                found.append(0.0)
            elif lap:
                key = max(read or written, key=lambda touch: touch[1])[0]
                at = [block for block, _ in stack].index(key)
                found.append(float(sum(size for _, size in stack[at + 1 :])))
            for key, size in touches:
                stack = [one for one in stack if one[0] != key] + [(key, size)]
    return found


blocks = st.integers(1, 6)
ops_of_any_size = st.lists(
    st.tuples(
        st.lists(st.tuples(blocks, st.integers(1, 1000)), max_size=3),
        st.lists(st.tuples(blocks, st.integers(1, 1000)), max_size=2),
    ),
    max_size=12,
)
ops_of_fixed_sizes = st.lists(
    st.tuples(
        st.lists(blocks.map(lambda block: (block, 100 * block)), max_size=3),
        st.lists(blocks.map(lambda block: (block, 100 * block)), max_size=2),
    ),
    max_size=12,
)


@given(ops_of_any_size)
@settings(max_examples=200)
def test_the_distance_is_that_of_an_lru_stack(ops):
    assert distances(ops) == lru_distances(ops)


@given(ops_of_fixed_sizes)
@settings(max_examples=100)
def test_traffic_is_never_less_than_distinct_bytes_nor_more_than_the_footprint(ops):
    exact = distances(ops)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reuse, "EXACT_UP_TO", -1)
        rough = distances(ops)
    footprint = sum(dict(touch for read, written in ops for touch in (*read, *written)).values())
    assert all(a <= b <= footprint for a, b in zip(exact, rough, strict=True))


def test_an_op_that_touches_nothing_has_no_distance():
    assert distances([([], []), ([(1, 8)], [(2, 8)]), ([], [])])[::2] == [0.0, 0.0]
    assert distances([]) == []


def test_what_was_just_written_is_still_at_hand():
    # 1 -> 2 -> 3: each op reads what the one before wrote.
    assert distances([([(1, 100)], [(2, 40)]), ([(2, 40)], [(3, 7)])])[1] == 0.0


def test_a_weight_used_once_a_step_was_last_used_a_whole_step_ago():
    # Two layers with a weight of 1000 and 500 bytes, activations of 10 bytes each.
    ops = [([(1, 10), (100, 1000)], [(2, 10)]), ([(2, 10), (200, 500)], [(3, 10)])]
    first, second = distances(ops)
    # Since weight 100: block 2, then 200 and 3, and block 1 of this step was touched before its weight, a step ago.
    assert first == 10 + 500 + 10
    # Since weight 200: block 3, then 1, 100 and 2 of this step; the 2 of the step before is the same block.
    assert second == 10 + 10 + 1000 + 10


def test_in_place_work_on_one_block_finds_it_at_hand():
    assert distances([([(1, 4096)], [(1, 4096)])] * 3) == [0.0, 0.0, 0.0]


def test_an_op_without_inputs_is_judged_by_what_it_writes():
    ops = [([], [(1, 64)]), ([(2, 8)], [(3, 8)])]
    assert distances(ops)[0] == 16.0


def test_a_long_step_counts_traffic(monkeypatch):
    # Block 2 passes by three times: 30 bytes of traffic, 10 distinct ones.
    ops = [([(1, 50)], []), *[([(2, 10)], [])] * 3, ([(1, 50)], [])]
    assert distances(ops)[-1] == 10.0
    monkeypatch.setattr(reuse, "EXACT_UP_TO", 4)
    assert distances(ops)[-1] == 30.0
    monkeypatch.setattr(reuse, "EXACT_UP_TO", 5)
    assert distances(ops)[-1] == 10.0
