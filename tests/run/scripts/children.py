"""Starts children by fork, spawn and subprocess, each of which trains, before, amid and after its own steps."""

import multiprocessing
import os
import subprocess
import sys

from training import train

print("module level of", __name__)


def child(label, queue):
    print(
        "child",
        label,
        __name__,
        "boundby" in sys.modules if label.startswith("spawn") else "",
        train(30).hex(),
        flush=True,
    )
    queue.put(label)


def start(method, label):
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(label, queue))
    process.start()
    process.join()
    print("joined", queue.get(), process.exitcode, flush=True)


def before_step(step):
    if step in (2, 5, 9):
        start("fork", f"fork in step {step}")


if __name__ == "__main__":
    start("fork", "fork before")
    print("loss", train(30, before_step).hex(), flush=True)
    start("spawn", "spawn after")
    text = "import sys; from training import train; print('own program', 'boundby' in sys.modules, train(30).hex())"
    subprocess.run([sys.executable, "-c", text], check=True, cwd=os.path.dirname(os.path.abspath(__file__)))
