"""Forks children that train and then leave as scripts do, after so many steps that all there is to watch was seen."""

import atexit
import os
import signal
import sys
import threading
import time

from training import train


def late():
    time.sleep(0.1)
    print("child's thread", flush=True)


def child(way):
    atexit.register(print, "child's exit handler of", way)
    print("child", way, train(20).hex())
    threading.Thread(target=late).start()
    if way == "three":
        sys.exit(3)
    if way == "text":
        sys.exit("a reason")
    if way == "raise":
        raise ValueError("in the child")
    if way == "signal":
        os.kill(os.getpid(), signal.SIGTERM)


def fork(way):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        child(way)
        sys.exit()
    print(way, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def before_step(step):
    if step == 8:
        fork("amid")


print("loss", train(30, before_step).hex())
for how in ("three", "text", "raise", "signal", "end"):
    fork(how)
