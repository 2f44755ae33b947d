"""What binds, in one sentence, with its evidence."""

from __future__ import annotations

from typing import Literal

from boundby.bound.ceilings import Ceilings, speed_moved
from boundby.bound.split import Division
from boundby.results.counts import Counts
from boundby.results.interval import Interval
from boundby.results.report import Bound, ModelledFor, Split, Verdict
from boundby.results.trace import Trace
from boundby.results.units import digits_for, format_percent, format_rate, format_size, format_time

# A share that binds: over half of the step, or over two fifths and clearly ahead of the next.
CLEAR, AHEAD, AHEAD_BY = 0.5, 0.4, 1.5
# Beyond this, what is not explained decides more than what is.
TOO_MUCH_UNEXPLAINED = 0.5
# A machine whose speed moved by more than this during the run was disturbed.
DISTURBED = 1.5
# Beyond this factor between watched and bare steps there is no verdict.
FARTHEST_OFF = 2.0
# Under this share, what would remain of the step is within the doubt of its measurement.
NOTHING_LEFT = 0.05

_WHAT: dict[Bound, str] = {
    "overhead": "per-op overhead",
    "memory": "memory bandwidth",
    "compute": "compute",
    "input": "its input",
}


def shares(split: Split) -> dict[Bound, Interval]:
    """The split by bound: compute is matmul and pointwise work together."""
    matmul, pointwise = split.matmul, split.pointwise
    compute = Interval(
        value=matmul.value + pointwise.value,
        low=matmul.low + pointwise.low,
        high=max(min(1.0, matmul.high + pointwise.high), matmul.value + pointwise.value),
    )
    return {"overhead": split.overhead, "memory": split.memory, "compute": compute, "input": split.input}


def judge(
    trace: Trace, division: Division, counts: Counts, ceilings: Ceilings, *, model: ModelledFor | None = None
) -> Verdict:
    """The verdict on a divided step.

    Args:
        trace: what was watched.
        division: its step's time, divided.
        counts: its totals.
        ceilings: those that it was divided by.
        model: which machine the division is a model for; None where it was measured. A modelled verdict is never sure.
    """
    by_bound = shares(division.split)
    ranked = sorted(by_bound, key=lambda name: -by_bound[name].value)
    first, second = ranked[0], ranked[1]
    top, next_ = by_bound[first].value, by_bound[second].value
    bound: Bound
    if division.split.unexplained.value > TOO_MUCH_UNEXPLAINED or _does_not_add_up(division):
        bound = "unknown"
    elif top >= CLEAR or (top >= AHEAD and top >= AHEAD_BY * next_):
        bound = first
    else:
        bound = "mixed"
    confidence = _confidence(by_bound, first, bound, division)
    if model is not None and confidence == "sure":
        confidence = "likely"
    return Verdict(
        bound=bound,
        sentence=_sentence(trace, division, counts, bound, ranked, confidence, _is_disturbed(trace), model),
        evidence=(*_of_here(model), *_evidence(trace, division, counts, ceilings, modelled=model is not None)),
        confidence=confidence,
    )


def _does_not_add_up(division: Division) -> bool:
    """Whether watched and bare steps are so unlike that a split of the one says nothing of the other."""
    return division.reconciliation is not None and not 1 / FARTHEST_OFF <= division.reconciliation.value <= FARTHEST_OFF


def _is_disturbed(trace: Trace) -> bool:
    return speed_moved(trace.anchors) > DISTURBED or any(one.code == "preempted" for one in trace.findings)


def _confidence(
    by_bound: dict[Bound, Interval], first: Bound, bound: Bound, division: Division
) -> Literal["sure", "likely", "unsure"]:
    if bound in ("mixed", "unknown") or division.reconciliation is None:
        return "unsure"
    others = [one.high for name, one in by_bound.items() if name != first]
    reconciled = 0.9 <= division.reconciliation.value <= 1.1
    if not reconciled:
        return "unsure"
    return "sure" if by_bound[first].low > max(others) else "likely"


def _sentence(
    trace: Trace,
    division: Division,
    counts: Counts,
    bound: Bound,
    ranked: list[Bound],
    confidence: Literal["sure", "likely", "unsure"],
    disturbed: bool,
    model: ModelledFor | None,
) -> str:
    what = {"training": "training step", "inference": "inference step", "callable": "step"}[trace.kind]
    step = division.time_s
    time = format_time(step.median, digits=digits_for(step.median, step.low, step.high))
    this, takes = f"This {what}", "takes"
    if model is not None:
        this, takes = f"On {model.machine} (modelled from its machine file): this {what}", "would take"
        low, high = format_time(step.low, digits=2), format_time(step.high, digits=2)
        time = f"about {time}" + (f" ({low} to {high})" if low != high else "")
    split = division.split
    by_bound = shares(split)
    if bound == "unknown":
        if trace.device != "cpu":
            return (
                f"{this} {takes} {time} on {trace.device}; what binds it is unknown: "
                "no ceilings of that device are measured yet."
            )
        if division.times is None:
            return f"{this} {takes} {time}; what binds it is unknown: its ops could not be timed."
        if _does_not_add_up(division) and division.reconciliation is not None:
            return (
                f"{this} {takes} {time}, and what binds it is unknown: watched step by step it came to "
                f"{format_percent(division.reconciliation.value)} of that"
                + (", as other load disturbed the run." if disturbed else ".")
            )
        return (
            f"{this} {takes} {time}, and what binds it is unknown: "
            f"{format_percent(split.unexplained.value)} of it is explained by no limit measured "
            f"{'here' if model is None else 'there'}" + (", and other load disturbed the run." if disturbed else ".")
        )
    if bound == "mixed":
        a, b = ranked[0], ranked[1]
        return (
            f"{this} ({time}) {'is' if model is None else 'would be'} bound by no one thing: "
            f"{_WHAT[a]} takes {format_percent(by_bound[a].value)}, "
            f"{_WHAT[b]} {format_percent(by_bound[b].value)}"
            f" and {format_percent(split.unexplained.value)} is unexplained."
        )
    share = format_percent(by_bound[bound].value)
    reason = _reason(bound, trace, division, counts, "this" if model is None else "that")
    if model is not None:
        verb = "would be bound by" if confidence == "likely" else "may be bound by"
        return f"{this} would take {time} and {verb} {_WHAT[bound]}: {share} of it {reason}."
    verb = {"sure": "is bound by", "likely": "is most likely bound by", "unsure": "may be bound by"}[confidence]
    return f"{this} {verb} {_WHAT[bound]}: {share} of its {time} {reason}."


def _reason(bound: Bound, trace: Trace, division: Division, counts: Counts, which: Literal["this", "that"]) -> str:
    split, parts = division.split, division.parts
    left = division.time_s.median * (1 - shares(split)[bound].value)
    rest = f"without it the step would take about {format_time(left, digits=2)}"
    if left < NOTHING_LEFT * division.time_s.median:
        rest = "hardly anything else is left"
    if bound == "overhead":
        largest = max(
            (parts.dispatch, f"goes to dispatching {counts.ops} ops"),
            (parts.host, "is host code between ops"),
            (parts.allocation, "goes to page faults on freshly allocated memory"),
        )[1]
        return f"is overhead, most of which {largest}; {rest}"
    if bound == "memory":
        return f"goes to moving {format_size(counts.bytes_read + counts.bytes_written)} through memory; {rest}"
    if bound == "input":
        return f"is spent waiting for the next batch; {rest}"
    kind = "matrix products" if split.matmul.value >= split.pointwise.value else "functions computed element by element"
    return f"is arithmetic at {which} machine's measured ceilings, mostly {kind}; {rest}"


def _of_here(model: ModelledFor | None) -> tuple[str, ...]:
    """What was measured where the steps ran, beside what is modelled for elsewhere."""
    if model is None:
        return ()
    step = model.measured_time_s
    time = format_time(step.median, digits=digits_for(step.median, step.low, step.high))
    bound = f"bound by {_WHAT[model.measured_bound]}" if model.measured_bound in _WHAT else "bound by no one thing"
    if model.measured_bound == "unknown":
        bound = "bound by what is not known"
    here = model.measured_on.cpu or "this machine"
    return (f"measured where it ran, on {here}, the step takes {time} and is {bound}",)


def _evidence(
    trace: Trace, division: Division, counts: Counts, ceilings: Ceilings, *, modelled: bool
) -> tuple[str, ...]:
    time = division.time_s.median
    lines = []
    if counts.ops:
        lines.append(f"{counts.ops} ops a step, {counts.launches} of which do work")
    dtypes = {site.cost.dtype: 0 for site in trace.sites if site.cost.matmul_flops}
    for dtype in dtypes:
        peak = ceilings.peak(dtype)
        if peak is None:
            lines.append(f"no matmul ceiling is known for {dtype} on {'that' if modelled else 'this'} machine")
        elif len(dtypes) == 1 and counts.matmul_flops:
            rate = counts.matmul_flops / time
            lines.append(
                f"{format_rate(rate, 'FLOP/s')} of matrix products, {format_percent(rate / peak.value)} of the "
                f"{format_rate(peak.value, 'FLOP/s')} measured {'there' if modelled else 'here'} for {dtype}"
            )
    if division.faults is not None and division.faults.time_s and division.faults.time_s > 0.01 * time:
        cost = format_time(division.faults.time_s, digits=2)
        lines.append(f"{division.faults.per_step:.0f} page faults a step cost about {cost}")
    return tuple(lines)
