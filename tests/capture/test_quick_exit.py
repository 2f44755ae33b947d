"""``os._exit`` is told of before it takes place, in the main thread of the process alone."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from boundby.capture.quick_exit import before_quick_exit

BEFORE = """
import atexit, os, threading
from boundby.capture.quick_exit import before_quick_exit

def tell(status):
    os.write(1, b"told %d\\n" % status)
    return status + 10

def tell_no_more():
    os.write(1, b"no more\\n")

atexit.register(os.write, 1, b"exit handler\\n")
with before_quick_exit(tell, tell_no_more=tell_no_more):
"""


def ended(source: str) -> tuple[int, str]:
    code = BEFORE + textwrap.indent(textwrap.dedent(source), "    ")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def test_the_main_thread_tells_first_and_nothing_of_the_script_runs_after_it() -> None:
    status, said = ended(
        """
        try:
            os._exit(status=3)
        finally:
            os.write(1, b"finally\\n")
        """
    )
    assert (status, said) == (13, "told 3\n")


def test_another_thread_ends_the_process_with_its_own_status() -> None:
    status, said = ended(
        """
        thread = threading.Thread(target=os._exit, args=(4,))
        thread.start()
        thread.join()
        """
    )
    assert (status, said) == (4, "no more\n")


def test_a_forked_child_ends_at_once() -> None:
    status, said = ended(
        """
        child = os.fork()
        if child == 0:
            os._exit(5)
        os.write(1, b"child %d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (status, said) == (0, "child 5\nexit handler\n")


def test_what_fails_in_telling_ends_the_process_all_the_same() -> None:
    code = BEFORE.replace("return status + 10", "raise ValueError") + "    os._exit(6)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (6, "told 6\n")


def test_a_status_that_is_no_number_is_refused_as_ever() -> None:
    plain = os._exit
    with before_quick_exit(lambda status: status, tell_no_more=lambda: None):
        assert os._exit is not plain
        with pytest.raises(TypeError):
            os._exit("three")  # type: ignore[arg-type]  # the mistake that is tested
    assert os._exit is plain


def test_a_status_that_is_no_c_int_is_refused_as_ever_and_the_watching_goes_on() -> None:
    told: list[int] = []
    with before_quick_exit(lambda status: told.append(status) or 0, tell_no_more=lambda: None):
        watched = os._exit
        with pytest.raises(OverflowError):
            os._exit(2**40)
        assert os._exit is watched
    assert told == []


@pytest.mark.parametrize("first", ["pass", "os._exit = lambda status: None"])
def test_what_was_kept_of_it_is_the_plain_one_after_the_body(first: str) -> None:
    assert ended(f"atexit.register(os._exit, 3)\n{first}") == (3, "")


def test_an_exit_within_the_telling_tells_nothing_again() -> None:
    source = BEFORE.replace("return status + 10", "kept(7)") + "    kept = os._exit\n    os._exit(6)\n"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (7, "told 6\n")


def test_a_function_of_the_users_in_its_place_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "_exit", os._exit)  # put back after the test

    def mine(status: int) -> None:
        pass

    with before_quick_exit(lambda status: status, tell_no_more=lambda: None):
        os._exit = mine  # type: ignore[assignment]  # what a script may do
    assert os._exit is mine
