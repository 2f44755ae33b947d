"""What binds, in one sentence, with its evidence."""

from __future__ import annotations

from typing import Literal

from boundby.bound.ceilings import Ceilings, speed_moved
from boundby.bound.split import Division
from boundby.results.counts import Counts
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.report import FITTING, Bound, ModelledFor, Split, Verdict, adds_up, has_shares
from boundby.results.trace import Trace
from boundby.results.units import digits_for, format_percent, format_rate, format_size, format_time

# A share that binds: over half of the step, or over two fifths and clearly ahead of the next.
CLEAR, AHEAD, AHEAD_BY = 0.5, 0.4, 1.5
# Beyond this, what is not explained decides more than what is.
TOO_MUCH_UNEXPLAINED = 0.5
# Of fewer timed steps than this the spread is unknown, and no verdict is more than a guess.
FEWEST_STEPS = 2
# A machine whose speed moved by more than this during the run was disturbed.
DISTURBED = 1.5
# Under this share, what would remain of the step is within the doubt of its measurement.
NOTHING_LEFT = 0.05
# Host code for so many times the ops' dispatch is more than running a model from Python takes: metrics, locks, sleep.
FAR_BEYOND_OPS = 10.0


def shares(split: Split) -> dict[Bound, Interval]:
    """The split by bound: compute is matmul and pointwise work together."""
    matmul, pointwise = split.matmul, split.pointwise
    compute = Interval(
        value=matmul.value + pointwise.value,
        low=matmul.low + pointwise.low,
        high=max(min(1.0, matmul.high + pointwise.high), matmul.value + pointwise.value),
    )
    return {"overhead": split.overhead, "memory": split.memory, "compute": compute, "input": split.input}


def _what(bound: Bound) -> str:
    """What binds, as the object of "bound by"."""
    return {
        "overhead": tr("per-op overhead"),
        "memory": tr("memory bandwidth"),
        "compute": tr("compute"),
        "input": tr("its input"),
    }[bound]


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
    if len(trace.step_s) < FEWEST_STEPS:
        confidence = "unsure"
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
    return not adds_up(division.reconciliation)


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
    split, step = division.split, division.time_s
    by_bound = shares(split)
    this = _this_step(trace, model)
    time = format_time(step.median, digits=digits_for(step.median, step.low, step.high))
    if model is not None:
        low, high = format_time(step.low, digits=2), format_time(step.high, digits=2)
        time = (
            tr("about {time} ({low} to {high})", time=time, low=low, high=high)
            if low != high
            else tr("about {time}", time=time)
        )
    if bound == "unknown":
        return _unknown(trace, division, this, time, disturbed=disturbed, here=model is None)
    if bound == "mixed":
        a, b = ranked[0], ranked[1]
        values = {
            "this": this,
            "time": time,
            "a": _what(a),
            "a_share": format_percent(by_bound[a].value),
            "b": _what(b),
            "b_share": format_percent(by_bound[b].value),
            "unexplained": format_percent(split.unexplained.value),
        }
        if model is not None:
            return tr(
                "{this} ({time}) would be bound by no one thing: {a} takes {a_share}, {b} {b_share} and {unexplained} "
                "is unexplained.",
                **values,
            )
        return tr(
            "{this} ({time}) is bound by no one thing: {a} takes {a_share}, {b} {b_share} and {unexplained} is "
            "unexplained.",
            **values,
        )
    share = format_percent(by_bound[bound].value)
    reason = _reason(trace, bound, division, counts, here=model is None)
    what = _what(bound)
    if model is not None:
        claim = (
            tr("{this} would take {time} and would be bound by {what}", this=this, time=time, what=what)
            if confidence == "likely"
            else tr("{this} would take {time} and may be bound by {what}", this=this, time=time, what=what)
        )
        return tr("{claim}: {share} of it {reason}.", claim=claim, share=share, reason=reason)
    claim = {
        "sure": tr("{this} is bound by {what}", this=this, what=what),
        "likely": tr("{this} is most likely bound by {what}", this=this, what=what),
        "unsure": tr("{this} may be bound by {what}", this=this, what=what),
    }[confidence]
    return tr("{claim}: {share} of its {time} {reason}.", claim=claim, share=share, time=time, reason=reason)


def _this_step(trace: Trace, model: ModelledFor | None) -> str:
    if model is None:
        return {
            "training": tr("This training step"),
            "inference": tr("This inference step"),
            "callable": tr("This step"),
        }[trace.kind]
    return {
        "training": tr("On {machine} (modelled from its machine file): this training step", machine=model.machine),
        "inference": tr("On {machine} (modelled from its machine file): this inference step", machine=model.machine),
        "callable": tr("On {machine} (modelled from its machine file): this step", machine=model.machine),
    }[trace.kind]


def _unknown(trace: Trace, division: Division, this: str, time: str, *, disturbed: bool, here: bool) -> str:
    """The sentence where nothing can be said to bind: the time, and why not."""
    takes = (
        tr("{this} takes {time}", this=this, time=time)
        if here
        else tr("{this} would take {time}", this=this, time=time)
    )
    if trace.device != "cpu":
        return tr(
            "{takes} on {device}; what binds it is unknown: no ceilings of that device are measured yet.",
            takes=takes,
            device=trace.device,
        )
    if division.times is None:
        return tr("{takes}; what binds it is unknown: its ops could not be timed.", takes=takes)
    if _does_not_add_up(division) and division.reconciliation is not None:
        came_to = format_percent(division.reconciliation.value)
        if disturbed:
            return tr(
                "{takes}, and what binds it is unknown: watched step by step it came to {share} of that, as other load "
                "disturbed the run.",
                takes=takes,
                share=came_to,
            )
        return tr(
            "{takes}, and what binds it is unknown: watched step by step it came to {share} of that.",
            takes=takes,
            share=came_to,
        )
    share = format_percent(division.split.unexplained.value)
    told = (
        tr(
            "{takes}, and what binds it is unknown: {share} of it is explained by no limit measured here",
            takes=takes,
            share=share,
        )
        if here
        else tr(
            "{takes}, and what binds it is unknown: {share} of it is explained by no limit measured there",
            takes=takes,
            share=share,
        )
    )
    return tr("{told}, and other load disturbed the run.", told=told) if disturbed else tr("{told}.", told=told)


def _reason(trace: Trace, bound: Bound, division: Division, counts: Counts, *, here: bool) -> str:
    split, parts = division.split, division.parts
    left = division.time_s.median * (1 - shares(split)[bound].value)
    rest = tr("without it the step would take about {time}", time=format_time(left, digits=2))
    if left < NOTHING_LEFT * division.time_s.median:
        rest = tr("hardly anything else is left")
    if bound == "overhead":
        largest = max(("dispatch", "host", "allocation"), key=lambda name: getattr(parts, name))
        return {
            "dispatch": tr(
                "is overhead, most of which goes to dispatching {ops} ops; {rest}", ops=str(counts.ops), rest=rest
            ),
            "host": tr(
                "is overhead, most of which is other code between ops, or waiting, far more than starting the ops "
                "takes; {rest}",
                rest=rest,
            )
            if parts.host > FAR_BEYOND_OPS * parts.dispatch
            else tr("is overhead, most of which is host code between ops; {rest}", rest=rest),
            "allocation": tr(
                "is overhead, most of which goes to page faults on freshly allocated memory; {rest}", rest=rest
            ),
        }[largest]
    if bound == "memory":
        moved = format_size(counts.bytes_read + counts.bytes_written)
        return tr("goes to moving {size} through memory; {rest}", size=moved, rest=rest)
    if bound == "input":
        if trace.host_input_s > split.input.value * division.time_s.median / 2:
            return tr(
                "passes between steps with no op running: the script makes its next batch there, or waits for "
                "something; {rest}",
                rest=rest,
            )
        return tr("is spent waiting for the next batch; {rest}", rest=rest)
    kind = (
        tr("matrix products")
        if split.matmul.value >= split.pointwise.value
        else tr("functions computed element by element")
    )
    if here:
        return tr("is arithmetic at this machine's measured ceilings, mostly {kind}; {rest}", kind=kind, rest=rest)
    return tr("is arithmetic at that machine's measured ceilings, mostly {kind}; {rest}", kind=kind, rest=rest)


def _of_here(model: ModelledFor | None) -> tuple[str, ...]:
    """What was measured where the steps ran, beside what is modelled for elsewhere."""
    if model is None:
        return ()
    step = model.measured_time_s
    time = format_time(step.median, digits=digits_for(step.median, step.low, step.high))
    if model.measured_bound == "unknown":
        bound = tr("bound by what is not known")
    elif model.measured_bound == "mixed":
        bound = tr("bound by no one thing")
    else:
        bound = tr("bound by {what}", what=_what(model.measured_bound))
    here = model.measured_on.cpu or tr("this machine")
    return (
        tr("measured where it ran, on {here}, the step takes {time} and is {bound}", here=here, time=time, bound=bound),
    )


def _evidence(
    trace: Trace, division: Division, counts: Counts, ceilings: Ceilings, *, modelled: bool
) -> tuple[str, ...]:
    time = division.time_s.median
    lines = []
    if counts.ops:
        lines.append(
            tr("{ops} ops a step, {launches} of which do work", ops=str(counts.ops), launches=str(counts.launches))
        )
    dtypes = {site.cost.dtype: 0 for site in trace.sites if site.cost.matmul_flops}
    for dtype in dtypes:
        peak = ceilings.peak(dtype)
        if peak is None:
            lines.append(
                tr("no matmul ceiling is known for {dtype} on that machine", dtype=dtype)
                if modelled
                else tr("no matmul ceiling is known for {dtype} on this machine", dtype=dtype)
            )
        elif len(dtypes) == 1 and counts.matmul_flops:
            speed = ceilings.speed.matmul.value
            lines.append(_rate_of_products(counts.matmul_flops / time, peak, dtype, speed=speed, modelled=modelled))
    if division.faults is not None and division.faults.time_s and division.faults.time_s > 0.01 * time:
        told = {
            "faults": f"{division.faults.per_step:,.0f}",
            "time": format_time(division.faults.time_s, digits=2),
        }
        known = division.times is not None and has_shares(division.reconciliation)
        if known and division.faults.time_s > FITTING * division.parts.allocation * time:
            lines.append(tr("{faults} page faults a step cost at most {time}", **told))
        else:
            lines.append(tr("{faults} page faults a step cost about {time}", **told))
    return tuple(lines)


def _rate_of_products(rate: float, peak: Interval, dtype: str | None, *, speed: float, modelled: bool) -> str:
    values = {
        "rate": format_rate(rate, "FLOP/s"),
        "share": format_percent(rate / peak.value),
        "peak": format_rate(peak.value, "FLOP/s"),
        "dtype": dtype,
    }
    if rate > peak.high:
        if modelled:
            return tr("{rate} of matrix products, more than the {peak} measured there for {dtype}", **values)
        return tr(
            "{rate} of matrix products, more than the {peak} that {dtype} is to reach here at the run's speed: the "
            "machine was slower when that was measured, or in another state",
            **values,
        )
    if modelled:
        return tr("{rate} of matrix products, {share} of the {peak} measured there for {dtype}", **values)
    if rate > peak.value:
        return tr(
            "{rate} of matrix products, {share} of the {peak} that {dtype} reaches here at the run's speed: within its "
            "band",
            **values,
        )
    measured = format_rate(peak.value / speed, "FLOP/s")
    if measured != values["peak"]:
        return tr(
            "{rate} of matrix products, {share} of the {peak} that {dtype} reaches here at the run's speed ({measured} "
            "when measured)",
            measured=measured,
            **values,
        )
    return tr("{rate} of matrix products, {share} of the {peak} measured here for {dtype}", **values)
