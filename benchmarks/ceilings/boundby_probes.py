"""What boundby's own probes give, one ceiling at a time.

    python boundby_probes.py THREADS MEMORY_FILE

Reads one JSON list a line, ``[stack, kind, name, dtype, size or shape or null, milliseconds]``, visits the probes that
this ceiling rests on in turns for that long, as a measuring does, and answers with the ceiling's value in its unit, or
null. Findings go to standard error.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from boundby.machine.bandwidth import bandwidth_probes
from boundby.machine.data import DataSource
from boundby.machine.functions import function_probes
from boundby.machine.matmul import matmul_probes
from boundby.machine.native import native_probes
from boundby.machine.overhead import overhead_probes
from boundby.machine.probe import ProbeSet, Reading, join
from boundby.machine.rounds import read_ceilings, take_rounds
from boundby.timing.clock import monotonic_ns

SWEEP_BYTES = 256 << 20
WARM_UP_NS = 20_000_000


def key_of(reading: Reading) -> tuple[object, ...]:
    what = reading.shape if reading.shape is not None else reading.size_bytes
    return reading.stack, reading.kind, reading.name, reading.dtype, what


class SharedData(DataSource):
    """A source whose large vector lies in the memory that all sides of the comparison use."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._shared = torch.from_file(path, shared=True, size=os.path.getsize(path) // 4)
        # As a source's own memory is: there already. Tries of forms would spend their time on page faults.
        self._shared.sum()

    def large(self, elements: int, *, dtype: str = "fp32") -> torch.Tensor:
        if dtype != "fp32":
            return super().large(elements, dtype=dtype)
        if elements > self._shared.numel():
            sys.exit(f"the shared memory holds {self._shared.numel():,} numbers, not {elements:,}")
        return self._shared[:elements]


def prepared(threads: int, path: str) -> ProbeSet:
    data = SharedData(path)
    native, findings = native_probes(data, threads=threads, memory_bytes=SWEEP_BYTES)
    for finding in findings:
        print(f"[{finding.code}] {finding.message}", file=sys.stderr, flush=True)
    return join(
        (
            native,
            bandwidth_probes(data, memory_bytes=SWEEP_BYTES),
            matmul_probes(data, dtypes=("fp32", "bf16", "fp64"), memory_bytes=SWEEP_BYTES),
            function_probes(data, threads=threads),
            overhead_probes(data),
        )
    )


def main() -> None:
    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    with torch.no_grad():
        everything = prepared(threads, sys.argv[2])
        probes = {probe.key: probe for probe in everything.probes}
        readings = {key_of(reading): reading for reading in everything.readings}
        print("ready", flush=True)
        for line in sys.stdin:
            stack, kind, name, dtype, what, milliseconds = json.loads(line)
            reading = readings.get((stack, kind, name, dtype, tuple(what) if isinstance(what, list) else what))
            value = None
            if reading is not None:
                # A process that stood still is slow at first; the other sides go on past that within their time.
                keys = (*reading.keys, *reading.other_ways)
                call, warm_ns = probes[reading.keys[0]].call, monotonic_ns() + WARM_UP_NS
                while monotonic_ns() < warm_ns:
                    call()
                deadline_ns = monotonic_ns() + int(1e6 * milliseconds)
                rounds = take_rounds([probes[key] for key in keys], deadline_ns=deadline_ns, max_rounds=1000)
                found = read_ceilings([reading], rounds, threads=threads)
                value = found[0].value if found else None
            print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
