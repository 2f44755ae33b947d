"""Whether a step keeps its budgets and its baseline, and which lines made it grow: pure.

Counts are exact, so any count above the baseline's is over, but for bytes where a tolerance is given: the values of
indices and masks decide a part of them, and other data moves other bytes. A measured share or ratio is over only where
the better end of its interval is. What is not known is never taken to be kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import PurePath

from boundby.bound.compare_lines import Place, pair_places
from boundby.results.budgets import (
    COUNTS,
    MOVED,
    RATIOS,
    Baseline,
    Budget,
    Check,
    Counted,
    CountedLine,
    Judgement,
    LineGrowth,
    OpGrowth,
)
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.report import SHARES, Report
from boundby.results.units import format_percent

BY_BASELINE = "baseline"
Pair = tuple[CountedLine | None, CountedLine | None]
# A line whose text is this much like one that is gone is that line, changed.
ALIKE = 0.5
_WORD = re.compile(r"\w+")
# What goes with a count that is not known line by line: saved tensors have been written by an op, then read by one.
_GOES_WITH = ("bytes_written", "bytes_read", "launches", "ops")


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What was counted before, and which line of then is which of now; None: on one side only."""

    counted: Counted
    pairs: tuple[Pair, ...]


def check_step(
    counted: Counted,
    budgets: Iterable[Budget],
    *,
    target: str,
    ratios: Mapping[str, Interval | None] | None = None,
    baseline: Baseline | None = None,
    torch: str | None = None,
    device: str = "cpu",
    bytes_tolerance: float = 0.0,
) -> Check:
    """Hold a step against its budgets and its baseline.

    Args:
        counted: what was counted of it.
        budgets: the limits that were written down.
        target: what the step is of, for people.
        ratios: what was measured of it, by the names of ``RATIOS``; None and missing: not known.
        baseline: the counts that were last accepted; None: only budgets hold.
        torch: the version that made the counts, to say where the baseline is of another.
        device: where its ops ran.
        bytes_tolerance: by what part of the baseline's the bytes read and written may be above them.
    """
    before = (
        None
        if baseline is None
        else Before(counted=baseline.counted, pairs=tuple(pair_lines(baseline.counted.lines, counted.lines)))
    )
    judgements = [_by_budget(one, counted, ratios or {}, before) for one in budgets]
    shrunk: list[tuple[str, int, int]] = []
    if before is not None:
        for name in COUNTS:
            old, new = before.counted.totals.get(name), counted.totals.get(name)
            if old is None:
                continue
            tolerance = bytes_tolerance if name in MOVED else 0.0
            judgements.append(_by_baseline(name, counted, before, old, new, tolerance))
            if new is not None and new < old * (1.0 - tolerance):
                shrunk.append((name, old, new))
    return Check(
        target=target,
        passed=not any(one.failed for one in judgements),
        judgements=tuple(judgements),
        shrunk=tuple(shrunk),
        notes=(*_notes(baseline, target, torch, device), *_indexed_notes(judgements, counted)),
    )


def measured_ratios(report: Report) -> dict[str, Interval | None]:
    """The shares of a report's split and how near its products come to the machine's best rate, by ``RATIOS``.

    None where the split is not known, as where it does not add up, where it is a model's, and where no matmul rate of
    a dtype was measured.
    """
    if report.verdict.bound == "unknown" or report.modelled_for is not None:
        return dict.fromkeys(RATIOS)
    return {name: getattr(report.split, name) for name in SHARES} | {"peak": _of_peak(report)}


def _of_peak(report: Report) -> Interval | None:
    """The time that all products would take at the best rate measured for their dtype, over the step's.

    Source: model FLOPs utilisation, Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways" (2022), with
    the machine's measured peak in place of a datasheet's, and each dtype's own.
    """
    flops: dict[str, int] = {}
    for row in report.ops:
        if row.matmul_flops:
            if row.dtype is None:
                return None
            flops[row.dtype] = flops.get(row.dtype, 0) + row.matmul_flops
    time = report.step.time_s
    if not flops or time.low <= 0:
        return None
    value = low = high = 0.0
    for dtype, amount in flops.items():
        rates = [
            one
            for one in report.machine.ceilings
            if one.kind == "matmul"
            and one.unit == "flop/s"
            and one.dtype == dtype
            and one.stack == "torch"
            and one.threads == report.step.threads
        ]
        if not rates:
            return None
        best = max(rates, key=lambda one: one.value)
        value += amount / best.value
        low += amount / best.high
        high += amount / best.low
    return interval(value / time.median, low / time.high, high / time.low)


def _by_budget(
    budget: Budget, counted: Counted, ratios: Mapping[str, Interval | None], before: Before | None
) -> Judgement:
    value: int | Interval | None
    measured = ratios.get(budget.of) if budget.of in RATIOS else None
    value = measured if budget.of in RATIOS else counted.totals.get(budget.of)
    judged = Judgement(
        name=budget.name,
        of=budget.of,
        state="kept",
        value=value,
        limit=budget.limit,
        least=budget.least,
        source=budget.source,
        baseline=None if before is None else before.counted.totals.get(budget.of),
    )
    if value is None:
        return replace(judged, state="unknown")
    if isinstance(value, Interval):
        beyond = value.value < budget.limit if budget.least else value.value > budget.limit
        surely = value.high < budget.limit if budget.least else value.low > budget.limit
        return replace(judged, state="over" if surely else "unsure" if beyond else "kept")
    if value <= budget.limit:
        return judged
    if before is not None:
        by, lines = grown_lines(counted, before, budget.of)
        if lines and value > (before.counted.totals.get(budget.of) or 0):
            return replace(judged, state="over", lines=lines, lines_by=by, grown=True)
    by, lines = _largest_lines(counted, budget.of)
    return replace(judged, state="over", lines=lines, lines_by=by)


def _by_baseline(name: str, counted: Counted, before: Before, old: int, new: int | None, tolerance: float) -> Judgement:
    judged = Judgement(
        name=name,
        of=name,
        state="kept",
        value=new,
        limit=old,
        least=False,
        source=BY_BASELINE,
        baseline=old,
        tolerance=tolerance,
    )
    if new is None:
        return replace(judged, state="unknown")
    if new <= old * (1.0 + tolerance):
        return judged
    by, lines = grown_lines(counted, before, name)
    return replace(judged, state="over", lines=lines, lines_by=by, grown=True)


def grown_lines(counted: Counted, before: Before, name: str) -> tuple[str | None, tuple[LineGrowth, ...]]:
    """The lines at which a count grew, most first, and the count they are told by.

    A line is the same where its text is, whatever its number; one whose text changed is the line most like it in the
    same file. Where the count is not known by line, or grew at none, one that goes with it is taken.
    """
    for by in (name, *_GOES_WITH):
        if by not in counted.by_line or by not in before.counted.by_line:
            continue
        grown = [_growth(old, new, by) for old, new in before.pairs]
        lines = sorted((one for one in grown if one.new > (one.old or 0)), key=lambda one: (one.old or 0) - one.new)
        if lines:
            return by, tuple(lines)
    return None, ()


def pair_lines(before: Sequence[CountedLine], now: Sequence[CountedLine]) -> Iterator[Pair]:
    """Which line of before is which of now; None for one that is on one side only."""
    places = ([Place(path=one.path, line=one.line, code=one.code) for one in side] for side in (before, now))
    gone: list[CountedLine] = []
    new: list[CountedLine] = []
    for i, j in pair_places(*places):
        if i is not None and j is not None:
            yield before[i], now[j]
        elif i is not None:
            gone.append(before[i])
        elif j is not None:
            new.append(now[j])
    changed = _changed_lines(gone, new)
    yield from ((gone[i], new[j]) for i, j in changed.items())
    yield from ((one, None) for i, one in enumerate(gone) if i not in changed)
    yield from ((None, one) for j, one in enumerate(new) if j not in changed.values())


def _changed_lines(gone: Sequence[CountedLine], new: Sequence[CountedLine]) -> dict[int, int]:
    """Which line that is gone became which new one, by their indices: texts of one file that are much alike.

    The most alike come first, then those nearest to each other.
    """
    words = [[frozenset(_WORD.findall(one.code or "")) for one in side] for side in (gone, new)]
    alike = sorted(
        (-likeness, abs((old.line or 0) - (one.line or 0)), i, j)
        for i, old in enumerate(gone)
        for j, one in enumerate(new)
        # Comparing texts is slow, and there may be many: only those that have half their words in common.
        if 2 * len(words[0][i] & words[1][j]) >= max(1, min(len(words[0][i]), len(words[1][j])))
        and _file_name(old) == _file_name(one)
        and (likeness := _likeness(old.code, one.code)) >= ALIKE
    )
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, i, j in alike:
        if i not in found and j not in taken:
            found[i] = j
            taken.add(j)
    return found


def _likeness(old: str | None, new: str | None) -> float:
    return SequenceMatcher(None, old.strip(), new.strip()).ratio() if old and new else 0.0


def _file_name(line: CountedLine) -> str | None:
    return None if line.path is None else PurePath(line.path).name


def _growth(old: CountedLine | None, new: CountedLine | None, by: str) -> LineGrowth:
    shown = new or old
    assert shown is not None
    ops_old, ops_new = ({} if one is None else one.ops for one in (old, new))
    idle = {name for one in (old, new) if one is not None for name in one.idle}
    moved = sorted(
        (name for name in {*ops_old, *ops_new} if ops_new.get(name, 0) != ops_old.get(name, 0)),
        key=lambda name: (name in idle, ops_old.get(name, 0) - ops_new.get(name, 0), name),
    )
    changed = new is not None and old is not None and old.code != new.code
    return LineGrowth(
        path=shown.path,
        line=shown.line,
        code=shown.code,
        old_line=None if old is None else old.line,
        old_code=old.code if changed and old is not None else None,
        old=None if old is None else old.counts.get(by, 0),
        new=0 if new is None else new.counts.get(by, 0),
        ops=tuple(OpGrowth(op=name, old=ops_old.get(name, 0), new=ops_new.get(name, 0)) for name in moved),
    )


def _largest_lines(counted: Counted, name: str) -> tuple[str | None, tuple[LineGrowth, ...]]:
    """The lines that most of a count is at, where nothing is known of before."""
    if name not in counted.by_line:
        return None, ()
    lines = sorted((one for one in counted.lines if one.counts.get(name)), key=lambda one: -one.counts[name])
    return name, tuple(
        LineGrowth(
            path=one.path,
            line=one.line,
            code=one.code,
            old_line=None,
            old_code=None,
            old=None,
            new=one.counts[name],
            ops=_all_ops(one, products=name.endswith("matmul_flops")),
        )
        for one in lines
    )


def _all_ops(line: CountedLine, *, products: bool = False) -> tuple[OpGrowth, ...]:
    """The ops of a line, those that move data first, then by their calls; with ``products`` those alone, if any."""
    names = sorted(line.ops, key=lambda name: (name in line.idle, -line.ops[name], name))
    if products:
        names = [name for name in names if _is_product(name)] or names
    return tuple(OpGrowth(op=name, old=None, new=line.ops[name]) for name in names)


def _is_product(op: str) -> bool:
    """Whether an op is a product of matrices, a convolution or attention, going by its name."""
    name = op.split("::")[-1].removeprefix("aten.").split(".")[0].rstrip("_")
    return name.endswith(("mm", "mv", "dot")) or any(
        word in name for word in ("conv", "attention", "linear", "matmul", "einsum", "bilinear")
    )


def _indexed_notes(judgements: Iterable[Judgement], counted: Counted) -> Iterator[str]:
    # A limit that was written down has no tolerance: the option would not change it.
    for name in dict.fromkeys(one.of for one in judgements if one.state == "over" and one.source == BY_BASELINE):
        part, total = counted.indexed.get(name), counted.totals.get(name)
        if name in MOVED and part and total:
            yield tr(
                "At least {share} of the {count} depends on the values of indices and masks, so other data moves other "
                "bytes; what reads a result of a size that values decide is not in that share. Where that is all there "
                "is to it, set the script's seed, or allow for it with {option}.",
                share=format_percent(part / total),
                count=name.replace("_", " "),
                option="--bytes-tolerance",
            )


def _notes(baseline: Baseline | None, target: str, torch: str | None, device: str) -> Iterator[str]:
    if baseline is None:
        return
    if baseline.torch is not None and torch is not None and baseline.torch != torch:
        yield tr(
            "The baseline was counted with torch {old} and this step with {new}: ops may differ for that alone.",
            old=baseline.torch,
            new=torch,
        )
    if baseline.device != device:
        yield tr("The baseline was counted on {old} and this step on {new}.", old=baseline.device, new=device)
    if baseline.target is not None and baseline.target != target:
        yield tr("The baseline is of `{old}` and this step of `{new}`.", old=baseline.target, new=target)
