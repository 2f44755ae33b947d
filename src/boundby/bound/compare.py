"""What changed between two reports: pure.

Times are compared with the doubt that two runs on one machine leave, counts exactly, and times of different machines
only where that is asked for.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator

from boundby.bound.ceilings import FASTEST_CHANGE
from boundby.bound.compare_lines import compare_groups, compare_lines
from boundby.bound.compare_trials import compare_trials
from boundby.results.comparison import (
    Against,
    CountChange,
    Noise,
    ReportComparison,
    ShareChange,
    Side,
    TimeChange,
)
from boundby.results.counts import Counts
from boundby.results.interval import Interval, interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding, MachineDescription
from boundby.results.report import SHARE_RESOLUTION, SHARES, MedianTime, Report
from boundby.results.run_command import script_and_arguments
from boundby.results.units import digits_for, format_percent, format_time
from boundby.timing.statistics import FEWEST_SAMPLES, Ratio, compare_medians, mean, median

# Two runs of one script on one machine differ by this much for no reason that either run shows: another layout of
# memory, other neighbours. benchmarks/comparison.py measures it.
BETWEEN_RUNS = 0.06
# By how much the probes have to move before it is worth telling.
PROBES_MOVED = 1.1
# From where on main memory's probes tell two states of a machine apart.
STATES_APART = 1.25
# A difference is unexplained where more than this share of it is.
MOSTLY = 2 / 3
# "No difference" says little where only ones above this would have been told, and nothing of shares that lie so far
# apart.
WIDE = 0.25
# Runs of which not even twice the time could be told apart are not worth comparing.
UNTOLD = 1.0
# What says of a run that it was disturbed: then time that no limit explains may be the disturbance's.
_DISTURBED = frozenset({"machine-busy", "machine-moved", "preempted", "steps-spread"})
_MOST_DISTURBED = 0.95
# Total memory as the system states it moves a little with its kernel.
SAME_MEMORY = 0.02

_TOTALS = (
    "ops",
    "launches",
    "matmul_flops",
    "pointwise_flops",
    "bytes_read",
    "bytes_written",
    "saved_bytes",
    "recomputed_flops",
)
# Which probe a share of the step moves with.
_PROBE_OF = {"overhead": "dispatch", "memory": "memory", "matmul": "matmul", "pointwise": "cache"}
# What of the exact counts a share's seconds stand for.
_WORK_OF: dict[str, Callable[[Counts], int]] = {
    "memory": lambda counts: counts.bytes_read + counts.bytes_written,
    "matmul": lambda counts: counts.matmul_flops,
    "pointwise": lambda counts: counts.pointwise_flops,
}
# The memory probe is short (bandwidth moved by 1.24 where it said 1.67): half of its change counts, in the logarithm.
_MEMORY_BELIEVED = 0.5


def compare_reports(
    a: Report, b: Report, *, name_a: str, name_b: str, across_machines: bool = False
) -> ReportComparison:
    """What changed from report ``a`` to report ``b``.

    Args:
        a: the report that is compared with.
        b: the report of which is said what changed.
        name_a: what the user calls ``a``.
        name_b: what the user calls ``b``.
        across_machines: compare times although they were not taken on one machine.
    """
    same = same_machine(a.machine.description, b.machine.description)
    comparable = same is True or across_machines
    time = _compare_times(a, b) if comparable else None
    counts = _compare_totals(a.counts, b.counts)
    counted = bool(a.counts.ops and b.counts.ops)
    side_a, side_b = _side(a, name_a), _side(b, name_b)
    return ReportComparison(
        a=side_a,
        b=side_b,
        sentence=_sentence(side_a, side_b, time, counts),
        same_machine=same is True,
        time=time,
        verdict_a=a.verdict.sentence,
        verdict_b=b.verdict.sentence,
        counts=counts,
        counts_equal=not changed_counts(counts) if counted else None,
        groups=compare_groups(a, b),
        split=_compare_splits(a, b, time) if comparable else (),
        lines=()
        if time is None
        else compare_lines(a, b, told_apart=None if time.noise is None else time.noise.told_apart),
        trials=compare_trials(a, b) if comparable else (),
        findings=tuple(_findings(a, b, side_a, side_b, same, time)),
    )


def same_machine(a: MachineDescription, b: MachineDescription) -> bool | None:
    """Whether two descriptions are of one machine, or of machines alike; None where that cannot be told.

    The software is no part of it: another torch on one machine is a comparison worth making.
    """
    if a.device != b.device or (a.device_name and b.device_name and a.device_name != b.device_name):
        return False
    if a.logical_cores and b.logical_cores and a.logical_cores != b.logical_cores:
        return False
    if a.memory_bytes and b.memory_bytes and abs(a.memory_bytes / b.memory_bytes - 1) > SAME_MEMORY:
        return False
    if a.cpu is None or b.cpu is None:
        return None
    return a.cpu == b.cpu


def _side(report: Report, name: str) -> Side:
    return Side(
        name=name,
        cpu=report.machine.description.cpu,
        threads=report.step.threads,
        modelled=report.modelled_for is not None,
    )


def _compare_times(a: Report, b: Report) -> TimeChange:
    time_a, time_b = a.step.time_s, b.step.time_s
    whole_a, whole_b = (interval(one.median, one.low, one.high) for one in (time_a, time_b))
    if min(time_a.low, time_b.low, time_a.median, time_b.median) <= 0:
        return TimeChange(a_s=whole_a, b_s=whole_b, ratio=None, differs=None, noise=None)
    bursty = any(one.code == "input-bursty" for report in (a, b) for one in report.findings)
    found: Ratio | None = None
    half: float | None
    if a.modelled_for is not None or b.modelled_for is not None:
        half = math.log((time_b.high / time_b.low) * (time_a.high / time_a.low)) / 2 + math.log1p(BETWEEN_RUNS)
    elif time_a.samples_s and time_b.samples_s:
        found = compare_medians(
            time_a.samples_s, time_b.samples_s, floor=BETWEEN_RUNS, middle=mean if bursty else median
        )
        half = None if found is None else math.log(found.high / found.value)
    else:
        half = _half_from_quartiles(time_a, a.step.steps_timed, time_b, b.step.steps_timed)
    if half is None:
        return TimeChange(a_s=whole_a, b_s=whole_b, ratio=None, differs=None, noise=None)
    value = time_b.median / time_a.median
    moved = _machine_ratio(a, b)
    # What the machine may have done is nothing that the code did: the interval holds both with and without it.
    by_machine = 1.0 if moved is None else moved
    half += math.log(_state_ratio(a, b))
    left_a, left_b = (1.0 - _disturbance(report) for report in (a, b))
    ratio = interval(
        value,
        value / math.exp(half) / max(1.0, by_machine) * left_b,
        value * math.exp(half) / min(1.0, by_machine) / left_a,
    )
    return TimeChange(
        a_s=whole_a,
        b_s=whole_b,
        ratio=ratio,
        differs=not ratio.low <= 1.0 <= ratio.high,
        noise=Noise(
            told_apart=math.expm1(half - math.log(min(left_a, left_b))),
            rounds_a=None if found is None else found.spread_a,
            rounds_b=None if found is None else found.spread_b,
            between_runs=BETWEEN_RUNS,
            machine_ratio=moved,
        ),
    )


def _disturbance(report: Report) -> float:
    """The share of a step that may be other processes' doing: what no limit explains, of a run that was disturbed.

    Neither the spread within such a run nor its probes show load that lasts through all of it.
    """
    if report.verdict.confidence != "unsure" or not any(one.code in _DISTURBED for one in report.findings):
        return 0.0
    return min(max(report.split.unexplained.value, 0.0), _MOST_DISTURBED)


def _half_from_quartiles(a: MedianTime, steps_a: int, b: MedianTime, steps_b: int) -> float | None:
    """Half the width of the log ratio's interval where only quartiles were kept; None with too few steps.

    How far the rounds spread is not known then; the steps' own spread (sigma is the interquartile range over 1.35)
    stands for it, which is wider.
    """
    if min(steps_a, steps_b) < FEWEST_SAMPLES:
        return None
    spread = [math.log(one.high / one.low) / 1.35 for one in (a, b)]
    return math.hypot(*spread, math.log1p(BETWEEN_RUNS))


def _machine_ratio(a: Report, b: Report) -> float | None:
    """How many times as long the step of ``b`` would take for the machine's speed alone, by the probes of both runs.

    Each probe's change counts as much as the share of the step that moves with it; waiting for input moves with none.
    A machine does not change its speed by more than 2.5: beyond that the probe was held up, not the step. Probes that
    ran at other thread counts say nothing of the machine: None.
    """
    if a.step.threads != b.step.threads:
        return None
    changes = {
        name: (_MEMORY_BELIEVED if name == "memory" else 1.0)
        * math.log(min(max(b.step.anchors_s[name].value / one.value, 1 / FASTEST_CHANGE), FASTEST_CHANGE))
        for name, one in a.step.anchors_s.items()
        if one.value > 0 and name in b.step.anchors_s and b.step.anchors_s[name].value > 0
    }
    if not changes:
        return None
    weights = {
        probe: (getattr(a.split, name).value + getattr(b.split, name).value) / 2
        for name, probe in _PROBE_OF.items()
        if probe in changes
    }
    moving = sum(weights.values())
    if moving <= 0:
        return 1.0
    # What is not explained moves as the rest does, for all one knows.
    still = (a.split.input.value + b.split.input.value) / 2
    return math.exp((1 - still) * sum(weight / moving * changes[probe] for probe, weight in weights.items()))


def _state_ratio(a: Report, b: Report) -> float:
    """How many times as long a step may take for the machine's state alone; 1 where that was the same, or is not known.

    Where a host puts two virtual cores together or apart, main memory changes its speed at once and threads wait for
    one another for longer or shorter, the one not by as much as the other: which way a step moves is not told.
    """
    if a.step.threads < 2 or a.step.threads != b.step.threads:
        return 1.0
    before, after = (report.step.anchors_s.get("memory") for report in (a, b))
    if before is None or after is None or min(before.value, after.value) <= 0:
        return 1.0
    moved = max(before.value / after.value, after.value / before.value)
    return min(moved, FASTEST_CHANGE) if moved >= STATES_APART else 1.0


def _compare_totals(a: Counts, b: Counts) -> tuple[CountChange, ...]:
    totals = (CountChange(name=name, a=_total(a, name), b=_total(b, name)) for name in _TOTALS)
    return (*totals, CountChange(name="unmodelled_ops", a=_unmodelled(a), b=_unmodelled(b)))


def _total(counts: Counts, name: str) -> int | None:
    # A step without any op was not seen, which is not the same as one that does nothing.
    value: int | None = getattr(counts, name) if counts.ops else None
    return value


def _unmodelled(counts: Counts) -> int | None:
    return sum(one.calls for one in counts.unmodelled) if counts.ops else None


def _compare_splits(a: Report, b: Report, time: TimeChange | None) -> tuple[ShareChange, ...]:
    told_apart = BETWEEN_RUNS if time is None or time.noise is None else time.noise.told_apart
    comparable = told_apart <= UNTOLD
    changes = []
    for name in SHARES:
        of_a, of_b = getattr(a.split, name), getattr(b.split, name)
        against = _against_work(name, a, b)
        # Where the counts say the opposite, the shift has to show in the seconds too, beyond all doubt of theirs.
        apart = _are_apart(of_a, of_b) and (against is None or _seconds_are_apart(name, a, b, told_apart))
        differs = apart and comparable
        changes.append(
            ShareChange(
                name=name,
                a=of_a,
                b=of_b,
                a_s=of_a.value * a.step.time_s.median,
                b_s=of_b.value * b.step.time_s.median,
                differs=differs,
                against=against if differs else None,
                unclear=not differs and (not comparable or abs(of_a.value - of_b.value) > WIDE),
            )
        )
    return tuple(changes)


def _are_apart(a: Interval, b: Interval) -> bool:
    """Whether two shares differ by more than their bands, what a share is told to, and what two runs differ by."""
    return max(a.low - b.high, b.low - a.high) > max(SHARE_RESOLUTION, BETWEEN_RUNS * min(a.value, b.value))


def _against_work(name: str, a: Report, b: Report) -> Against | None:
    """Whether a share's seconds went one way and the work that it stands for, which is counted exactly, the other."""
    of_work = _WORK_OF.get(name)
    if of_work is None or not a.counts.ops or not b.counts.ops:
        return None
    more = of_work(b.counts) - of_work(a.counts)
    longer = getattr(b.split, name).value * b.step.time_s.median - getattr(a.split, name).value * a.step.time_s.median
    if more * longer >= 0:
        return None
    return "less-and-longer" if longer > 0 else "more-and-shorter"


def _seconds_are_apart(name: str, a: Report, b: Report, told_apart: float) -> bool:
    """Whether a share's seconds differ by more than its bands and what the times of the two runs are told apart by."""
    bands = [getattr(one.split, name).scaled(one.step.time_s.median) for one in (a, b)]
    low, high = sorted(bands, key=lambda one: one.value)
    return bool(high.low > low.high * (1.0 + told_apart))


def _sentence(a: Side, b: Side, time: TimeChange | None, counts: tuple[CountChange, ...]) -> str:
    changed = _changed_sentence(a, b, time)
    return tr("{changed} {counts}", changed=changed, counts=_counts_told(counts))


def _changed_sentence(a: Side, b: Side, time: TimeChange | None) -> str:
    names = {"a": a.name, "b": b.name}
    if time is None:
        if a.cpu and b.cpu:
            return tr("{a} and {b} were made on different machines: their times are not compared.", **names)
        return tr("{a} and {b} were made perhaps on different machines: their times are not compared.", **names)
    step_a, step_b = (
        format_time(one.value, digits=digits_for(one.value, one.low, one.high)) for one in (time.a_s, time.b_s)
    )
    values = {**names, "a_time": step_a, "b_time": step_b}
    if time.ratio is None:
        return tr("Too few steps were timed to tell {a} ({a_time} a step) and {b} ({b_time}) apart.", **values)
    steps = (
        tr("{a_time} a step in {a}, {b_time} in {b} (modelled)", **values)
        if a.modelled or b.modelled
        else tr("{a_time} a step in {a}, {b_time} in {b}", **values)
    )
    if not time.differs:
        least = time.noise.told_apart if time.noise is not None else None
        if least is not None and least > UNTOLD:
            return tr("No comparison: the runs were too disturbed to compare. {steps}.", steps=steps)
        if least is not None and least > WIDE:
            return tr("No difference could be told below {least}: {steps}.", least=format_percent(least), steps=steps)
        return tr("No difference: {steps}.", steps=steps)
    slower = time.ratio.value > 1
    ratio = time.ratio if slower else inverse(time.ratio)
    values = {
        **names,
        "times": ratio_text(ratio.value),
        "low": ratio_text(ratio.low),
        "high": ratio_text(ratio.high),
        "steps": steps,
    }
    if slower:
        return tr("{b} is {times} slower than {a} ({low} to {high}): {steps}.", **values)
    return tr("{b} is {times} faster than {a} ({low} to {high}): {steps}.", **values)


def _counts_told(counts: tuple[CountChange, ...]) -> str:
    if all(one.a is None or one.b is None for one in counts):
        return tr("Their counts are unknown.")
    changed = changed_counts(counts)
    if not changed:
        return tr("Their counts are equal.")
    return tr("Their counts differ: {names}.", names=tr(", ").join(count_name(one.name) for one in changed))


def count_name(name: str) -> str:
    """A count as a person reads it: ``matmul FLOPs`` of ``matmul_flops``."""
    return {
        "ops": tr("ops"),
        "launches": tr("launches"),
        "matmul_flops": tr("matmul flops"),
        "pointwise_flops": tr("pointwise flops"),
        "bytes_read": tr("bytes read"),
        "bytes_written": tr("bytes written"),
        "saved_bytes": tr("saved bytes"),
        "recomputed_flops": tr("recomputed flops"),
        "unmodelled_ops": tr("unmodelled ops"),
    }.get(name, name.replace("_", " "))


def changed_counts(counts: tuple[CountChange, ...]) -> tuple[CountChange, ...]:
    """The totals that are known on both sides and not the same."""
    return tuple(one for one in counts if one.a is not None and one.b is not None and one.a != one.b)


def inverse(ratio: Interval) -> Interval:
    """The interval of one over a ratio; all of it positive."""
    return interval(1 / ratio.value, 1 / ratio.high, 1 / ratio.low)


def ratio_text(ratio: float) -> str:
    """A ratio with the digits that tell it from 1: ``1.04x``, ``12x``."""
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:,.0f}x"


def _findings(
    a: Report, b: Report, side_a: Side, side_b: Side, same: bool | None, time: TimeChange | None
) -> Iterator[Finding]:
    if same is not True:
        values = {"machine_a": _machine(side_a), "a": side_a.name, "machine_b": _machine(side_b), "b": side_b.name}
        yield Finding(
            code="machines-differ",
            message=tr("{machine_a} in {a}, {machine_b} in {b}: these cannot be told to be one machine", **values)
            if same is None
            else tr(
                "{machine_a} in {a}, {machine_b} in {b}: a difference in time is the machines' as well as the code's",
                **values,
            ),
            advice=tr("Counts are compared all the same. To compare times too: {option}.", option="--across-machines")
            if time is None
            else "",
        )
    for report, side in ((a, side_a), (b, side_b)):
        if report.modelled_for is not None:
            yield Finding(
                code="modelled-side",
                message=tr(
                    "the times of {name} are modelled for {machine}, not measured",
                    name=side.name,
                    machine=report.modelled_for.machine,
                ),
                advice=tr("Compare it with a report that was measured there to see how good the model is."),
            )
    settings = tuple(_settings(a, b))
    if settings:
        yield Finding(
            code="settings-differ",
            message=tr("the two runs were not set up alike: {settings}", settings=tr("; ").join(settings)),
            advice=tr("What differs in the code is best seen with everything else equal."),
        )
    for report, side in ((a, side_a), (b, side_b)):
        if time is not None and (share := _disturbance(report)):
            yield Finding(
                code="disturbed-side",
                message=tr(
                    "{share} of a step of {name} is explained by no measured limit, and that run was disturbed: the "
                    "interval allows for a step without it",
                    share=format_percent(share),
                    name=side.name,
                ),
                advice=tr("Run both again, one after the other, when nothing else is busy."),
            )
        elif time is not None and time.differs and (found := _DISTURBED & {one.code for one in report.findings}):
            yield Finding(
                code="disturbed-side",
                message=tr(
                    "other load was seen during the run of {name} ({codes}): what lasted through all of it is no part "
                    "of the interval",
                    name=side.name,
                    codes=", ".join(sorted(found)),
                ),
                advice=tr("Run both again, one after the other, when nothing else is busy."),
            )
    if time is not None and same is True and _is_unexplained(a, b, time):
        yield Finding(
            code="difference-unexplained",
            message=tr(
                "the counts are equal and most of the difference is time that no measured limit explains: other load "
                "during one of the runs looks the same"
            ),
            advice=tr("Run both again, in turns, before you believe it."),
        )
    if time is not None and time.noise is not None and time.noise.machine_ratio is not None:
        moved = time.noise.machine_ratio
        if not 1 / PROBES_MOVED <= moved <= PROBES_MOVED:
            values = {"times": ratio_text(max(moved, 1 / moved)), "name": side_b.name}
            yield Finding(
                code="probes-moved",
                message=tr(
                    "the machine itself was {times} slower during {name}, by the probes of both runs, and the "
                    "interval allows for it",
                    **values,
                )
                if moved > 1
                else tr(
                    "the machine itself was {times} faster during {name}, by the probes of both runs, and the "
                    "interval allows for it",
                    **values,
                ),
                advice=tr("Run both again, one after the other, when nothing else is busy."),
            )
        elif (state := _state_ratio(a, b)) > 1.0:
            yield Finding(
                code="probes-moved",
                message=tr(
                    "main memory's speed moved by {times} between the runs: the machine was in another state, in which "
                    "threads wait for one another for longer or shorter, and the interval allows for it",
                    times=ratio_text(state),
                ),
                advice=tr("Run both again, one after the other, when nothing else is busy."),
            )


def _is_unexplained(a: Report, b: Report, time: TimeChange) -> bool:
    """Whether equal work took longer, and most of the difference is explained by no limit, as other load's is."""
    counted = a.counts.ops and b.counts.ops
    if not time.differs or not counted or changed_counts(_compare_totals(a.counts, b.counts)):
        return False
    more = b.step.time_s.median - a.step.time_s.median
    unexplained = b.split.unexplained.value * b.step.time_s.median - a.split.unexplained.value * a.step.time_s.median
    return unexplained / more > MOSTLY


def _machine(side: Side) -> str:
    return side.cpu or tr("a processor that is not known")


def _settings(a: Report, b: Report) -> Iterator[str]:
    here, there = a.machine.description, b.machine.description
    if a.step.threads != b.step.threads:
        yield trn("{count} thread and {b}", "{count} threads and {b}", a.step.threads, b=str(b.step.threads))
    if here.usable_cores != there.usable_cores:
        yield trn(
            "{count} usable core and {b}", "{count} usable cores and {b}", here.usable_cores, b=str(there.usable_cores)
        )
    if a.step.device != b.step.device:
        yield tr("on {a} and on {b}", a=a.step.device, b=b.step.device)
    unknown = tr("unknown")
    if here.torch != there.torch:
        yield tr("torch {a} and {b}", a=here.torch or unknown, b=there.torch or unknown)
    if here.python != there.python:
        yield tr("Python {a} and {b}", a=here.python, b=there.python)
    ran_a, ran_b = script_and_arguments(a.tool.command), script_and_arguments(b.tool.command)
    if ran_a and ran_b and ran_a[0] == ran_b[0] and ran_a[1] != ran_b[1]:
        yield tr("arguments {a} and {b}", a=_quoted(ran_a[1]), b=_quoted(ran_b[1]))
    if (a.step.kind, a.step.name, a.step.events_per_step) != (b.step.kind, b.step.name, b.step.events_per_step):
        yield tr("the step is {a} and {b}", a=_step(a), b=_step(b))


def _quoted(words: tuple[str, ...]) -> str:
    return shlex.join(words) if words else tr("none")


def _step(report: Report) -> str:
    kinds = {"training": tr("a training step"), "inference": tr("an inference step"), "callable": tr("a call")}
    name = report.step.name if report.step.name not in ("", "step") else kinds[report.step.kind]
    if report.step.events_per_step == 1:
        return name
    return tr("{name} of {events} events", name=name, events=str(report.step.events_per_step))
