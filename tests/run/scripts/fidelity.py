"""Prints everything a script can see of how it is run."""

from __future__ import annotations

import atexit
import dataclasses
import gc
import inspect
import io
import os
import pickle
import signal
import sys
import threading
import typing
import warnings

from training import train

atexit.register(print, "atexit: registered first, printed last")


class Point:
    """Pickled by its name in __main__."""

    def __init__(self, x: int) -> None:
        self.x = x


@dataclasses.dataclass
class Settings:
    rate: float
    parent: Settings | None = None


def say(name: str, value: object) -> None:
    print(f"{name}: {value!r}")


def linger() -> None:
    threading.main_thread().join()
    print("thread: still running after the main thread's end")


def main() -> None:
    me = sys.modules["__main__"]
    say("argv", sys.argv)
    say("name", __name__)
    say("file", __file__)
    say("doc", __doc__)
    say("spec", __spec__)
    say("package", __package__)
    say("loader", type(__loader__).__name__)
    say("globals", sorted(name for name in globals() if name.startswith("__")))
    say("builtins", type(__builtins__).__name__)
    say("path", sys.path)
    say("cwd", os.getcwd())
    say("main", me.Point is Point and me.__dict__ is globals())
    say("pickle", pickle.loads(pickle.dumps(Point(3))).x)
    say("pickled as", Point.__module__)
    say("hints", sorted(typing.get_type_hints(Settings)))
    say("source", inspect.getsource(linger).splitlines()[0])
    say("stack", [frame.function for frame in inspect.stack()][:2])
    say("stdin", sys.stdin.read())
    say("environment", sorted(os.environ.items()))
    say("flags", sys.flags)
    say("warn options", sys.warnoptions)
    say(
        "hooks", (sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile(), threading.excepthook.__name__)
    )
    say("thread", (threading.current_thread().name, threading.active_count()))
    say("recursion", sys.getrecursionlimit())
    say("collector", (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()))
    say("signals", [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGPIPE)])
    say("encoding", (sys.stdout.encoding, sys.stdout.line_buffering, sys.stdout.isatty()))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "training.py")) as beside:
        say("beside", beside.readline())
    warnings.warn("a warning with its line", stacklevel=1)

    atexit.register(print, "atexit: registered second, printed first")
    threading.Thread(target=linger).start()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    kept, sys.stdout = sys.stdout, io.StringIO()
    loss = train(30)
    print("captured")
    captured, sys.stdout = sys.stdout.getvalue(), kept
    say("captured", captured)
    say("cwd after chdir", os.getcwd())
    print("loss", loss.hex())
    print("to standard error", file=sys.stderr)
    sys.stdout.flush()
    os.write(1, b"written to the descriptor\n")


if __name__ == "__main__":
    main()
