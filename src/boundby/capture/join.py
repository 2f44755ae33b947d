"""Join what timed, lean and attributed steps showed into one trace."""

from __future__ import annotations

import hashlib
import linecache
import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from boundby.capture.attribute import AttributedStep, SiteKey
from boundby.capture.lean import LeanStep
from boundby.capture.reuse import reuse_distances
from boundby.results.machine import Finding
from boundby.results.trace import OpSite, StepClass, StepKind, StepOps, Trace

if TYPE_CHECKING:
    from boundby.capture.recorder import Recorder

# A silent stretch before the forward pass that is longer than this is host code preparing input, not dispatch.
HOST_INPUT_S = 100e-6
ENOUGH_CALM = 3

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """All watched steps with one sequence of ops."""

    digest: str
    lean: list[LeanStep]
    doubled: list[LeanStep]
    attributed: list[AttributedStep]

    @property
    def steps(self) -> int:
        return len(self.lean) + len(self.doubled) + len(self.attributed)

    @property
    def op_count(self) -> int:
        return len((self.lean or self.doubled or self.attributed)[0].ops)


def build_trace(
    recorder: Recorder, *, kind: StepKind, events_per_step: int, irregular: bool, findings: tuple[Finding, ...]
) -> Trace | None:
    """The trace of what the recorder holds; None where not one step was timed or watched."""
    import torch

    if not recorder.timed_s and not recorder.lean and not recorder.attributed:
        return None
    found = list(findings)
    classes = _classes((*recorder.lean, *recorder.doubled), recorder.attributed)
    ratio = recorder.level_ratio.value() if recorder.level_ratio is not None else 1.0
    mean_cost = ratio * _mean_cost(recorder.doubled)
    chosen = _choose(classes)
    sites: tuple[OpSite, ...] = ()
    ops: StepOps | None = None
    device = "cpu"
    timed = list(range(len(recorder.timed_s)))
    host_input_s = 0.0
    if chosen is not None and chosen.attributed:
        attributed = chosen.attributed[-1]
        device = attributed.device
        keys = list(recorder.site_keys)
        sites = tuple(_site(key) for key in keys)
        if chosen.lean:
            ops = _joined(chosen, mean_cost, ratio)
            if len(classes) > 1:
                timed = _timed_of_class(recorder.timed_s, classes, chosen, mean_cost)
        else:
            ops = _unjoined(recorder.lean, attributed, mean_cost)
        host_input_s = _host_input(ops, sites, kind)
    timed, preempted = _undisturbed(timed, [recorder.preemptions[i] for i in timed])
    if preempted:
        found.append(
            Finding(
                code="preempted",
                message=f"{preempted} of {preempted + len(timed)} timed steps were interrupted by other processes "
                "and are left out",
                advice="Close other programs, or give the script a core of its own, to see steadier times.",
            )
        )
    if len(classes) > 1:
        share = chosen.steps / sum(one.steps for one in classes) if chosen else 0.0
        found.append(
            Finding(
                code="steps-vary",
                message=f"the steps do not all run the same ops: {len(classes)} kinds in "
                f"{sum(one.steps for one in classes)} watched steps; what follows is the kind that {share:.0%} of them are",
                advice="Evaluation, logging or batches of different lengths do this. --watch N watches more steps.",
            )
        )
    if irregular:
        found.append(
            Finding(
                code="irregular-steps",
                message="no repeating order of optimizers or modules was found; each event was taken as one step",
                advice="Mark the step yourself: with boundby.step(): ...",
            )
        )
    return Trace(
        kind=kind,
        step_s=tuple(recorder.timed_s[i] for i in timed),
        input_s=tuple(recorder.input_s[i] for i in timed),
        step_faults=tuple(recorder.faults[i] for i in timed),
        watched_s=tuple(step.seconds for step in (chosen.lean if chosen else [])),
        sites=sites,
        ops=ops,
        classes=tuple(
            StepClass(digest=one.digest, steps=one.steps, ops=one.op_count)
            for one in sorted(classes, key=lambda one: -one.steps)
        ),
        anchors=tuple(recorder.anchor_readings),
        threads=torch.get_num_threads(),
        device=recorder.device or device,
        host_input_s=host_input_s,
        warmup_steps=recorder.warmup_steps,
        events_per_step=events_per_step,
        findings=tuple(found),
    )


def _classes(lean: Iterable[LeanStep], attributed: Sequence[AttributedStep]) -> list[_Seen]:
    numbers: dict[Any, int] = {}
    by_digest: dict[bytes, _Seen] = {}
    for step in (*lean, *attributed):
        sequence = array("I", [numbers.setdefault(op, len(numbers)) for op in step.ops])
        digest = hashlib.blake2b(sequence.tobytes(), digest_size=8).digest()
        seen = by_digest.get(digest)
        if seen is None:
            names = hashlib.blake2b("\n".join(map(str, step.ops)).encode(), digest_size=6).hexdigest()
            seen = by_digest[digest] = _Seen(digest=names, lean=[], doubled=[], attributed=[])
        if isinstance(step, LeanStep):
            (seen.lean if step.under is None else seen.doubled).append(step)
        else:
            seen.attributed.append(step)
    return list(by_digest.values())


def _choose(classes: Sequence[_Seen]) -> _Seen | None:
    """The class to explain: the commonest that was watched both ways, else the attributed one of median length."""
    both = [one for one in classes if one.lean and one.attributed]
    if both:
        return max(both, key=lambda one: one.steps)
    attributed = sorted((one for one in classes if one.attributed), key=lambda one: one.op_count)
    return attributed[len(attributed) // 2] if attributed else None


def _costs(step: LeanStep) -> Floats:
    """Seconds that one more watcher added to each op of a step watched twice over."""
    upper = np.frombuffer(step.stamps, dtype=np.int64)
    lower = np.frombuffer(step.under or array("q"), dtype=np.int64)
    return ((upper[1::2] - upper[0::2]) - (lower[1::2] - lower[0::2])) / 1e9


def _mean_cost(doubled: Sequence[LeanStep]) -> float:
    """Seconds of watching an op leanly, over all ops watched twice."""
    usable = [one for one in doubled if one.under is not None and len(one.under) == len(one.stamps) > 0]
    if not usable:
        return 0.0
    return float(np.median([_trimmed_mean(_costs(one)) for one in usable]))


def _trimmed_mean(values: Floats) -> float:
    """The mean without interruptions: values over eight times the median count as that."""
    return float(np.minimum(values, 8 * np.median(values)).mean())


def _class_costs(seen: _Seen, mean_cost: float, ratio: float) -> Floats:
    """Seconds of watching, op by op, for a class of steps."""
    usable = [one for one in seen.doubled if one.under is not None and len(one.under) == len(one.stamps)]
    if not usable:
        return np.full(seen.op_count, mean_cost)
    costs = ratio * np.median(np.stack([_costs(one) for one in usable]), axis=0)
    return np.minimum(costs, 8 * np.median(costs)) if len(costs) else costs


def _columns(steps: Sequence[LeanStep], costs: Floats) -> tuple[Floats, Floats, Floats]:
    """Windows and gaps (step x op) and tails (step) in seconds, gaps less the cost of watching.

    A watched op is dispatched a second time inside its window, which stands for the first time it was; the whole cost of
    watching is therefore taken from the gap before it. A gap may come out slightly negative: between two ops of the
    autograd engine there is less than the correction.
    """
    stamps = np.stack([np.frombuffer(step.stamps, dtype=np.int64) for step in steps])
    begins, ends = stamps[:, 0::2], stamps[:, 1::2]
    windows = (ends - begins) / 1e9
    first = np.array([[step.begin] for step in steps])
    before = np.concatenate([first, ends], axis=1)
    gaps = (begins - before[:, :-1]) / 1e9 - costs
    tails = (np.array([step.end for step in steps]) - before[:, -1]) / 1e9
    for row, step in enumerate(steps):
        for at, spent in step.input_at:
            if at < gaps.shape[1]:
                gaps[row, at] -= spent / 1e9
            else:
                tails[row] -= spent / 1e9
    return windows, gaps, tails


def _joined(seen: _Seen, mean_cost: float, ratio: float) -> StepOps:
    last = seen.attributed[-1]
    windows, gaps, tails = _columns(_calm(seen.lean), _class_costs(seen, mean_cost, ratio))
    faults = np.median(np.stack([np.frombuffer(one.faults, dtype=np.uint32) for one in seen.attributed]), axis=0)
    return StepOps(
        site=last.site,
        window_s=array("d", np.median(windows, axis=0)),
        gap_s=array("d", np.median(gaps, axis=0)),
        faults=array("I", faults.astype(np.uint32)),
        distance_bytes=reuse_distances(last.keys, last.sizes, last.offsets, last.inputs),
        tail_s=float(np.median(tails)),
    )


def _unjoined(lean: Sequence[LeanStep], step: AttributedStep, mean_cost: float) -> StepOps:
    """Where no lean step ran the attributed step's ops: its own windows, and the lean steps' mean gap an op."""
    count = len(step.ops)
    stamps = np.frombuffer(step.stamps, dtype=np.int64)
    windows = (stamps[1::2] - stamps[0::2]) / 1e9
    gap_sum = op_sum = 0.0
    for one in lean:
        _, gaps, tails = _columns([one], np.full(len(one.ops), mean_cost))
        gap_sum += float(gaps.sum() + tails.sum())
        op_sum += max(1, len(one.ops))
    gap = gap_sum / op_sum if op_sum else 0.0
    return StepOps(
        site=step.site,
        window_s=array("d", windows),
        gap_s=array("d", [gap] * count),
        faults=step.faults,
        distance_bytes=reuse_distances(step.keys, step.sizes, step.offsets, step.inputs),
    )


def _timed_of_class(
    timed_s: Sequence[float], classes: Sequence[_Seen], chosen: _Seen, mean_cost: float
) -> list[int]:
    """Which timed steps were of the chosen class: nobody watched them, so by the nearest of the classes' own times."""
    expected: dict[str, float] = {}
    for one in classes:
        if one.lean:
            expected[one.digest] = float(
                np.median([step.seconds - mean_cost * len(step.ops) for step in one.lean])
            )
    if len(expected) < 2:
        return list(range(len(timed_s)))

    def nearest(seconds: float) -> str:
        return min(expected, key=lambda name: abs(math.log(max(seconds, 1e-9) / max(expected[name], 1e-9))))

    mine = [i for i, seconds in enumerate(timed_s) if nearest(seconds) == chosen.digest]
    return mine or list(range(len(timed_s)))


def _undisturbed(timed: list[int], preemptions: Sequence[int]) -> tuple[list[int], int]:
    """The timed steps that the system never took the processor from, if there are enough of them; how many are left out."""
    calm = [i for i, count in zip(timed, preemptions, strict=True) if count == 0]
    if len(calm) < max(ENOUGH_CALM, len(timed) // 4):
        return timed, 0
    return calm, len(timed) - len(calm)


def _calm(steps: list[LeanStep]) -> list[LeanStep]:
    calm = [one for one in steps if one.preemptions == 0]
    return calm if len(calm) >= ENOUGH_CALM else steps


def _host_input(ops: StepOps, sites: Sequence[OpSite], kind: StepKind) -> float:
    """Seconds of host code that prepares the step's input: long silent stretches before the forward pass.

    An inference step begins with its forward pass, so there it is the silence after the last op.
    """
    total = 0.0
    if kind == "inference":
        return ops.tail_s if ops.tail_s >= HOST_INPUT_S else 0.0
    phases = [sites[i].phase for i in ops.site]
    modules = [sites[i].module for i in ops.site]
    first = next((i for i, name in enumerate(modules) if name is not None and phases[i] == "forward"), None)
    if first is None:
        first = next((i for i, phase in enumerate(phases) if phase == "forward"), 0 if phases else -1)
    for gap in ops.gap_s[: first + 1]:
        if gap >= HOST_INPUT_S:
            total += gap
    return total


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

