"""Op rows and reports for predictions, in round numbers: a step of 100 ms on two threads."""

from __future__ import annotations

import dataclasses

from boundby.results.interval import interval
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
    return dataclasses.replace(
        report,
        ops=rows,
        step=dataclasses.replace(
            report.step, time_s=MedianTime(median=STEP_S, low=STEP_S, high=STEP_S), threads=threads, kind="training"
        ),
        split=dataclasses.replace(report.split, input=interval(input_share)),
        overhead_parts=OverheadParts(dispatch=0.0, host=host, allocation=0.0),
    )
