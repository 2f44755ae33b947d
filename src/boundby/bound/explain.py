"""From a trace and a machine to a report: pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from boundby._version import __version__
from boundby.bound.ceilings import Ceilings, measure_speed, speed_moved
from boundby.bound.elsewhere import Elsewhere, check_ceilings, rescale
from boundby.bound.findings import habit_findings
from boundby.bound.rows import line_rows, op_rows, partly_modelled, total_counts
from boundby.bound.split import Division, divide
from boundby.bound.timeline import timeline
from boundby.bound.verdict import judge
from boundby.results.errors import BoundbyError
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.machine import Finding, Machine
from boundby.results.op_names import op_name
from boundby.results.report import MOST_SAMPLES, MedianTime, ModelledFor, Report, StepResult, Tool
from boundby.results.trace import Trace
from boundby.results.units import format_number
from boundby.timing.statistics import median, quantile

MOVED = 1.25
OFF = 0.05
# Shorter steps show what is done between them: 120 us became 165, 410 became 455, of 3.4 ms no more than 6%.
SHORT_STEP_S = 1e-3
# Of native code, compiled code and what was not asked of this step: told by `boundby machine` alone.
_OF_THE_MACHINE_ALONE = frozenset(
    {"native-failed", "no-compiler", "compile-failed", "compile-cut-short", "slow-arguments", "memory-over-bound"}
)
# Not by words between blanks: languages without them write a dtype's name right beside their own letters.
_DTYPE = re.compile(r"(?:fp|bf|u?int|complex)[0-9]+")
# A model that left more than this share of the step as it was says so.
KEPT = 0.01


def explain_trace(
    trace: Trace,
    machine: Machine,
    *,
    command: tuple[str, ...] = (),
    elsewhere: Machine | None = None,
    elsewhere_name: str = "",
) -> Report:
    """The report of a trace on a machine.

    Args:
        trace: what was watched.
        machine: the ceilings of the machine it was watched on; only those of the trace's thread count are used.
        command: the command line, for the record.
        elsewhere: another machine; the report is then a model of what would bind the step there.
        elsewhere_name: what to call that machine's file; empty where it has no name.

    Raises:
        BoundbyError: ``no-ceilings-there`` or ``not-modelled``, where the step cannot be modelled for ``elsewhere``.
    """
    speed = measure_speed(machine, trace.anchors)
    ceilings = Ceilings(machine, speed, threads=trace.threads)
    division = divide(trace, ceilings, _fault(ceilings))
    findings = (
        *habit_findings(trace, division, ceilings),
        *trace.findings,
        *_of_the_machine(trace, machine),
        *_findings(trace, division, ceilings),
    )
    here = _report(trace, machine, division, ceilings, command, findings)
    if elsewhere is None:
        return here
    elsewhere_name = elsewhere_name or tr("the machine file")
    check_ceilings(elsewhere, name=elsewhere_name, threads=trace.threads)
    # The other machine is taken to be as disturbed as this one was: of one and the same machine that says the same.
    ceilings_there = Ceilings(elsewhere, speed, threads=trace.threads)
    faults = {"fault_here_s": _fault(ceilings), "fault_there_s": _fault(ceilings_there)}
    moved = rescale(trace, division, divide(trace, ceilings_there, faults["fault_there_s"]), **faults)
    if moved is None:
        raise BoundbyError(
            "not-modelled",
            tr("The step cannot be modelled for another machine: its ops ran on {device}.", device=trace.device)
            if trace.device != "cpu"
            else tr("The step cannot be modelled for another machine: its ops could not be timed."),
            tr("Run without --machine for what is known of it here."),
        )
    divided = divide(moved.trace, ceilings_there, faults["fault_there_s"])
    median_s = divided.time_s.median
    divided = replace(
        divided,
        time_s=MedianTime(median=median_s, low=min(moved.time_s.low, median_s), high=max(moved.time_s.high, median_s)),
    )
    model = ModelledFor(
        machine=elsewhere.description.cpu or tr("the machine of {file}", file=elsewhere_name),
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
        partly_modelled=partly_modelled(trace, division),
        modelled_for=model,
        # Of another device the windows tell when ops were called, and not when they ran.
        timeline=timeline(trace) if division.times is not None else (),
    )


def _fault(ceilings: Ceilings) -> float | None:
    fault = ceilings.overhead("page_fault")
    return fault.value if fault is not None else None


def _of_the_file(trace: Trace, elsewhere: Machine, name: str) -> Iterator[Finding]:
    """What was found while the other machine was measured, told apart from what was found here."""
    for one in _of_the_machine(trace, elsewhere):
        yield replace(one, message=tr("{name}: {message}", name=name, message=one.message))


def _of_the_model(model: ModelledFor, moved: Elsewhere) -> Iterator[Finding]:
    """What is not measured in the report, and what the model had to leave as it was."""
    here = model.measured_on.cpu or tr("this machine")
    yield Finding(
        code="modelled-elsewhere",
        message=tr(
            "all times, shares and floors are modelled for {machine} from its machine file; the steps ran on {here}, "
            "whose figures are rescaled op by op. Waiting for input is kept as it was here, and host code between ops "
            "is rescaled as the overhead of ops is",
            machine=model.machine,
            here=here,
        ),
        advice=tr("A run there is what settles it: {command}.", command="boundby run SCRIPT"),
    )
    if moved.kept > KEPT:
        names = ", ".join(op_name(name) for name in moved.kept_ops[:3])
        if len(moved.kept_ops) > 3:
            names = tr("{names} and others", names=names)
        yield Finding(
            code="kept-as-here",
            message=tr(
                "{share} of the step has no ceiling in the other machine's file and is left as it was here: {names}",
                share=f"{moved.kept:.0%}",
                names=names,
            ),
            advice=tr("Measure the other machine with a boundby as new as this one."),
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
        if one.code not in _OF_THE_MACHINE_ALONE and (not one.code.startswith("dtype-") or _dtype_of(one) in used)
    )


def _dtype_of(finding: Finding) -> str | None:
    """The dtype that a finding of code ``dtype-...`` is on: the first that its message names, in any language."""
    named = _DTYPE.search(finding.message)
    return None if named is None else named[0]


def _findings(trace: Trace, division: Division, ceilings: Ceilings) -> tuple[Finding, ...]:
    found = []
    moved = speed_moved(trace.anchors)
    if moved > MOVED:
        found.append(
            Finding(
                code="machine-moved",
                message=tr(
                    "the machine's speed moved by {ratio} during the run", ratio=f"{format_number(moved, digits=2)}x"
                ),
                advice=tr(
                    "Other load or a busy host does this; ceilings are scaled to the speed at the time. Where every "
                    "core has a thread, one busy process holds up all: fewer threads (OMP_NUM_THREADS) are then "
                    "steadier."
                ),
            )
        )
    time = division.time_s
    if len(trace.step_s) >= 4 and time.high > MOVED * time.low:
        found.append(
            Finding(
                code="steps-spread",
                message=tr(
                    "step times spread widely: the middle half lies {ratio} apart",
                    ratio=f"{time.high / time.low:.2f}x",
                ),
                advice=tr("Look for other load, or for work that only some steps do; --steps N times more of them."),
            )
        )
    if division.reconciliation is not None and abs(division.reconciliation.value - 1) > OFF:
        found.append(
            Finding(
                code="reconciliation-off",
                message=tr(
                    "op windows and gaps add up to {share} of the bare step",
                    share=f"{division.reconciliation.value:.0%}",
                ),
                advice=tr(
                    "Read the shares with that much doubt, or run again on a quieter machine, with more --steps."
                ),
            )
        )
    if division.time_s.median < SHORT_STEP_S:
        found.append(
            Finding(
                code="short-steps",
                message=tr(
                    "steps this short come out some tens of microseconds longer than they take with nothing between "
                    "them: what boundby reads after each one leaves the caches cold"
                ),
                advice=tr("Go by the shares; for the time itself, time a loop of many steps."),
            )
        )
    if division.bursty:
        found.append(
            Finding(
                code="input-bursty",
                message=tr(
                    "some steps wait long for input and others not at all; the step's time counts the mean wait"
                ),
                advice=tr("A loader's workers deliver in bursts where they are slower than the steps; more may help."),
            )
        )
    if not ceilings.threads_measured:
        found.append(
            Finding(
                code="ceilings-missing",
                message=tr(
                    "no ceilings are known for {threads} threads, which the script used", threads=str(trace.threads)
                ),
                advice=tr("Measure them: {command}", command=f"boundby machine --threads {trace.threads}"),
            )
        )
    if trace.device != "cpu":
        found.append(
            Finding(
                code="device-not-modelled",
                message=tr("ops ran on {device}, whose ceilings this version does not measure", device=trace.device),
                advice=tr("The step's time and counts hold; its split is unknown."),
            )
        )
    return tuple(found)
