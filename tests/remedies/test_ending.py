"""Programs that a script has started end by themselves before its process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from boundby.remedies.child_process import end_other_programs

# A script that starts a compiler of a kind, one Python process, and waits.
SCRIPT = """
import subprocess, sys
shell = 'trap "rm {file}; exit 1" TERM; : > {file}; while :; do sleep 0.05; done'
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(worker.pid, flush=True)
subprocess.run(["sh", "-c", shell])
print("ended", worker.poll(), flush=True)
worker.kill()
"""


def test_a_compiler_removes_its_files_and_nothing_else_is_started(tmp_path: Path) -> None:
    file = tmp_path / "begun.s"
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(file=file)], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        while not file.exists():
            time.sleep(0.01)
        end_other_programs(process.pid)
        assert not file.exists()
        assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
        assert psutil.Process(worker).status() == psutil.STATUS_STOPPED
        process.send_signal(signal.SIGCONT)
        # The one that the script waited for has ended, and its Python process has not.
        assert process.stdout.readline() == "ended None\n"
        os.killpg(process.pid, signal.SIGKILL)  # as a trial does with all that is stopped
        until = time.monotonic() + 10.0
        while psutil.pid_exists(worker) and psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.01)


# One that starts a Python process and another program that each have a session of their own.
DAEMONS = """
import subprocess, sys, time
wait = [sys.executable, "-c", "import time; time.sleep(60)"]
print(*(subprocess.Popen(one, start_new_session=True).pid for one in (wait, ["sleep", "60"])), flush=True)
time.sleep(60)
"""


def test_what_has_a_session_of_its_own_goes_on_as_it_was() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DAEMONS], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        daemons = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        try:
            end_other_programs(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            gone = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
            assert [one.is_running() and one.status() not in gone for one in daemons] == [True, True]
        finally:
            for one in daemons:
                with suppress(psutil.NoSuchProcess):
                    one.kill()


def test_a_process_that_has_ended_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    end_other_programs(process.pid)
