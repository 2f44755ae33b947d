"""What steps write: lines with their time, system calls, bytes; and that everything is put back."""

from __future__ import annotations

import builtins
import logging
import threading

import pytest
from habit_steps import habits_of
from small_training import MANY

from boundby.capture import writes
from boundby.capture.writes import StepWrites, WritingLines, resident_bytes, written

pytestmark = pytest.mark.usefixtures("nothing_stays")


def test_lines_that_write_are_timed_and_everything_is_put_back(rounds, capsys):
    logger = logging.getLogger("test_habit_writes")
    plain = builtins.print, logging.Handler.handle

    def write(loss, output):
        print("loss", loss.item())
        logger.warning("loss %f", loss)

    seen = habits_of(rounds, write)
    assert (builtins.print, logging.Handler.handle) == plain
    first = write.__code__.co_firstlineno
    assert {(one.place.path, one.place.line, one.calls) for one in seen.writes.lines} >= {(__file__, first + 1, 1.0)}
    assert all(one.time_s.value > 0 for one in seen.writes.lines)
    assert capsys.readouterr().out.count("loss") == MANY


def test_what_writing_raises_goes_through_and_undoes_nothing():
    lines = WritingLines()
    lines.open()
    try:
        with pytest.raises(TypeError):
            print("a", sep=3)
    finally:
        lines.close()
    assert builtins.print.__module__ == "builtins"
    assert len(lines.found()) == 1


def test_a_function_taken_during_a_step_is_the_plain_one_after_it(capsys):
    lines = WritingLines()
    lines.open()
    taken = builtins.print
    lines.close()
    for _ in range(3):
        taken("after")
    assert (lines.found(), lines._step) == ((), {})
    lines.open()
    taken("in a later step")
    lines.close()
    assert [one.calls for one in lines.found()] == [0.5]
    assert capsys.readouterr().out.count("after") == 3


def test_what_other_threads_write_is_not_the_step_s(capsys):
    lines = WritingLines()
    lines.open()
    try:
        other = threading.Thread(target=lambda: print("other"))
        other.start()
        other.join()
    finally:
        lines.close()
    assert capsys.readouterr().out == "other\n"
    assert lines.found() == ()


@pytest.mark.skipif(written() is None, reason="this system does not tell what a process writes")
def test_system_calls_and_bytes_are_counted(tmp_path):
    seen = StepWrites()
    with (tmp_path / "log").open("wb", buffering=0) as file:
        for _ in range(3):
            seen.begin()
            file.write(b"x" * 100)
            file.write(b"x" * 50)
            seen.end()
    found = seen.found()
    assert (found.calls, found.bytes) == (2.0, 150.0)
    assert (found.calls_range.low, found.calls_range.high, found.bytes_range.value) == (2.0, 2.0, 150.0)


def test_writes_that_the_system_does_not_tell_are_unknown(monkeypatch, capsys):
    monkeypatch.setattr(writes, "written", lambda: None)
    seen = StepWrites()
    seen.begin()
    seen.end()
    assert seen.found() is None
    seen.lines.open()
    print("line")
    seen.lines.close()
    assert (seen.found().calls, seen.found().bytes, len(seen.found().lines)) == (None, None, 1)


def test_memory_in_use_is_told_or_unknown():
    now = resident_bytes()
    assert now is None or now > 1 << 20
