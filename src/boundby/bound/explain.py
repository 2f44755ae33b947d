"""From a trace and a machine to a report: pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from boundby._version import __version__
from boundby.bound.ceilings import Ceilings, measure_speed, speed_moved
from boundby.bound.elsewhere import Elsewhere, check_ceilings, rescale
from boundby.bound.rows import line_rows, op_rows, total_counts
from boundby.bound.split import Division, divide
from boundby.bound.verdict import judge
from boundby.results.errors import BoundbyError
from boundby.results.interval import Interval, interval
from boundby.results.machine import Finding, Machine
from boundby.results.report import MOST_SAMPLES, MedianTime, ModelledFor, Report, StepResult, Tool
from boundby.results.trace import Trace
from boundby.timing.statistics import median, quantile

MOVED = 1.25
OFF = 0.05
# Of native code, compiled code and what was not asked of this step: told by `boundby machine` alone.
_OF_THE_MACHINE_ALONE = frozenset(
    {"native-failed", "no-compiler", "compile-failed", "compile-cut-short", "slow-arguments", "memory-over-bound"}
)
# A model that left more than this share of the step as it was says so.
KEPT = 0.01


def explain_trace(
    trace: Trace,
    machine: Machine,
    *,
    command: tuple[str, ...] = (),
    elsewhere: Machine | None = None,
    elsewhere_name: str = "the machine file",
) -> Report:
    """The report of a trace on a machine.

    Args:
        trace: what was watched.
        machine: the ceilings of the machine it was watched on; only those of the trace's thread count are used.
        command: the command line, for the record.
        elsewhere: another machine; the report is then a model of what would bind the step there.
        elsewhere_name: what to call that machine's file in an error.

    Raises:
        BoundbyError: ``no-ceilings-there`` or ``not-modelled``, where the step cannot be modelled for ``elsewhere``.
    """
    speed = measure_speed(machine, trace.anchors)
    ceilings = Ceilings(machine, speed, threads=trace.threads)
    division = divide(trace, ceilings, _fault(ceilings))
    findings = (*trace.findings, *_of_the_machine(trace, machine), *_findings(trace, division, ceilings))
    here = _report(trace, machine, division, ceilings, command, findings)
    if elsewhere is None:
        return here
    check_ceilings(elsewhere, name=elsewhere_name, threads=trace.threads)
    # The other machine is taken to be as disturbed as this one was: of one and the same machine that says the same.
    ceilings_there = Ceilings(elsewhere, speed, threads=trace.threads)
    faults = {"fault_here_s": _fault(ceilings), "fault_there_s": _fault(ceilings_there)}
    moved = rescale(trace, division, divide(trace, ceilings_there, faults["fault_there_s"]), **faults)
    if moved is None:
        raise BoundbyError(
            "not-modelled",
            "The step cannot be modelled for another machine: "
            + (f"its ops ran on {trace.device}." if trace.device != "cpu" else "its ops could not be timed."),
            "Run without --machine for what is known of it here.",
        )
    divided = divide(moved.trace, ceilings_there, faults["fault_there_s"])
    median_s = divided.time_s.median
    divided = replace(
        divided,
        time_s=MedianTime(median=median_s, low=min(moved.time_s.low, median_s), high=max(moved.time_s.high, median_s)),
    )
    model = ModelledFor(
        machine=elsewhere.description.cpu or f"the machine of {elsewhere_name}",
        measured_on=machine.description,
        measured_time_s=here.step.time_s,
        measured_bound=here.verdict.bound,
    )
    there = replace(
        elsewhere, ceilings=tuple(replace(one, source="modelled") for one in elsewhere.without_samples().ceilings)
    )
    return _report(
        moved.trace,
        there,
        divided,
        ceilings_there,
        command,
        (*_of_the_model(model, moved), *_of_the_file(trace, elsewhere, elsewhere_name), *findings),
        model=model,
    )


def _report(
    trace: Trace,
    machine: Machine,
    division: Division,
    ceilings: Ceilings,
    command: tuple[str, ...],
    findings: tuple[Finding, ...],
    *,
    model: ModelledFor | None = None,
) -> Report:
    counts = total_counts(trace, division)
    # No sample was taken of a modelled step, nor was that machine's speed.
    measured = model is None
    return Report(
        tool=Tool(name="boundby", version=__version__, command=command),
        machine=machine.without_samples(),
        reconciliation=division.reconciliation,
        step=StepResult(
            kind=trace.kind,
            time_s=replace(division.time_s, samples_s=_thinned(trace.step_s) if measured else ()),
            anchors_s=_anchors(trace) if measured else {},
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
        verdict=judge(trace, division, counts, ceilings, model=model),
        page_faults=division.faults,
        lines=line_rows(trace, division),
        ops=op_rows(trace, division),
        findings=findings,
        modelled_for=model,
    )


def _fault(ceilings: Ceilings) -> float | None:
    fault = ceilings.overhead("page_fault")
    return fault.value if fault is not None else None


def _of_the_file(trace: Trace, elsewhere: Machine, name: str) -> Iterator[Finding]:
    """What was found while the other machine was measured, told apart from what was found here."""
    for one in _of_the_machine(trace, elsewhere):
        yield replace(one, message=f"{name}: {one.message}")


def _of_the_model(model: ModelledFor, moved: Elsewhere) -> Iterator[Finding]:
    """What is not measured in the report, and what the model had to leave as it was."""
    here = model.measured_on.cpu or "this machine"
    yield Finding(
        code="modelled-elsewhere",
        message=f"all times, shares and floors are modelled for {model.machine} from its machine file; the steps ran "
        f"on {here}, whose figures are rescaled op by op. Waiting for input is kept as it was here, and host code "
        "between ops is rescaled as the overhead of ops is",
        advice="A run there is what settles it: boundby run SCRIPT.",
    )
    if moved.kept > KEPT:
        names = ", ".join(moved.kept_ops[:3]) + (" and others" if len(moved.kept_ops) > 3 else "")
        yield Finding(
            code="kept-as-here",
            message=f"{moved.kept:.0%} of the step has no ceiling in the other machine's file and is left as it was "
            f"here: {names}",
            advice="Measure the other machine with a boundby as new as this one.",
        )


def _thinned(samples: Sequence[float]) -> tuple[float, ...]:
    """The samples in their order, of more than ``MOST_SAMPLES`` every so many."""
    stride = -(-len(samples) // MOST_SAMPLES) or 1
    return tuple(samples[::stride])


def _anchors(trace: Trace) -> dict[str, Interval]:
    """Seconds each probe of the machine's speed took around the steps: the median reading and the middle half."""
    taken: dict[str, list[float]] = {}
    for reading in trace.anchors:
        for name, seconds in reading.seconds.items():
            if seconds > 0:
                taken.setdefault(name, []).append(seconds)
    return {
        name: interval(median(seconds), quantile(seconds, 0.25), quantile(seconds, 0.75))
        for name, seconds in taken.items()
    }


def _of_the_machine(trace: Trace, machine: Machine) -> tuple[Finding, ...]:
    """What was found while measuring the machine, without what is no matter to this step.

    That is dtypes it does not use, and what the page of the machine tells beside the ceilings that verdicts rest on.
    """
    used = {site.cost.dtype for site in trace.sites}
    return tuple(
        one
        for one in machine.findings
        if one.code not in _OF_THE_MACHINE_ALONE
        and (not one.code.startswith("dtype-") or one.message.split()[0] in used)
    )


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
