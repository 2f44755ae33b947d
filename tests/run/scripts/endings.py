"""Ends in the way the first argument names, at the step the second one names (0: before the first step)."""

import atexit
import os
import signal
import sys

from training import train

way, at = sys.argv[1], int(sys.argv[2])


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
