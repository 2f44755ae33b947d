"""Words that a report's texts share: names of shares and phases, places, floors, bands, and how far to trust it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from boundby.report.safe_text import elide_middle, short_path
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.own_code import PACKAGE_FOLDERS
from boundby.results.report import FITTING, Floors, LineRow, OpRow, Report, has_shares
from boundby.results.units import (
    format_count,
    format_percent,
    format_percent_range,
    format_ratio,
    format_time,
    format_time_band,
)

# Windows and ceilings are both measured: an op this little under its floor is at it.
AT_FLOOR = 0.95
# Reconciliation further than this from the whole step is worth a warning in words.
_RECONCILED_WITHIN = 0.05
_MOST_KINDS = 4
# Lines that leave less than the rest of a step need no word about it.
_NEARLY_ALL, _SOME = 0.9, 0.005
_ENDED = ("script-failed", "trials-interrupted")
_ENDS = (".", "!", "?")
_LONGEST_NAME = 60
_LONGEST_PATH = 60
_LAST_PARTS = 2


def share_name(name: str) -> str:
    """A share of the split, or a bound of an op, as a person reads it."""
    return {
        "overhead": tr("overhead"),
        "memory": tr("memory"),
        "matmul": tr("matmul"),
        "pointwise": tr("pointwise"),
        "input": tr("input"),
        "unexplained": tr("unexplained"),
        "none": tr("no floor"),
    }.get(name, name)


def share_meaning(name: str) -> str:
    """What the time of a share, or of a part of the overhead, goes into."""
    return {
        "overhead": tr("starting ops and running Python"),
        "dispatch": tr("the fixed cost of ops"),
        "host": tr("Python and autograd between ops"),
        "allocation": tr("page faults in fresh memory"),
        "memory": tr("moving bytes to and from memory"),
        "matmul": tr("multiplying matrices"),
        "pointwise": tr("exp, tanh, add... on each element"),
        "input": tr("waiting for the next data"),
        "unexplained": tr("more than the measured limits explain"),
    }[name]


def faults_text(report: Report, *, unicode: bool = True, total: bool = False) -> str:
    """How many page faults a step has and what one costs, as the allocation share has room for them.

    Args:
        report: whose faults.
        unicode: whether ``µs`` may be written.
        total: whether the time of the share itself is told as well.
    """
    faults, share = report.page_faults, report.overhead_parts.allocation
    if faults is None:
        return share_meaning("allocation")
    if faults.per_step == 0:
        return tr("page faults in some steps only") if share > 0 else tr("no page fault in the timed steps")
    number = format_count(faults.per_step)
    told = (
        tr("{number} page fault", number=number) if faults.per_step == 1 else tr("{number} page faults", number=number)
    )
    if faults.seconds_each is None:
        return tr("{faults}; cost unknown", faults=told)
    spent_s, expected_s = share * report.step.time_s.median, faults.per_step * faults.seconds_each
    each = format_time(faults.seconds_each, digits=2, unicode=unicode)
    if expected_s > FITTING * spent_s:
        return tr("{faults}, at most {each} each", faults=told, each=each)
    if FITTING * expected_s >= spent_s:
        told = tr("{faults}, {each} each", faults=told, each=each)
    if not total:
        return told
    return tr("{faults}: {time} a step", faults=told, time=format_time(spent_s, digits=2, unicode=unicode))


def phase_name(name: str) -> str:
    """A phase of a step, or the time between ops, as a person reads it."""
    return {
        "forward": tr("forward"),
        "backward": tr("backward"),
        "optimizer": tr("optimizer"),
        "other": tr("other"),
        "gap": tr("no op"),
    }.get(name, name)


def short_name(name: str) -> str:
    """A name of an op or module, cut in its middle where it is too long to be read."""
    return elide_middle(name, _LONGEST_NAME, unicode=True)


def place_of(path: str | None, line: int | None, folder: str | None) -> str:
    """A place in the source, short enough for a table: ``train.py:58``, ``torch/nn/functional.py:2013``.

    Args:
        path: as recorded; None where no line of the script made the op.
        line: its number, None where it is not known.
        folder: paths below it are shown relative to it, others by their last parts.
    """
    if path is None:
        return tr("outside any line of the script")
    shown = short_path(path, folder)
    if os.path.isabs(shown):
        shown = _last_parts(shown)
    return _with_line(elide_middle(shown, _LONGEST_PATH, unicode=True), line)


def whole_place_of(path: str | None, line: int | None, folder: str | None) -> str:
    """A place in the source with its whole path, where ``place_of`` has cut it."""
    if path is None:
        return tr("outside any line of the script")
    return _with_line(short_path(path, folder), line)


def _last_parts(path: str) -> str:
    """What tells a file from others: where it is in its package, or the last folders above it."""
    parts = path.replace("\\", "/").split("/")
    for mark in PACKAGE_FOLDERS:
        if mark in parts[:-1]:
            return "/".join(parts[len(parts) - parts[::-1].index(mark) :])
    return path if len(parts) <= _LAST_PARTS + 1 else "/".join(("…", *parts[-_LAST_PARTS:]))


def _with_line(path: str, line: int | None) -> str:
    return path if line is None else f"{path}:{line}"


def percent_band(share: Interval) -> str:
    """The band of a share: ``58-66%``; empty where it shows no width."""
    band = format_percent_range(share.low, share.high)
    return "" if band == format_percent(share.value) else band


def step_seconds(row: LineRow | OpRow, report: Report) -> float:
    """What ops take of the unwatched step, in seconds: their share of it, times its length.

    ``time_s`` is what they took in watched steps; it stands where no share of the unwatched step is known.
    """
    if report.step.steps_timed and row.share > 0 and has_shares(report.reconciliation):
        return row.share * report.step.time_s.median
    return row.time_s


def share_text(share: float, report: Report) -> str:
    """A share of the unwatched step; unknown where the watched ones were too unlike it."""
    return format_percent(share) if has_shares(report.reconciliation) else tr("unknown")


def watched_times_text(report: Report) -> str:
    """That the times of lines and ops are those of watched steps, where they can be of no others; empty else."""
    if has_shares(report.reconciliation):
        return ""
    return tr(
        "Times are those of the watched steps, which took far longer than the unwatched step; what share of it each is "
        "cannot be told."
    )


def beyond_lines_text(report: Report, shown: Sequence[LineRow]) -> str:
    """Where the rest of a step is, beside the lines that are shown; empty where that is little or not known."""
    told, everything = sum(line.share for line in shown), sum(line.share for line in report.lines)
    if told > _NEARLY_ALL or watched_times_text(report):
        return ""
    parts = []
    if everything - told >= _SOME:
        parts.append(tr("{others} is in other lines", others=format_percent(everything - told)))
    if 1.0 - everything >= _SOME:
        parts.append(
            tr(
                "{rest} is outside of ops: Python between them, waiting for input, and what no op explains",
                rest=format_percent(1.0 - everything),
            )
        )
    if not parts:
        return ""
    rest = tr(", ").join(parts)
    return sentence(tr("These lines are {told} of the step; {outside}", told=format_percent(told), outside=rest))


def no_split_text(report: Report) -> str:
    """Why the step's time cannot be divided; empty where it can."""
    if report.step.steps_watched == 0:
        return tr("unknown: no step was watched")
    if report.reconciliation is None or has_shares(report.reconciliation):
        return ""
    return tr(
        "not drawn: watched step by step, it came to {share} of what the step takes unwatched, so that no share of it "
        "can be told",
        share=format_percent(report.reconciliation.value),
    )


def floors_by_name(floors: Floors) -> dict[str, float]:
    """The floors that are known, in seconds, the largest first."""
    seconds = {
        "overhead": floors.overhead_s,
        "memory": floors.memory_s,
        "matmul": floors.matmul_s,
        "pointwise": floors.pointwise_s,
    }
    return {name: seconds[name] for name in sorted(seconds, key=lambda name: -seconds[name]) if seconds[name] > 0}


def floor_text(floors: Floors, time_s: float, *, unicode: bool = True) -> str:
    """How an op's or a line's time stands to the largest of its floors: ``1.4x its memory floor of 12 µs``.

    The largest, and not that of the bound: time that goes to page faults, or that nothing explains, has no floor.

    Args:
        floors: of the op or the line.
        time_s: what it took, in seconds.
        unicode: whether ``µs`` may be written.
    """
    known = floors_by_name(floors)
    if not known:
        return tr("no floor known")
    name, floor_s = next(iter(known.items()))
    bound, floor = share_name(name), format_time(floor_s, digits=2, unicode=unicode)
    ratio = time_s / floor_s
    if is_above(floors, time_s):
        return tr("! faster than its {bound} floor of {floor}: above the measured limit", bound=bound, floor=floor)
    if name == "overhead" and ratio < 1 / AT_FLOOR:
        # The call from Python lies before an op's window, so its own time may be less than what it costs.
        return tr("all of it the overhead of ops, {floor} with their calls", floor=floor)
    if ratio < 1 / AT_FLOOR:
        return tr("at its {bound} floor of {floor}", bound=bound, floor=floor)
    return tr("{ratio} its {bound} floor of {floor}", ratio=format_ratio(ratio), bound=bound, floor=floor)


def is_above(floors: Floors, time_s: float) -> bool:
    """Whether an op or a line took less than the largest of its floors by more than the measurements allow.

    Args:
        floors: of the op or the line.
        time_s: what it took, in seconds.
    """
    if floors.above is not None:
        return floors.above
    known = floors_by_name(floors)
    if not known:
        return False
    # Files of before hold no bands; the call from Python lies before the windows that overhead is compared with.
    name, floor_s = next(iter(known.items()))
    return name != "overhead" and time_s < AT_FLOOR * floor_s


def above_text() -> str:
    """What the mark of lines that are above a measured limit means."""
    return tr(
        "! Above a measured limit: that limit was measured while the machine was slower or in another state, or the "
        "data came from nearer than supposed. Such a floor says nothing here; {command} measures the limits anew.",
        command="boundby machine --again",
    )


def reconciliation_text(report: Report) -> str:
    """How much of the unwatched step the watched ops and the gaps between them explain; a warning where it is off."""
    known = report.reconciliation
    if known is None:
        if report.step.steps_watched == 0:
            return tr(
                "How much of the step the watched ops and the gaps between them explain is not known: no step was "
                "watched."
            )
        return tr(
            "How much of the step the watched ops and the gaps between them explain is not known: watched and "
            "unwatched steps do not compare."
        )
    value, band = format_percent(known.value), format_percent_range(known.low, known.high)
    explained = value if value == band else f"{value} ({band})"
    if abs(known.value - 1) > _RECONCILED_WITHIN:
        return tr(
            "Reconciliation: watched ops and the gaps between them explain {explained} of the unwatched step's time; "
            "the shares may be off by as much as is missing from, or above, 100%.",
            explained=explained,
        )
    return tr(
        "Reconciliation: watched ops and the gaps between them explain {explained} of the unwatched step's time.",
        explained=explained,
    )


def ended_findings(report: Report) -> tuple[Finding, ...]:
    """Findings that a reader has to know before any figure: the script or its trials failed or were interrupted."""
    return tuple(one for one in report.findings if one.code in _ENDED)


# Ops whose function was not measured and that take less of a step than this change nothing of what it is bound by.
_MATTERS = 0.005
_MOST_PARTLY = 5


def modelled_text(report: Report, name_of: Callable[[str], str]) -> str:
    """That all ops have a cost rule, and which of them a function that was not measured here.

    Args:
        report: one without ops that could not be modelled.
        name_of: how to show an op's name.
    """
    partly = [one for one in report.partly_modelled if one.share is None or one.share >= _MATTERS]
    if not partly:
        return tr("Every op that was seen could be modelled.")
    names = [
        trn("{name} ({count} call)", "{name} ({count} calls)", one.calls, name=name_of(one.name)) for one in partly
    ]
    shown = listed(names[:_MOST_PARTLY])
    if len(names) > _MOST_PARTLY:
        shown = trn("{names} and {count} more", "{names} and {count} more", len(names) - _MOST_PARTLY, names=shown)
    if not has_shares(report.reconciliation) or all(one.share is None for one in partly):
        return tr(
            "Every op that was seen has a cost rule; by their bytes alone, since what the function itself costs is not "
            "measured on this machine, are modelled: {names}. What they take beyond that is unexplained; how much of "
            "the step that is, is not known.",
            names=shown,
        )
    return tr(
        "Every op that was seen has a cost rule; by their bytes alone, since what the function itself costs is not "
        "measured on this machine, are modelled: {names}. What of their {share} of the step is beyond that is "
        "unexplained.",
        names=shown,
        share=share_text(sum(one.share or 0.0 for one in partly), report),
    )


def step_time_text(report: Report, *, unicode: bool = True) -> str:
    """The step's time with the middle half of the timed steps, or that one alone was timed."""
    time_s = report.step.time_s
    text = format_time_band(time_s.median, time_s.low, time_s.high, unicode=unicode)
    if report.step.steps_timed == 1 and report.modelled_for is None:
        return tr("{time} (spread unknown: one step was timed)", time=text)
    return text


def step_kinds_text(report: Report) -> str:
    """How many of the watched steps did the same ops; empty where all did."""
    kinds = sorted(report.step.classes, key=lambda one: one.steps, reverse=True)
    if len(kinds) < 2:
        return ""
    shown = listed(
        [
            tr("{steps} with {ops}", steps=f"{one.steps:,}", ops=trn("{count} op", "{count} ops", one.ops))
            for one in kinds[:_MOST_KINDS]
        ]
    )
    rest = len(kinds) - _MOST_KINDS
    if rest > 0:
        shown = tr("{shown}, and {rest}", shown=shown, rest=trn("{count} more kind", "{count} more kinds", rest))
    if len({one.ops for one in kinds}) == 1:
        # With as many ops in each, the figures shown would be the same.
        shown = tr("{shown}, which differ in their ops or in their shapes", shown=shown)
    return tr("The watched steps are of {kinds} kinds: {shown}.", kinds=f"{len(kinds):,}", shown=shown)


def sentence(text: str) -> str:
    """The text, ended by a full stop where it has no end of its own."""
    return text if text.endswith((".", "!", "?", "。")) or not text else tr("{text}.", text=text)


def followed(*sentences: str) -> str:
    """Sentences one after another, with what the language puts between them; empty ones are left out."""
    said = [one for one in sentences if one]
    found = said[0] if said else ""
    for one in said[1:]:
        # A sentence may be an English one, kept from another run, in whatever language the rest is.
        found = f"{found} {one}" if found.endswith(_ENDS) else tr("{first} {then}", first=found, then=one)
    return found


def listed(parts: Sequence[str]) -> str:
    """Words or phrases one after another, with what the language puts between them."""
    found = parts[0] if parts else ""
    for part in parts[1:]:
        found = tr("{listed}, {another}", listed=found, another=part)
    return found
