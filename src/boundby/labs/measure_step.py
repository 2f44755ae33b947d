"""Lab `measure`, demonstration 4: a training step of the small GPT, from batch 1 up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import boundby
from boundby.labs import measure_matmul
from boundby.labs.base_model import GPTConfig, count_parameters
from boundby.labs.lab import Settings
from boundby.labs.rows import noise_notes, times_data
from boundby.labs.training_step import TrainingStep
from boundby.report.chart import Axis, Chart
from boundby.report.chart import Line as Curve
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.module_tree import CallCounts
from boundby.results.op_names import op_name
from boundby.results.units import format_number, format_percent, format_si, format_time
from boundby.timing.statistics import median

NAME = "training-step"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
QUICK_BATCHES = (1, 2, 4, 8, 16, 32)
# From this batch on, the lecture expects time in proportion to the batch.
LARGE_BATCH = 8
# Times of twice the batch that are within this share of twice the time are in proportion to it.
IN_PROPORTION = 0.1
COMMONEST = 6
# Two ways of taking the same ratio that differ by more leave nothing to be said of it.
SAME_RATIO = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step at one batch: what it is on paper, and its time."""

    batch: int
    ops: int
    flops: int
    time: CallTime

    @property
    def flops_per_s(self) -> float:
        """FLOPs of matrix products a second, of the fastest round."""
        return self.flops / self.time.fastest_s


def show(settings: Settings) -> Shown:
    """Counts and times a step at each batch, and says what binds small ones and large ones."""
    config = GPTConfig()
    peak = measure_matmul.matmul_peak(settings)
    batches = QUICK_BATCHES if settings.quick else BATCHES
    models = [TrainingStep(config, batch=batch) for batch in batches]
    for model in models:
        model()
    counts = [model.count() for model in models]
    # In turns, so that what one batch takes against the next is not what the machine did in between.
    times = boundby.time_calls(*models, round_s=settings.round_s, progress=settings.progress)
    steps = [
        Step(batch=batch, ops=count.ops, flops=count.matmul_flops, time=time)
        for batch, count, time in zip(batches, counts, times, strict=True)
    ]
    parameters = count_parameters(models[0].model)
    return Shown(
        about=(
            tr(
                "The small GPT: {layers} layers, width {width}, {heads} heads, context {context}, {vocabulary} "
                "characters, {parameters} parameters. A step is forward, cross-entropy, backward and AdamW on random "
                "tokens; the first step, which makes the optimizer's state, is not counted. Watch how the number of "
                "ops stays, and from which batch on the time grows with the work.",
                layers=str(config.n_layer),
                width=str(config.d_model),
                heads=str(config.n_head),
                context=str(config.block_size),
                vocabulary=str(config.vocab_size),
                parameters=f"{parameters:,}",
            ),
            _kinds(counts[0]),
        ),
        blocks=(_table(steps, peak), _chart(steps, peak)),
        observations=(
            *_counted(steps),
            *(Line(text=text, timed=True) for text in _observed(steps, peak)),
            *noise_notes(times, one_thread=True),
        ),
        data={
            "parameters": parameters,
            "peak_flops_per_s": peak,
            "commonest_ops": {name.removeprefix("aten::"): ops for name, ops in _commonest(counts[0])},
            "rows": [_row_data(step, peak) for step in steps],
        },
    )


def _commonest(counts: CallCounts) -> list[tuple[str, int]]:
    groups = sorted(counts.by_op, key=lambda group: (-group.ops, group.name))
    return [(group.name, group.ops) for group in groups[:COMMONEST]]


def _kinds(counts: CallCounts) -> str:
    return tr(
        "At batch 1 a step is {ops} aten ops, {views} of them views and the like, which move nothing. The "
        "commonest: {kinds}.",
        ops=str(counts.ops),
        views=str(counts.ops - counts.launches),
        kinds=tr(", ").join(f"{op_name(name)} {ops}" for name, ops in _commonest(counts)),
    )


def _row_data(step: Step, peak: float) -> dict[str, Any]:
    return {
        "batch": step.batch,
        "ops": step.ops,
        "matmul_flops": step.flops,
        **times_data(step.time),
        "flops_per_s": step.flops_per_s,
        "share_of_peak": step.flops_per_s / peak,
    }


def _table(steps: Sequence[Step], peak: float) -> LabTable:
    grown = ["", *(format_number(_ratio(half, step), digits=3) for half, step in pairwise(steps))]
    return LabTable(
        caption="",
        head=(
            tr("batch"),
            tr("ops"),
            tr("FLOP"),
            tr("time"),
            tr("median"),
            tr("to half the batch"),
            "GFLOP/s",
            tr("of the peak"),
        ),
        rows=tuple(
            (
                str(step.batch),
                str(step.ops),
                format_si(step.flops, "FLOP"),
                format_time(step.time.fastest_s),
                format_time(step.time.median_s),
                ratio,
                format_number(step.flops_per_s / 1e9),
                format_percent(step.flops_per_s / peak),
            )
            for step, ratio in zip(steps, grown, strict=True)
        ),
        timed=(3, 4, 5, 6, 7),
        files_only=(4,),
        left=(),
    )


def _ratio(half: Step, step: Step) -> float:
    """Time against half the batch."""
    return step.time.fastest_s / half.time.fastest_s


def _counted(steps: Sequence[Step]) -> Iterator[Line]:
    yield Line(
        text=tr(
            "From batch {first} to {last} the FLOPs grow {work}-fold and the number of ops goes from {before} to "
            "{after}: a step launches about as many ops for a large batch as for a small one.",
            first=str(steps[0].batch),
            last=str(steps[-1].batch),
            work=format_number(steps[-1].flops / steps[0].flops),
            before=str(steps[0].ops),
            after=str(steps[-1].ops),
        )
    )


def _observed(steps: Sequence[Step], peak: float) -> Iterator[str]:
    first, second = steps[:2]
    yield _observed_at_batch_1(first, second)
    ratios = [_ratio(half, step) for half, step in pairwise(steps) if half.batch >= LARGE_BATCH]
    if all(abs(one / 2 - 1) <= IN_PROPORTION for one in ratios):
        yield tr(
            "From batch {large} on, twice the batch takes {low} to {high} times as long, within {within} of 2: in "
            "proportion to the work.",
            large=str(LARGE_BATCH),
            within=format_percent(IN_PROPORTION),
            low=format_number(min(ratios), digits=2),
            high=format_number(max(ratios), digits=2),
        )
    else:
        yield tr(
            "From batch {large} on, twice the batch takes {low} to {high} times as long; 2 would be in proportion to "
            "the work: less where overhead still counts, more where the tensors outgrow a cache or something else "
            "ran on this machine.",
            large=str(LARGE_BATCH),
            low=format_number(min(ratios), digits=2),
            high=format_number(max(ratios), digits=2),
        )
    best = max(steps, key=lambda step: step.flops_per_s)
    yield tr(
        "At best, at batch {batch}, the step reaches {share} of the {peak} of a large matrix product; at batch 1 it "
        "is {least}. The products of a small model are small, and the ops between them are not products.",
        batch=str(best.batch),
        share=format_percent(best.flops_per_s / peak),
        peak=format_si(peak, "FLOP/s"),
        least=format_percent(first.flops_per_s / peak),
    )


def _observed_at_batch_1(first: Step, second: Step) -> str:
    """What the step from batch 1 to batch 2 says of the fixed cost of a step."""
    ratio = _ratio(first, second)
    turns = [two / one for one, two in zip(first.time.rounds_s, second.time.rounds_s, strict=False)]
    in_turns = median(turns) if turns else ratio
    if max(ratio, in_turns) > SAME_RATIO * min(ratio, in_turns) or ratio < 1 / SAME_RATIO:
        return tr(
            "From batch 1 to 2 the work doubles and the time grows {ratio}-fold by the fastest rounds, {turns}-fold "
            "turn by turn: too unsteady to say how much of a step is fixed cost.",
            ratio=format_number(ratio, digits=3),
            turns=format_number(in_turns, digits=3),
        )
    values = {
        "ratio": format_number(ratio, digits=3),
        "ops": str(first.ops),
    }
    whole_each_s = first.time.fastest_s / first.ops
    # Time f + w at batch 1 is f + 2w at batch 2: the share f / (f + w) is 2 less the ratio.
    if ratio < 1.5:
        return tr(
            "From batch 1 to 2 the work doubles and the time grows {ratio}-fold, far less: about {share} of a step at "
            "batch 1 is the cost of {ops} ops, {each} an op, whatever is in them. It is bound by overhead.",
            share=format_percent(min(1.0, 2 - ratio)),
            each=format_time(min(1.0, 2 - ratio) * whole_each_s, digits=2),
            **values,
        )
    if ratio < 1.85:
        return tr(
            "From batch 1 to 2 the work doubles and the time grows {ratio}-fold: about {share} of a step at batch 1 is "
            "the cost of {ops} ops, {each} an op, whatever is in them. The rest grows with the batch already.",
            share=format_percent(2 - ratio),
            each=format_time((2 - ratio) * whole_each_s, digits=2),
            **values,
        )
    return tr(
        "From batch 1 to 2 the time grows {ratio}-fold, near the work: on this machine the cost of the {ops} ops "
        "({each} an op with its work) is small beside the work in them.",
        each=format_time(whole_each_s, digits=2),
        **values,
    )


def _chart(steps: Sequence[Step], peak: float) -> Chart:
    batches = tuple(float(step.batch) for step in steps)
    first = steps[0].time.fastest_s
    return Chart(
        name="step-by-batch",
        title=tr("Time of a training step against the batch"),
        summary=tr(
            "From {first} at batch {small} to {last} at batch {large}.",
            first=format_time(first),
            small=str(steps[0].batch),
            last=format_time(steps[-1].time.fastest_s),
            large=str(steps[-1].batch),
        ),
        x=Axis(name=tr("batch"), scale="log"),
        y=Axis(name=tr("time of a step"), unit="s", scale="log"),
        lines=(
            Curve(
                name=tr("fastest round, up to the slowest"),
                x=batches,
                y=tuple(step.time.fastest_s for step in steps),
                low=tuple(step.time.fastest_s for step in steps),
                high=tuple(step.time.slowest_s for step in steps),
            ),
            Curve(
                name=tr("in proportion to the batch, from batch 1"),
                x=batches,
                y=tuple(first * batch for batch in batches),
                look="modelled",
                points=False,
            ),
            Curve(
                name=tr("its products at the peak"),
                x=batches,
                y=tuple(step.flops / peak for step in steps),
                look="modelled",
                points=False,
            ),
        ),
    )
