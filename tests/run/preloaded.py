"""Runs `boundby` in forked processes that find torch and boundby imported already, most of a short run's time.

Reads requests, one JSON object a line: ``arguments``, ``cwd``, and the files ``stdout`` and ``stderr``. Answers each
with a line that holds the exit status, negative for the signal that ended the process.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from boundby.remedies.registry import all_remedies

MODULES = (
    *("torch", "torch.optim", "torch.utils.data", "torch.profiler"),
    "torch._dynamo",  # which an optimizer's first step imports: as long again as torch itself
    *("boundby.cli.main", "boundby.cli.run", "boundby.api", "boundby.machine.anchors", "boundby.machine.doctor"),
    *("boundby.capture.script", "boundby.capture.session", "boundby.capture.recorder", "boundby.capture.join"),
    *("boundby.bound.explain", "boundby.remedies.ranking", "boundby.report.terminal", "boundby.report.report_file"),
)


def run(arguments: list[str], cwd: str, stdout: str, stderr: str) -> None:
    """Be `boundby arguments...`; ends the process as that ends it."""
    os.chdir(cwd)
    for path, descriptor in ((os.devnull, 0), (stdout, 1), (stderr, 2)):
        opened = os.open(path, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv[:] = ["boundby", *arguments]
    from boundby.cli.main import main

    main()


def serve() -> None:
    for name in MODULES:
        importlib.import_module(name)
    all_remedies()
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            run(**request)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
