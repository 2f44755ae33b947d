"""Ends in the way the first argument names, at the step the second one names (0: before the first step).

With a third argument, a folder, the first two are lists with commas between, and each case goes on in a child process
of its own, which writes its output to files in that folder.
"""

import atexit
import os
import signal
import sys

from training import train


def one_of(cases, folder):
    """Returns in a child process for each case, with that case; ends the parent after the last."""
    for way, at in cases:
        place = os.path.join(folder, f"{way}.{at}")
        child = os.fork()
        if child == 0:
            for suffix, descriptor in ((".stdout", 1), (".stderr", 2)):
                os.dup2(os.open(place + suffix, os.O_WRONLY | os.O_CREAT), descriptor)
            return way, at
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with open(place + ".status", "w") as file:
            file.write(str(status))
    sys.exit()


if len(sys.argv) == 3:
    way, at = sys.argv[1], int(sys.argv[2])
else:
    way, at = one_of(zip(sys.argv[1].split(","), map(int, sys.argv[2].split(",")), strict=True), sys.argv[3])


def hook(kind, value, trace):
    print("hooked:", kind.__name__, value, file=sys.stderr)


def end():
    if way == "raise":
        raise RuntimeError("the loss went away")
    if way == "chained":
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("no such key") from error
    if way == "hooked":
        sys.excepthook = hook
        raise RuntimeError("for the hook")
    if way == "interrupt":
        raise KeyboardInterrupt
    if way == "none":
        sys.exit()
    if way == "zero":
        sys.exit(0)
    if way == "three":
        sys.exit(3)
    if way == "text":
        sys.exit("a text for standard error")
    if way == "object":
        raise SystemExit(("not", "a", "number"))
    if way == "_exit":
        sys.stdout.flush()
        os._exit(5)
    if way == "terminated":
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGTERM)


def before_step(step):
    if step == at:
        end()


atexit.register(print, "atexit ran")
print("before", flush=True)
if at == 0:
    end()
print("loss", train(30, before_step).hex())
if at > 30:
    end()
