"""Programs that a script has started end by themselves before its process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
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
        [sys.executable, "-c", SCRIPT.format(file=file)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        while not file.exists():
            time.sleep(0.01)
        end_other_programs(process.pid)
        assert not file.exists()
        assert psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
        process.send_signal(signal.SIGCONT)
        # The one that the script waited for has ended, and its Python process has not.
        assert process.stdout.readline() == "ended None\n"
        psutil.Process(worker).resume()


def test_a_process_that_has_ended_is_no_error() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    end_other_programs(process.pid)
