"""What estimates over several devices and of batches lack: the worst groups of rows, each with what would meet it.

Calibration saw none of these rows, so that a miss says something of the model. What is told of one is arithmetic on
its parts: how long an all-reduce would have to take, how much a sequence would have to cost. None of it is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from boundby.llm.parallel import USUAL_ALL_REDUCE_S
from boundby.llm.validate import Compared
from boundby.results.language import tr, trn

# Groups none of whose rows is farther off are no matter.
LEAST_ERROR = 0.2
# Times of one setting that differ by more cannot be met by one estimate.
_SAME_SETTING = 1.2
_LEAST_REDUCE_S = 1e-6
# How a note begins that says what is odd about a published number.
_ODD = "odd in the source:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A group of rows of one model, hardware and engine: its rows, worst first, and what the model lacks, in words."""

    rows: tuple[Compared, ...]
    reasons: tuple[str, ...]

    @property
    def worst(self) -> Compared:
        """The row that is farthest off."""
        return self.rows[0]


def lacks(compared: Sequence[Compared], *, most: int = 6) -> tuple[Lack, ...]:
    """The worst groups of rows of several devices or sequences, worst first.

    Args:
        compared: rows beside what is expected of them; those of one device at batch 1 are passed over.
        most: how many groups.
    """
    groups: dict[tuple[object, ...], list[Compared]] = {}
    for one in compared:
        if one.kind != "one device, batch 1":
            groups.setdefault((one.model, one.row.hardware, one.engine, one.row.weights), []).append(one)
    ordered = [sorted(group, key=lambda one: -abs(one.error)) for group in groups.values()]
    bad = sorted(
        (group for group in ordered if abs(group[0].error) >= LEAST_ERROR), key=lambda group: -abs(group[0].error)
    )
    return tuple(Lack(rows=tuple(group), reasons=tuple(_reasons(group))) for group in bad[:most])


def _reasons(group: Sequence[Compared]) -> Iterator[str]:
    worst = group[0]
    yield from _disagreeing(group)
    if worst.error < 0:
        yield from _too_quick(group)
    else:
        yield from _too_slow(group)
    odd = next((text for text in (one.row.note.partition(_ODD)[2].strip() for one in group) if text), "")
    if odd:
        yield tr("Odd in the source itself: {odd}.", odd=odd.rstrip("."))
    if any("prefill included" in one.row.note.lower() for one in group):
        yield tr("The published times are of whole answers, with the prefill; the estimate is of decode steps alone.")


def _too_quick(group: Sequence[Compared]) -> Iterator[str]:
    worst = group[0]
    missing = worst.row.step_s - worst.expected_s.value
    if worst.sparse_layers and worst.row.devices > 1:
        yield tr(
            "Experts on several devices are taken as products cut in equal parts, with an all-reduce after them. "
            "That tokens are sent to the devices of their experts and back, and that all wait for the one with most to "
            "do, is not modelled: {missing} a sparse layer are missing.",
            missing=_us(missing / worst.sparse_layers),
        )
    elif worst.row.devices > 1:
        smallest = [one for one in group if one.row.batch == min(each.row.batch for each in group)]
        yield from _reduces(smallest)
    yield from _sequences(group)
    if worst.row.devices > 1 and worst.hardware_kind != "nvidia-hbm":
        yield tr(
            "Links of this hardware are by data sheet, its all-reduces are taken as quick as NVIDIA's: calibration saw "
            "no row of several."
        )
    elif worst.row.devices > 1 and worst.row.batch == 1 and not worst.sparse_layers:
        yield from _reading(worst)


def _reduces(rows: Sequence[Compared]) -> Iterator[str]:
    """What an all-reduce would have to take where they alone were the reason."""
    needed = [_needed_reduce_s(one) for one in rows]
    known = [one for one in needed if one is not None]
    if not known:
        return
    low, high = min(known), max(known)
    if high < _LEAST_REDUCE_S:
        return
    yield tr(
        "Were all-reduces alone to blame, each would take {needed} at batch {batch}; {assumed} and what the links move "
        "are assumed.",
        needed=_us(high) if high < 1.05 * low else tr("{low} to {high}", low=_us(max(low, 0.0)), high=_us(high)),
        batch=f"{rows[0].row.batch:,}",
        assumed=_us(USUAL_ALL_REDUCE_S),
    )


def _needed_reduce_s(one: Compared) -> float | None:
    """Seconds that each all-reduce would have to take for the row to be met; negative where none has time."""
    if not one.all_reduces:
        return None
    return (one.row.step_s - (one.expected_s.value - one.all_reduce_s)) / one.all_reduces


def _sequences(group: Sequence[Compared]) -> Iterator[str]:
    """What each further sequence costs, measured and expected, where one setting is known at several batches."""
    worst = group[0]
    like = [one for one in group if one.row.devices == worst.row.devices and one.row.context == worst.row.context]
    few, many = min(like, key=lambda one: one.row.batch), max(like, key=lambda one: one.row.batch)
    more = many.row.batch - few.row.batch
    if more <= 0:
        return
    measured = (many.row.step_s - few.row.step_s) / more
    expected = (many.expected_s.value - few.expected_s.value) / more
    yield tr(
        "From batch {few} to {many} each sequence adds {measured} as measured and {expected} as expected: an engine's "
        "scheduling, sampling and page tables, and products that are neither thin nor large, are not modelled.",
        few=f"{few.row.batch:,}",
        many=f"{many.row.batch:,}",
        measured=_us(measured),
        expected=_us(expected),
    )


def _reading(worst: Compared) -> Iterator[str]:
    """What share of bandwidth a row of one sequence amounts to, were reading alone to blame."""
    parts = worst.parts
    missing = worst.row.step_s - worst.expected_s.value
    if parts is None or parts.weights_s <= 0:
        return
    yield tr(
        "Were reading alone to blame, weights would be read {times} times as slowly as by this engine on one device.",
        times=f"{1 + missing / parts.weights_s:.1f}",
    )


def _too_slow(group: Sequence[Compared]) -> Iterator[str]:
    worst = group[0]
    parts = worst.parts
    if worst.row.devices <= 1 or parts is None:
        return
    yield tr(
        "A kernel on one of {devices} parts of the work is taken to start and to end as slowly as on all of it, which "
        "makes {launches} of {expected}; shorter kernels have shorter tails.",
        devices=f"{worst.row.devices:g}",
        launches=_ms(parts.launches_s),
        expected=_ms(worst.expected_s.value),
    )
    needed = _needed_reduce_s(worst)
    if needed is None:
        return
    if needed < _LEAST_REDUCE_S:
        yield tr("Quicker all-reduces cannot explain it alone: without any the estimate is still as long.")
    else:
        yield tr(
            "All-reduces of {needed} in place of {assumed} would meet it.",
            needed=_us(needed),
            assumed=_us(USUAL_ALL_REDUCE_S),
        )


def _disagreeing(group: Sequence[Compared]) -> Iterator[str]:
    """Rows of one and the same setting that differ among themselves."""
    settings: dict[tuple[object, ...], list[float]] = {}
    for one in group:
        row = one.row
        key = (row.devices, row.batch, row.context, row.cache)
        settings.setdefault(key, []).append(row.step_s)
    apart = [times for times in settings.values() if max(times) > _SAME_SETTING * min(times)]
    if apart:
        times = max(apart, key=lambda times: max(times) / min(times))
        yield trn(
            "One setting is published with {count} time, {low} to {high}: versions of the engine that the estimate "
            "does not tell apart.",
            "One setting is published with {count} times, {low} to {high}: versions of the engine that the estimate "
            "does not tell apart.",
            len(times),
            low=_ms(min(times)),
            high=_ms(max(times)),
        )


def _us(seconds: float) -> str:
    micro = seconds * 1e6
    return f"{micro:.2g} µs" if micro < 100 else f"{micro:,.0f} µs"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
