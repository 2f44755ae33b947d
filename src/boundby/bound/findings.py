"""Findings that no ceiling shows: what a script's steps do beside their work, with line, cost and what to do.

Costs are seconds of a step: measured in the step's own ops, counted, or from a probe. One that is not known is said to
be so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from boundby.bound.ceilings import Ceilings
from boundby.bound.finding_compile import compile_findings
from boundby.bound.finding_growth import growth_findings
from boundby.bound.finding_ops import op_findings
from boundby.bound.split import Division
from boundby.bound.step_view import StepView, whereabouts
from boundby.results.habits import Habits, ModeOn, Place, SetUp, Writes, WritingLine
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.own_code import is_own
from boundby.results.trace import OpSite, Trace
from boundby.results.units import format_count, format_size, format_time

# Ops that anomaly mode adds behind each node of the backward pass, to look for NaN.
_CHECKS = frozenset({"aten.isnan.default", "aten._is_any_true.default", "aten._local_scalar_dense.default"})
_PACKING = "aten._pack_padded_sequence.default"
# What costs less than this share of the step is not worth a finding.
LEAST = 0.01
# A line that writes is worth one from this share on.
LEAST_WRITING = 0.02
# Preparing kernels for new sizes, from this share of the step on.
LEAST_SET_UP = 0.03
# Tokens that are padding, of all, and what they cost of the step, from which on it is told.
LEAST_PADDED, LEAST_PADDING_COST = 0.1, 0.03


def habit_findings(trace: Trace, division: Division, ceilings: Ceilings) -> tuple[Finding, ...]:
    """All findings of a trace beside those on how it was measured, the costliest first.

    Args:
        trace: what was watched.
        division: the step's time as it was divided.
        ceilings: of the machine that the step ran on.
    """
    view = StepView.of(trace, division)
    found = (
        *_modes(trace.habits, view),
        *_writes(trace.habits, view),
        *op_findings(view, ceilings, trace.habits.parameter_dtypes),
        *_padding(trace.habits, view),
        *_set_ups(trace.habits, view),
        *growth_findings(trace),
        *compile_findings(trace, view, ceilings),
    )
    costliest_first = sorted(found, key=lambda one: -one.time_s.value if one.time_s is not None else 0.0)
    return tuple(replace(one, about="script") for one in costliest_first)


def _modes(habits: Habits, view: StepView) -> Iterator[Finding]:
    for on in habits.modes:
        finding = _mode(on, habits, view)
        if finding is not None:
            yield finding


def _mode(on: ModeOn, habits: Habits, view: StepView) -> Finding | None:
    where = whereabouts(on.place.path, on.place.line)
    path, line = on.place.path, on.place.line
    if on.mode == "anomaly":
        cost = _anomaly_cost(habits, view)
        return Finding(
            code="anomaly-mode",
            message=tr(
                "{where}autograd's anomaly detection is on: every op notes where it was called, and every gradient is "
                "searched for NaN; by a probe of the one and the time of the other {cost}",
                where=where,
                cost=view.told(cost),
            ),
            advice=tr("Switch it on to look for a fault, and off again: torch.autograd.set_detect_anomaly(False)."),
            time_s=cost,
            path=path,
            line=line,
        )
    if on.mode == "deterministic":
        cost = None if habits.filled_share is None else habits.filled_share.scaled(view.step_s)
        if cost is not None and not view.worth(cost, LEAST):
            return None
        return Finding(
            code="deterministic-fill",
            message=tr(
                "{where}deterministic mode fills fresh memory before it is written: {cost}",
                where=where,
                cost=view.told(cost),
            ),
            advice=tr(
                "Results are as reproducible without it, unless memory is read before it is written: "
                "torch.utils.deterministic.fill_uninitialized_memory = False."
            ),
            time_s=cost,
            path=path,
            line=line,
        )
    if on.mode in ("torch-profiler", "python-profiler"):
        of_torch = on.mode == "torch-profiler"
        return Finding(
            code="profiler-on",
            message=tr(
                "{where}{what} runs during the steps and notes every call; {cost}",
                where=where,
                what=tr("torch's profiler") if of_torch else tr("a profiler of Python (sys.setprofile)"),
                cost=view.told(None),
            ),
            advice=tr("Take it out, or profile a few steps by a schedule, before steps are timed or trained for long."),
            path=path,
            line=line,
        )
    return Finding(
        code="tracing-on",
        message=tr(
            "{where}{what}; {cost}",
            where=where,
            what=tr("torch.jit.trace records the steps' ops")
            if on.mode == "jit-tracing"
            else tr("a debugger or coverage tool follows every line of Python (sys.settrace)"),
            cost=view.told(None),
        ),
        advice=tr("Run without it where time matters."),
        path=path,
        line=line,
    )


def _anomaly_cost(habits: Habits, view: StepView) -> Interval | None:
    """The noting, by a probe, for each node of the step, and the ops of the search for NaN as they were timed.

    None where either is not known: the other is not the whole.
    """
    checks = view.seconds(view.where(lambda site: site.phase == "backward" and site.op in _CHECKS))
    if habits.nodes is None or checks is None or (habits.tracing_node_s is None and habits.nodes):
        return None
    noting = habits.tracing_node_s.scaled(habits.nodes) if habits.tracing_node_s is not None else interval(0.0)
    return Interval(value=noting.value + checks.value, low=noting.low + checks.low, high=noting.high + checks.high)


def _writes(habits: Habits, view: StepView) -> Iterator[Finding]:
    if habits.writes is None:
        return
    for one in habits.writes.lines:
        # Now and then is no habit of every step.
        if one.calls >= LEAST_CALLS and view.worth(one.time_s, LEAST_WRITING):
            yield _writing(one, habits.writes, view)


LEAST_CALLS = 0.5


def _writing(one: WritingLine, writes: Writes, view: StepView) -> Finding:
    return Finding(
        code="writes-every-step",
        message=tr(
            "{where}prints, logs or saves {calls} times a step: {cost}{process}",
            where=whereabouts(one.place.path, one.place.line),
            calls=format_count(one.calls),
            cost=view.told(one.time_s),
            process=_writes_of_process(writes),
        ),
        advice=tr("Do it every so many steps, or gather values and write them together."),
        path=one.place.path,
        line=one.place.line,
        time_s=one.time_s,
    )


def _writes_of_process(writes: Writes) -> str:
    """What the system counted, which is of the process and not of a line; nothing where it does not tell."""
    if writes.bytes is None or writes.calls is None:
        return ""
    return tr(
        "; the whole process writes {size} in {writes} system calls a step",
        size=_banded(format_size, writes.bytes, writes.bytes_range),
        writes=_banded(format_count, writes.calls, writes.calls_range),
    )


def _banded(written: Callable[[float], str], value: float, band: Interval | None) -> str:
    """A count with its band, where that shows a width."""
    text = written(value)
    if band is None or written(band.low) == written(band.high):
        return text
    return tr("{value} ({low} to {high})", value=text, low=written(band.low), high=written(band.high))


def _set_ups(habits: Habits, view: StepView) -> Iterator[Finding]:
    """Kernels prepared for sizes that were not met before, as far as each step brings such sizes."""
    for one in habits.set_ups:
        calls = sum(_is_at(view.at(int(at)), one) for at in range(len(view.site)))
        most = one.time_s.scaled(calls) if calls else None
        if most is None or not view.worth(most, LEAST_SET_UP):
            continue
        cost = Interval(value=most.value, low=0.0, high=most.high)
        yield Finding(
            code="shape-set-up",
            message=tr(
                "{where}the sizes that {op} works on change from step to step, and it is prepared for each that it has "
                "not met: by a probe {each} each; where all sizes of a step are new, {cost}",
                where=whereabouts(one.place.path, one.place.line),
                op=one.op,
                each=format_time(one.time_s.value, digits=2),
                cost=view.told(cost),
            ),
            advice=tr("Pad or group items to a few sizes, which are then met again."),
            path=one.place.path,
            line=one.place.line,
            time_s=cost,
        )


def _is_at(site: OpSite, one: SetUp) -> bool:
    return site.path == one.place.path and site.line == one.place.line and f".{one.op}." in site.op


def _padding(habits: Habits, view: StepView) -> Iterator[Finding]:
    """Padded tokens' part of the work; what tells of most tokens is believed, as masks and indices tell of the same."""
    known = [one for one in habits.padding if one.tokens]
    # Packed sequences leave the padding out again.
    if not known or len(view.where(lambda site: site.op == _PACKING)):
        return
    told = max(known, key=lambda one: (one.told_by == "padding_idx", one.tokens))
    share = told.padded / told.tokens
    if share < LEAST_PADDED:
        return
    work = view.work_seconds(view.where(lambda site: site.phase in ("forward", "backward")))
    cost = None if work is None else Interval(value=share * work.value, low=0.0, high=share * work.high)
    if cost is not None and not view.worth(cost, LEAST_PADDING_COST):
        return
    place = told.place if is_own(told.place.path) else Place()
    yield Finding(
        code="padding",
        message=tr(
            "{where}{share} of the tokens are padding, told by {by} ({padded} of {tokens} that were looked at); as far "
            "as all forward and backward work is done for each token, that is {cost}",
            where=whereabouts(place.path, place.line),
            share=f"{share:.0%}",
            by=told.told_by if told.told_by == "padding_idx" else tr("attention mask"),
            padded=f"{told.padded:,}",
            tokens=f"{told.tokens:,}",
            cost=view.told(cost),
        ),
        advice=tr("Batch items of like length, pad to the longest of each batch, or pack several items into a row."),
        path=place.path,
        line=place.line,
        time_s=cost,
    )
