"""From a trace and a machine to a report: pure."""

from __future__ import annotations

from boundby._version import __version__
from boundby.bound.ceilings import Ceilings, measure_speed, speed_moved
from boundby.bound.rows import line_rows, op_rows, total_counts
from boundby.bound.split import Division, divide
from boundby.bound.verdict import judge
from boundby.results.machine import Finding, Machine
from boundby.results.report import Report, StepResult, Tool
from boundby.results.trace import Trace

MOVED = 1.25
OFF = 0.05


def explain_trace(trace: Trace, machine: Machine, *, command: tuple[str, ...] = ()) -> Report:
    """The report of a trace on a machine.

    Args:
        trace: what was watched.
        machine: the ceilings; only those of the trace's thread count are used.
        command: the command line, for the record.
    """
    speed = measure_speed(machine, trace.anchors)
    ceilings = Ceilings(machine, speed, threads=trace.threads)
    fault = ceilings.overhead("page_fault")
    division = divide(trace, ceilings, fault.value if fault is not None else None)
    counts = total_counts(trace, division)
    return Report(
        tool=Tool(name="boundby", version=__version__, command=command),
        machine=machine,
        reconciliation=division.reconciliation,
        step=StepResult(
            kind=trace.kind,
            time_s=division.time_s,
            steps_timed=len(trace.step_s),
            steps_watched=sum(one.steps for one in trace.classes),
            warmup_steps=trace.warmup_steps,
            events_per_step=trace.events_per_step,
            name=trace.step_name,
            threads=trace.threads,
            device=trace.device,
            classes=trace.classes,
        ),
        counts=counts,
        split=division.split,
        overhead_parts=division.parts,
        verdict=judge(trace, division, counts, ceilings),
        page_faults=division.faults,
        lines=line_rows(trace, division),
        ops=op_rows(trace, division),
        findings=(*trace.findings, *_of_the_machine(trace, machine), *_findings(trace, division, ceilings)),
    )


def _of_the_machine(trace: Trace, machine: Machine) -> tuple[Finding, ...]:
    """What was found while measuring the machine, without dtypes that the step does not use."""
    used = {site.cost.dtype for site in trace.sites}
    return tuple(one for one in machine.findings if not one.code.startswith("dtype-") or one.message.split()[0] in used)


def _findings(trace: Trace, division: Division, ceilings: Ceilings) -> tuple[Finding, ...]:
    found = []
    moved = speed_moved(trace.anchors)
    if moved > MOVED:
        found.append(
            Finding(
                code="machine-moved",
                message=f"the machine's speed moved by {moved:.2g}x during the run",
                advice="Other load or a busy host does this; ceilings are scaled to the speed at the time. Where every "
                "core has a thread, one busy process holds up all: fewer threads (OMP_NUM_THREADS) are then steadier.",
            )
        )
    time = division.time_s
    if len(trace.step_s) >= 4 and time.high > MOVED * time.low:
        found.append(
            Finding(
                code="steps-spread",
                message=f"step times spread widely: the middle half lies {time.high / time.low:.2f}x apart",
                advice="Look for other load, or for work that only some steps do; --steps N times more of them.",
            )
        )
    if division.reconciliation is not None and abs(division.reconciliation.value - 1) > OFF:
        found.append(
            Finding(
                code="reconciliation-off",
                message=f"op windows and gaps add up to {division.reconciliation.value:.0%} of the bare step",
                advice="Read the shares with that much doubt, or run again on a quieter machine, with more --steps.",
            )
        )
    if division.bursty:
        found.append(
            Finding(
                code="input-bursty",
                message="some steps wait long for input and others not at all; the step's time counts the mean wait",
                advice="A loader's workers deliver in bursts where they are slower than the steps; more may help.",
            )
        )
    if not ceilings.threads_measured:
        found.append(
            Finding(
                code="ceilings-missing",
                message=f"no ceilings are known for {trace.threads} threads, which the script used",
                advice=f"Measure them: boundby machine --threads {trace.threads}",
            )
        )
    if trace.device != "cpu":
        found.append(
            Finding(
                code="device-not-modelled",
                message=f"ops ran on {trace.device}, whose ceilings this version does not measure",
                advice="The step's time and counts hold; its split is unknown.",
            )
        )
    return tuple(found)
