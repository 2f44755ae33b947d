"""How a process that runs the user's script starts and ends.

It starts with boundby's own modules first, then as ``python SCRIPT`` would.

``python -m`` puts the current folder first among those that modules are looked for in, where a ``random.py`` of the
user's would be imported in place of Python's; ``python -P`` would tell the script, too, to import nothing of its own
folder.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

import psutil

# A compiler removes its temporary files in milliseconds.
_LONGEST_END_S, _POLL_S = 1.0, 0.01

_FIRST = "import sys; sys.path[0] = sys.path[0] if sys.flags.safe_path else sys.exec_prefix"


def child_command(module: str) -> list[str]:
    """The command that calls ``main()`` of a module of this package; its arguments follow.

    Args:
        module: its full name. ``main`` returns the status, and finds its arguments in ``sys.argv``.
    """
    return [sys.executable, "-c", f"{_FIRST}; from {module} import main; sys.exit(main())"]


def end_other_programs(pid: int) -> None:
    """Stops a process group and lets those of it that are no Python end by themselves.

    Above all compilers that torch.compile has started: killed, they would leave what they had begun to write among the
    system's temporary files. What has a group of its own is not killed with this one, and is left as it is.

    Args:
        pid: of a process that is about to be killed with its whole group.
    """
    with suppress(psutil.Error, ProcessLookupError):
        process, group = psutil.Process(pid), os.getpgid(pid)
        python, started = process.exe(), []
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(one.pid) != group:
                    continue
                # Stopped, none starts another.
                one.suspend()
                if os.getpgid(one.pid) != group:  # it left just before
                    one.resume()
                elif one.exe() not in ("", python):
                    one.terminate()
                    one.resume()
                    started.append(one)
        until = time.monotonic() + _LONGEST_END_S
        while any(map(_runs, started)) and time.monotonic() < until:
            time.sleep(_POLL_S)


def _runs(process: psutil.Process) -> bool:
    """Whether it has not ended; one whose end its parent has not asked for, being stopped, has."""
    try:
        status: str = process.status()
    except psutil.Error:
        return False
    return status != str(psutil.STATUS_ZOMBIE)
