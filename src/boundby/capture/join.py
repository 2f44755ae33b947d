"""Join what timed, lean and attributed steps showed into one trace."""

from __future__ import annotations

import linecache
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from boundby.capture.attribute import AttributedStep, SiteKey
from boundby.capture.calibrate import WatchCost
from boundby.capture.marks import how_to_mark
from boundby.capture.profiled import ProfiledStep, call_name
from boundby.capture.reuse import reuse_distances
from boundby.capture.step_kinds import (
    ENOUGH_CALM,
    WatchedTimes,
    calm_steps,
    choose_kind,
    kinds_of_steps,
    lean_times,
    seconds_by_name,
    timed_of_kind,
    windows_by_name,
)
from boundby.results.counts import REGION_NAME
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.trace import OpSite, StepClass, StepKind, StepOps, Trace, WatchedStep

if TYPE_CHECKING:
    from boundby.capture.recorder import Recorded, Recorder

# A silent stretch before the forward pass that is longer than this is host code preparing input, not dispatch.
HOST_INPUT_S = 100e-6
# Page faults a step have shifted if they are off by more than this many and this share.
FEW_FAULTS, SHIFTED = 50, 0.15
# What a page fault takes at least, to tell whether a shift matters.
FAULT_S = 0.25e-6


def build_trace(
    recorder: Recorder,
    *,
    kind: StepKind,
    events_per_step: int,
    irregular: bool,
    findings: tuple[Finding, ...],
    graph_breaks: int | None = None,
) -> Trace | None:
    """The trace of what the recorder holds; None where not one step was timed."""
    kept = recorder.kept
    if not kept.timed_s:
        return None
    found = list(findings)
    places = [(op, *place) for op, _cost, *place in recorder.site_keys]
    classes = kinds_of_steps(kept, recorder.watch_cost, places)
    chosen = choose_kind(classes)
    sites: tuple[OpSite, ...] = ()
    ops: StepOps | None = None
    device = "cpu"
    timed = list(range(len(kept.timed_s)))
    host_input_s = 0.0
    watched: tuple[WatchedStep, ...] = ()
    preempted = undisturbed = 0
    shifted: Finding | None = None
    if chosen is not None and chosen.attributed:
        if len(classes) > 1:
            timed = timed_of_kind(
                [seconds - waited for seconds, waited in zip(kept.timed_s, kept.input_s, strict=True)], classes, chosen
            )
        timed = _after_first_wait(kept, timed)
        timed, preempted = _undisturbed(timed, [kept.usage[i].preemptions for i in timed])
        device = chosen.attributed[-1].device
        sites = tuple(_site(key) for key in recorder.site_keys)
        beside = _bare_by_turn(kept, timed)
        calm = calm_steps(chosen.times)
        watched = tuple(beside.seen(one.total, one.watching, one.usage.faults, one.turn) for one in calm)
        watched = watched or _varied(kept, recorder.watch_cost, beside)
        scaled = [one.scaled(beside.factor(one.turn)) for one in calm]
        ops = _step_ops(chosen.attributed, scaled, kept.profiled, recorder.watch_cost)
        undisturbed = len(timed)
        timed, shifted = _before_watching(kept, timed)
        host_input_s = _host_input(ops, sites, kind, scaled)
    if preempted:
        found.append(
            Finding(
                code="preempted",
                message=trn(
                    "{count} of {all} timed steps was interrupted by other processes and is left out",
                    "{count} of {all} timed steps were interrupted by other processes and are left out",
                    preempted,
                    all=str(preempted + undisturbed),
                ),
                advice=tr("Close other programs, or give the script a core of its own, to see steadier times."),
            )
        )
    if shifted is not None:
        found.append(shifted)
    if len(set(kept.threads)) > 1:
        found.append(
            Finding(
                code="threads-changed",
                message=tr(
                    "the number of threads changed between steps: {counts}; most steps had {usual}",
                    counts=str(sorted(set(kept.threads))),
                    usual=str(_usual(kept.threads)),
                ),
                advice=tr("Set it once, before the first step."),
            )
        )
    if len(classes) > 1:
        everything = sum(one.steps for one in classes)
        share = chosen.steps / everything if chosen else 0.0
        found.append(
            Finding(
                code="steps-vary",
                message=tr(
                    "steps differ in their ops or shapes: {kinds} kinds in {steps} watched steps; explained is the "
                    "kind that {share} of them are",
                    kinds=str(len(classes)),
                    steps=str(everything),
                    share=f"{share:.0%}",
                ),
                advice=tr("Evaluation, logging or batches of other lengths do this. --watch N watches more steps."),
            )
        )
    if irregular:
        found.append(
            Finding(
                code="irregular-steps",
                message=tr("no repeating order of optimizers or modules was found; each event was taken as one step"),
                advice=how_to_mark(),
            )
        )
    return Trace(
        kind=_told_kind(kind, ops, sites),
        step_s=tuple(kept.timed_s[i] for i in timed),
        input_s=tuple(kept.input_s[i] for i in timed),
        step_faults=tuple(kept.usage[i].faults for i in timed),
        watched=watched,
        sites=sites,
        ops=ops,
        classes=tuple(
            StepClass(digest=one.digest, steps=one.steps, ops=len(one.ops))
            for one in sorted(classes, key=lambda one: -one.steps)
        ),
        anchors=tuple(recorder.anchor_readings),
        threads=_usual(kept.threads),
        device=device,
        host_input_s=host_input_s,
        saved_bytes=chosen.attributed[-1].saved_bytes if chosen is not None and chosen.attributed else None,
        saved_by_line=chosen.attributed[-1].saved_by_line if chosen is not None and chosen.attributed else {},
        warmup_steps=len(kept.warm_faults),
        events_per_step=events_per_step,
        graph_breaks=graph_breaks,
        findings=tuple(found),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bare:
    """Medians over the timed steps of each round: seconds without waits for input, and page faults."""

    seconds: dict[int, float]
    faults: dict[int, int]

    def seen(self, total_s: float, watching_s: float, faults: int, turn: int) -> WatchedStep:
        turn = self._nearest(turn)
        return WatchedStep(
            total_s=total_s,
            faults=faults,
            beside_s=self.seconds[turn],
            beside_faults=self.faults[turn],
            watching_s=watching_s,
        )

    def factor(self, turn: int) -> float:
        """From the speed of a round to that of all: the machine and the script may change theirs.

        Rounds in which page faults were more or fewer are not comparable that way.
        """
        turn = self._nearest(turn)
        usual = float(np.median(list(self.faults.values())))
        if abs(self.faults[turn] - usual) > FEW_FAULTS + SHIFTED * usual or self.seconds[turn] <= 0:
            return 1.0
        return float(np.median(list(self.seconds.values()))) / self.seconds[turn]

    def _nearest(self, turn: int) -> int:
        return min(self.seconds, key=lambda one: abs(one - turn))


def _bare_by_turn(kept: Recorded, timed: Sequence[int]) -> _Bare:
    turns: dict[int, list[int]] = defaultdict(list)
    for i in timed:
        turns[kept.turns[i]].append(i)
    return _Bare(
        seconds={turn: float(np.median([kept.timed_s[i] - kept.input_s[i] for i in at])) for turn, at in turns.items()},
        faults={turn: int(np.median([kept.usage[i].faults for i in at])) for turn, at in turns.items()},
    )


def _before_watching(kept: Recorded, timed: list[int]) -> tuple[list[int], Finding | None]:
    """The timed steps to go by: all, or those before the first watched step where watching moved the allocator.

    Where only one or two were timed before, all are gone by: a step's time needs more than that.

    An observer's own small blocks can come to lie where the allocator would have given memory back, and the script's
    later steps then fault in fewer fresh pages than they would by themselves.
    """
    lowest = min(kept.turns)
    first = [i for i in timed if kept.turns[i] == lowest]
    later = [i for i in timed if kept.turns[i] != lowest]
    if not first or not later:
        return timed, None
    before = float(np.median([*kept.warm_faults[1:], *(kept.usage[i].faults for i in first)]))
    after = float(np.median([kept.usage[i].faults for i in later]))
    seconds = float(np.median([kept.timed_s[i] for i in timed]))
    if abs(before - after) <= FEW_FAULTS + SHIFTED * before or abs(before - after) * FAULT_S < 0.03 * seconds:
        return timed, None
    values = {"before": f"{before:,.0f}", "after": f"{after:,.0f}"}
    enough = len(first) >= ENOUGH_CALM
    return first if enough else timed, Finding(
        code="allocation-shifted",
        message=trn(
            "page faults a step went from {before} to {after} once steps were watched; the step's time is that of the "
            "{first} steps before, and {count} timed later is left out",
            "page faults a step went from {before} to {after} once steps were watched; the step's time is that of the "
            "{first} steps before, and {count} timed later are left out",
            len(later),
            first=str(len(first)),
            **values,
        )
        if enough
        else trn(
            "page faults a step went from {before} to {after} once steps were watched; as {count} step alone was timed "
            "before that, the step's time is that of all {all}, these page faults included",
            "page faults a step went from {before} to {after} once steps were watched; as {count} steps alone were "
            "timed before that, the step's time is that of all {all}, these page faults included",
            len(first),
            all=str(len(timed)),
            **values,
        ),
        advice=tr("The script's memory comes and goes with every step, which alone is worth mending."),
    )


def _varied(kept: Recorded, cost: WatchCost, beside: _Bare) -> tuple[WatchedStep, ...]:
    """Where no two watched steps are alike: what they explain on average of the bare steps, round by round."""
    seen: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for lean in kept.lean:
        times = lean_times(lean, cost.per_op_s or 0.0)
        seen[lean.turn].append((times.total, times.watching, lean.usage.faults))
    for profiled in kept.profiled:
        waits = sum(end - begin for begin, end in profiled.waits) / 1e9
        watching = float(cost.calls_s(profiled).sum())
        seen[profiled.turn].append((profiled.seconds - waits - watching, watching, profiled.usage.faults))
    found = []
    for turn, steps in seen.items():
        total, watching, faults = (float(mean) for mean in np.mean(steps, axis=0))
        found.append(beside.seen(total, watching, int(faults), turn))
    return tuple(found)


def _step_ops(
    attributed: Sequence[AttributedStep],
    times: Sequence[WatchedTimes],
    profiled: Sequence[ProfiledStep],
    cost: WatchCost,
) -> StepOps:
    last = attributed[-1]
    if times:
        windows = np.median(np.stack([one.windows for one in times]), axis=0)
        gaps = np.median(np.stack([one.gaps for one in times]), axis=0)
        tail = float(np.median([one.tail for one in times]))
    else:
        # No step was watched for times with these ops: the attributed step's own windows must do, by the measure of
        # what such calls take elsewhere; gaps are unknown.
        names = frozenset(call_name(op) for op in last.ops)
        windows = windows_by_name(last, seconds_by_name(profiled, names, cost))
        gaps, tail = np.full(len(windows), np.nan), math.nan
    faults = np.median(np.stack([np.frombuffer(one.faults, dtype=np.uint32) for one in attributed]), axis=0)
    return StepOps(
        site=last.site,
        window_s=array("d", np.maximum(windows, 0.0)),
        gap_s=array("d", gaps),
        faults=array("I", faults.astype(np.uint32)),
        distance_bytes=reuse_distances(last.keys, last.sizes, last.offsets, last.inputs),
        tail_s=tail,
    )


def _usual(threads: Sequence[int]) -> int:
    return Counter(threads).most_common(1)[0][0]


def _after_first_wait(kept: Recorded, timed: list[int]) -> list[int]:
    """Timed steps without those that lived on input fetched ahead while the machine was probed.

    Loaders with workers make a few steps wait for many; of each round in which some step waits, the steps up to the
    first that does are left out.
    """
    waits = {i: kept.input_s[i] > 0.1 * (kept.timed_s[i] - kept.input_s[i]) for i in timed}
    first: dict[int, int] = {}
    for i in timed:
        if waits[i]:
            first.setdefault(kept.turns[i], i)
    left = [i for i in timed if i > first.get(kept.turns[i], -1)]
    return left if len(left) >= ENOUGH_CALM and any(waits[i] for i in left) else timed


def _undisturbed(timed: list[int], preemptions: Sequence[int]) -> tuple[list[int], int]:
    """The timed steps that were never interrupted, if there are enough of them, and how many are left out."""
    calm = [i for i, count in zip(timed, preemptions, strict=True) if count == 0]
    if len(calm) < max(ENOUGH_CALM, len(timed) // 4):
        return timed, 0
    return calm, len(timed) - len(calm)


def _told_kind(kind: StepKind, ops: StepOps | None, sites: Sequence[OpSite]) -> StepKind:
    """Steps found by their module calls alone train all the same where they go backward: the loop updates by itself."""
    if kind == "inference" and ops is not None and any(sites[i].phase == "backward" for i in ops.site):
        return "training"
    return kind


def _host_input(ops: StepOps, sites: Sequence[OpSite], kind: StepKind, times: Sequence[WatchedTimes]) -> float:
    """Seconds of host code that prepares the step's input: long silent stretches before a forward pass.

    A step that accumulates gradients has several: each begins after the last op of a backward pass or an optimizer.
    What an optimizer takes there to clear gradients is none of it. An inference step begins with its forward pass, so
    there it is the silence after the last op.
    """
    total = 0.0
    if kind == "inference":
        return ops.tail_s if ops.tail_s >= HOST_INPUT_S else 0.0  # false for an unknown (NaN) tail
    silent = np.median(np.stack([one.gaps - one.cleared for one in times]), axis=0) if times else np.array(ops.gap_s)
    for begin, end in _before_forward([sites[i] for i in ops.site]):
        for at in range(begin, end + 1):
            # Calling a compiled region takes torch a while by itself.
            if silent[at] >= HOST_INPUT_S and sites[ops.site[at]].op != REGION_NAME:
                total += float(silent[at])
    return total


def _before_forward(ops: Sequence[OpSite]) -> list[tuple[int, int]]:
    """From which op to which the gaps before them come before a forward pass; the first op where there is none."""
    by_modules = any(one.module is not None and one.phase == "forward" for one in ops)
    found: list[tuple[int, int]] = []
    begin: int | None = 0
    for at, one in enumerate(ops):
        if one.phase in ("backward", "optimizer") or one.recomputed:
            begin = at + 1
        elif begin is not None and one.phase == "forward" and (one.module is not None or not by_modules):
            found.append((begin, at))
            begin = None
    return found or [(0, 0)][: len(ops)]


def _site(key: SiteKey) -> OpSite:
    op, cost, shapes, path, line, module, phase, recomputed, items = key
    return OpSite(
        op=str(op),
        cost=cost,
        shapes=shapes,
        path=path,
        line=line,
        code=linecache.getline(path, line).strip()[:200] or None if path and line else None,
        module=module,
        phase=phase,
        recomputed=recomputed,
        items=items,
    )
