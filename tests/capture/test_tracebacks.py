"""The user's traceback is that of a plain run."""

from __future__ import annotations

import traceback

import pytest
import torch

from boundby.capture.lean import LeanWatcher
from boundby.capture.tracebacks import own_frames_removed


def frames(error: BaseException) -> list[tuple[str, str]]:
    return [(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]


def users_mistake(x):
    return torch.mm(x, torch.ones(7, 7))


def caught(watched: bool, act=users_mistake) -> BaseException:
    watcher = LeanWatcher()
    if watched:
        watcher.start()
    try:
        act(torch.ones(2, 3))
    except Exception as error:
        return error
    finally:
        watcher.stop()
    raise AssertionError("it did not fail")


def test_a_failing_op_leaves_the_frames_of_a_plain_run():
    plain, watched = caught(False), caught(True)
    assert any("boundby" in name and "watcher" in name for name, _ in frames(watched)), "nothing to remove"
    own_frames_removed(watched)
    assert frames(watched) == frames(plain)
    assert str(watched) == str(plain)
    assert type(watched) is type(plain)


def test_a_users_own_call_through_torch_ops_keeps_its_frame():
    def by_hand(x):
        return torch.ops.aten.mm(x, torch.ones(7, 7))

    plain, watched = caught(False, by_hand), caught(True, by_hand)
    own_frames_removed(watched)
    assert frames(watched) == frames(plain)
    assert any(name.endswith("_ops.py") for name, _ in frames(watched))


def test_a_traceback_without_boundby_is_left_as_it_is():
    error = caught(False)
    before = frames(error)
    own_frames_removed(error)
    assert frames(error) == before


def test_line_numbers_stay():
    error = caught(True)
    lines = {frame.name: frame.lineno for frame in traceback.extract_tb(error.__traceback__)}
    own_frames_removed(error)
    after = {frame.name: frame.lineno for frame in traceback.extract_tb(error.__traceback__)}
    assert after["users_mistake"] == lines["users_mistake"] == users_mistake.__code__.co_firstlineno + 1


def test_causes_and_contexts_are_kept_and_cleaned():
    def chained(x):
        try:
            users_mistake(x)
        except RuntimeError as error:
            try:
                users_mistake(x)
            except RuntimeError:
                raise ValueError("mine") from error

    error = caught(True, chained)
    cause, context = error.__cause__, error.__context__
    own_frames_removed(error)
    assert error.__cause__ is cause
    assert error.__context__ is context
    for one in (error, cause, context):
        assert frames(one)
        assert not [name for name, _ in frames(one) if "/boundby/capture/" in name]


def test_errors_that_refer_to_each_other_do_not_loop():
    first, second = caught(True), caught(True)
    first.__context__, second.__context__ = second, first
    own_frames_removed(first)
    assert not [name for name, _ in frames(second) if "/boundby/capture/" in name]


def test_the_members_of_a_group_are_cleaned():
    group = ExceptionGroup("several", [caught(True), ExceptionGroup("inner", [caught(True)])])
    own_frames_removed(group)
    for one in (group.exceptions[0], group.exceptions[1].exceptions[0]):
        assert [name for _, name in frames(one)][-1] == "users_mistake"


def test_an_error_without_a_traceback_is_fine():
    own_frames_removed(ValueError("never raised"))


def test_an_error_in_a_module_called_inside_a_mark_shows_no_frame_of_boundby():
    import boundby
    from boundby.capture import marks
    from boundby.capture.schedule import Limits
    from boundby.capture.session import Session

    def loop() -> None:
        for turn in boundby.step(range(9)):
            1 / (5 - turn)

    session = Session(limits=Limits(timed=3, watched=2))
    session.arm()
    try:
        with pytest.raises(ZeroDivisionError) as found:
            loop()
    finally:
        session.disarm()
    assert marks._listener is None
    own_frames_removed(found.value)
    assert [name for name, _ in frames(found.value) if "/boundby/" in name and "/tests/" not in name] == []
