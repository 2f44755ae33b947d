"""The process that ceilings are measured in: ``python -m boundby.machine.worker``, started by ``ensure``.

Its own process, because measuring takes hundreds of megabytes, warms caches and thread pools, and must not touch the
random numbers, threads or memory of the process that asks.

It writes one JSON object a line to the file descriptor it is given: ``{"share": 0.4, "what": "measuring"}`` while it
works, at the end ``{"machine": {...}}``, or ``{"error": {...}}`` where a device that is not here was asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import IO

import msgspec

from boundby.machine.describe import process_affinity
from boundby.results.errors import BoundbyError
from boundby.results.language import LANGUAGES, choose_language
from boundby.results.machine import Machine
from boundby.results.machine_file import encode_machine
from boundby.timing.clock import monotonic_ns

# What ending the process takes, torch's own included.
_ENDING_S = 0.5
# So that a tight budget still leaves room for one honest round.
_LEAST_BUDGET_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and reports; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m boundby.machine.worker")
    parser.add_argument("--output", type=int, required=True, help="file descriptor to report to")
    parser.add_argument("--budget", type=float, required=True, help="seconds for everything, start included")
    parser.add_argument("--started", type=int, required=True, help="when the process was started, monotonic ns")
    parser.add_argument("--mode", choices=("quick", "default", "full"), default="default")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of the findings")
    options = parser.parse_args(arguments)
    choose_language(options.language)

    with os.fdopen(options.output, "wb", buffering=0) as output:

        def tell(share: float, what: str) -> None:
            output.write(msgspec.json.encode({"share": share, "what": what}) + b"\n")

        tell(0.0, "starting torch")
        # Once torch runs with OMP_PROC_BIND, this thread may run on one CPU only.
        affinity = process_affinity()
        if options.device != "cpu":
            return _report_accelerator(output, options.device, options.budget - _ENDING_S, tell)
        from boundby.machine.measure import measure_machine

        spent_s = (monotonic_ns() - options.started) * 1e-9
        machine = measure_machine(
            threads=options.threads,
            affinity=affinity,
            mode=options.mode,
            budget_s=max(spent_s + _LEAST_BUDGET_S, options.budget - _ENDING_S),
            started_ns=options.started,
            progress=tell,
        )
        _report(output, machine)
    return 0


def _report_accelerator(output: IO[bytes], device: str, budget_s: float, tell: Callable[[float, str], None]) -> int:
    from boundby.machine.accelerator import measure_accelerator

    try:
        _report(output, measure_accelerator(device, budget_s=budget_s, progress=tell))
    except BoundbyError as error:
        told = {"message": error.message, "advice": error.advice, "status": str(error.status)}
        output.write(msgspec.json.encode({"error": told}) + b"\n")
        return 1
    return 0


def _report(output: IO[bytes], machine: Machine) -> None:
    document = encode_machine(machine)
    output.write(msgspec.json.encode({"machine": msgspec.Raw(document)}).replace(b"\n", b" ") + b"\n")


if __name__ == "__main__":
    sys.exit(main())
