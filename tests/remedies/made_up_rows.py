"""Op rows, reports and probes made up in round numbers: a step of 100 ms; and scripts run with a remedy applied."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from boundby.remedies.contract import Compared, Evidence
from boundby.results.interval import Interval, interval
from boundby.results.machine import Ceiling
from boundby.results.remedy import OptimizerFacts, ScriptFacts
from boundby.results.report import Floors, MedianTime, OpRow, OverheadParts, Report

STEP_S = 0.1


def row(op: str, shapes: str, share: float, *, bound: str = "memory", overhead: float = 0.0, **fields: object) -> OpRow:
    """A row that takes ``share`` of the step, of which ``overhead`` is dispatch's."""
    seconds = share * STEP_S
    floors = {"overhead_s": overhead * STEP_S, "memory_s": 0.0, "matmul_s": 0.0, "pointwise_s": 0.0}
    floors |= {f"{bound}_s": seconds if bound != "overhead" else overhead * STEP_S}
    known: dict[str, object] = {
        "calls": 1,
        "matmul_flops": 0,
        "pointwise_flops": 0,
        "bytes_read": 0,
        "bytes_written": 0,
        "faults": 0,
        "path": "train.py",
        "line": 1,
        "code": None,
        "module": None,
        "phase": "forward",
        "modelled": True,
    }
    return OpRow(
        op=f"aten.{op}.default",
        shapes=shapes,
        share=share,
        time_s=seconds,
        floors=Floors(**floors, bound=bound),
        **(known | fields),
    )


def report_of(report: Report, *rows: OpRow, host: float = 0.0, input_share: float = 0.0, threads: int = 2) -> Report:
    """``report`` with these rows, so much host code and so much waiting for input."""
    return replace(
        report,
        ops=rows,
        step=replace(
            report.step, time_s=MedianTime(median=STEP_S, low=STEP_S, high=STEP_S), threads=threads, kind="training"
        ),
        split=replace(report.split, input=interval(input_share)),
        # Host code as running a model from Python has it: a few times its ops' dispatch.
        overhead_parts=OverheadParts(dispatch=0.1 * host, host=host, allocation=0.0),
    )


def bare_row(
    op: str, shapes: str, share: float, *, phase: str = "forward", calls: int = 1, flops: int = 0, module: str = "net"
) -> OpRow:
    """A row of a MiB read and one written, without floors."""
    return OpRow(
        op=f"aten.{op}.default",
        calls=calls,
        time_s=share * STEP_S,
        share=share,
        floors=Floors(overhead_s=0.0, memory_s=0.0, matmul_s=0.0, pointwise_s=0.0, bound="memory"),
        matmul_flops=flops,
        pointwise_flops=0,
        bytes_read=1 << 20,
        bytes_written=1 << 20,
        faults=0,
        shapes=shapes,
        path="train.py",
        line=1,
        code="y = net(x)",
        module=module,
        phase=phase,
        modelled=True,
    )


def filled_report(sample: Report, rows: Sequence[OpRow], *, kind: str = "training") -> Report:
    """The sample with a step that these rows are, and host code the rest."""
    waiting = sample.split.input.value
    host = 1.0 - sum(one.share for one in rows) - waiting
    report = report_of(sample, *rows, host=host, input_share=waiting, threads=sample.step.threads)
    return replace(report, step=replace(report.step, kind=kind))


def evidence_of(report: Report, *, probe: Any = None, ceilings: Sequence[Ceiling] = (), **facts: Any) -> Evidence:
    machine = replace(report.machine, ceilings=(*report.machine.ceilings, *ceilings))
    report = replace(report, machine=machine)
    return Evidence(report=report, machine=machine, facts=ScriptFacts(**facts), probe=probe)


def optimizer(name: str, *shapes: tuple[int, ...], **options: Any) -> OptimizerFacts:
    return OptimizerFacts(
        name=name,
        fused=options.pop("fused", None),
        foreach=None,
        shapes=shapes,
        dtypes=("float32",) * len(shapes),
        sparse=0,
        options={"lr": 1e-3, **options},
    )


class FixedProbe:
    """Calls both once, so that they are seen to run, and answers with a ratio made up."""

    def __init__(self, ratio: float, *, spread: float = 0.0, base_s: float = 1e-2) -> None:
        self.ratio, self.spread, self.base_s = ratio, spread, base_s
        self.calls = 0

    def __call__(
        self, base: Callable[[], object], changed: Callable[[], object], *, budget_s: float | None = None
    ) -> Compared:
        base()
        changed()
        self.calls += 1
        ratio = Interval(value=self.ratio, low=self.ratio * (1 - self.spread), high=self.ratio * (1 + self.spread))
        return Compared(base_s=self.base_s, changed_s=self.base_s * self.ratio, ratio=ratio)


def applied(remedy: str, script: str) -> dict[str, Any]:
    """What the script left in ``found`` in a process with the remedy applied, with ``seen`` and ``refused``."""
    code = (
        "import json, torch\n"
        "from boundby.remedies.contract import Effects\n"
        f"from boundby.remedies import {remedy} as remedy\n"
        "effects, found = Effects(), {}\n"
        "torch.manual_seed(0); torch.set_num_threads(1)\n"
        "remedy.apply(effects)\n"
        f"{textwrap.dedent(script)}\n"
        "print(json.dumps(found | {'seen': effects.seen, 'refused': effects.refused}))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
