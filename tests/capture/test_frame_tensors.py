"""Looking at a function's variables leaves no trace in them."""

from __future__ import annotations

import collections
import sys
import weakref

import pytest
import torch

from boundby.capture.frame_tensors import tensors_in

# Written so that this file is none that asks frames for their dict, whose functions are left alone.
ASKED_BY = "f_" + "locals"

Pair = collections.namedtuple("Pair", "left right")


class Output(collections.OrderedDict[str, object]):
    """As model outputs are; and whoever iterates over it is told a lie."""

    def values(self) -> None:  # type: ignore[override]  # what must not be called
        raise AssertionError

    def __iter__(self) -> None:  # type: ignore[override]  # what must not be called
        raise AssertionError


def look() -> list[torch.Tensor]:
    return tensors_in(sys._getframe(1))


def test_tensors_are_found_in_containers_each_once() -> None:
    first, second, third, fourth = (torch.ones(n) for n in range(1, 5))
    pair = Pair(second, [first])
    output = Output(hidden=(third, {"deep": fourth}))
    found = look()
    assert sorted(one.numel() for one in found) == [1, 2, 3, 4]
    assert (pair.left is second, len(output)) == (True, 1)


def test_containers_that_hold_themselves_are_no_endless_way() -> None:
    node: dict[str, object] = {"x": torch.ones(1)}
    node["me"] = [node]
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    assert len(look()) == 1


@pytest.mark.parametrize("traced", [False, True])
def test_variables_stay_and_tensors_die_with_them(traced: bool) -> None:
    def work() -> tuple[bool, int]:
        x, kept = torch.ones(3), 7
        seen = weakref.ref(x)
        look()
        kept += 1
        kept -= 1
        kept += 1
        del x
        return seen() is None, kept

    before = sys.gettrace()
    if traced:
        sys.settrace(lambda frame, event, argument: (getattr(frame, ASKED_BY) and None) or sys.gettrace())
    try:
        done = work()
    finally:
        sys.settrace(before)
    assert done[1] == 8
    assert done[0] or traced  # under a tracer written in Python, the dict is filled again and stays


def test_a_dict_of_the_variables_that_the_function_holds_is_left_alone() -> None:
    x = torch.ones(1)
    mine = locals()
    before = dict(mine)
    later = torch.ones(2)
    assert look() == []
    assert mine == before
    assert later.numel() == 2 * x.numel()


def dict_of_the_caller() -> dict[str, object]:
    found: dict[str, object] = getattr(sys._getframe(1), ASKED_BY)
    return found


def test_a_dict_that_someone_else_holds_is_not_emptied() -> None:
    held: list[dict[str, object]] = []
    x = torch.ones(1)
    held.append(dict_of_the_caller())
    assert [one.numel() for one in look()] == [1]
    assert held[0]["x"] is x
