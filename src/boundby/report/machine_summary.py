"""A machine in a few lines: how fast it multiplies, how fast it moves bytes, and when which of them binds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.levels import Level, bandwidth_levels
from boundby.report.page import heading
from boundby.report.safe_text import clean
from boundby.results.language import tr
from boundby.results.machine import Ceiling, CeilingKind, Finding, Machine, Mode, reaches_main_memory
from boundby.results.units import digits_for, format_rate, format_si, format_size

OVERHEAD_KINDS = (
    "pointwise",
    "view",
    "matmul",
    "reduction",
    "inplace",
    "copy",
    "empty",
    "index",
    "softmax",
    "norm",
    "attention",
    "convolution",
    "foreach",
    "fused_optimizer",
    "random",
)
"""Kinds of op whose overhead tells most, first the one that an op has at least."""

SUSTAINED = "_sustained"
"""How the names of ceilings end that are of seconds without a rest."""

# The ops whose bandwidth stands for a level of memory: triad reads two streams and writes one, as STREAM does.
_TYPICAL_TRAFFIC = ("triad", "copy", "read")
_SHOWN_DTYPES = 5
_SHOWN_RIDGES = 4
_PAGE_FAULT = "page_fault"
_PARALLEL_REGION = "parallel_region"

_Products: TypeAlias = dict[tuple[str, str], Ceiling]


def source_words(source: str) -> str:
    """How a figure was got, in the language in use."""
    return {"measured": tr("measured"), "modelled": tr("modelled"), "datasheet": tr("datasheet")}[source]


def mode_words(mode: Mode) -> str:
    """How thoroughly a machine was measured, in the language in use."""
    return {"quick": tr("quick"), "default": tr("default"), "full": tr("full")}[mode]


def finding_words(found: Finding) -> str:
    """A finding with its advice, where it has any, and its code."""
    text = found.message
    if found.advice:
        text = tr("{first} {then}", first=text, then=found.advice)
    return f"{text} [{found.code}]"


def of_kind(machine: Machine, *kinds: CeilingKind) -> list[Ceiling]:
    """The machine's ceilings of these kinds, in their order."""
    return [ceiling for ceiling in machine.ceilings if ceiling.kind in kinds]


def is_main(ceiling: Ceiling, machine: Machine) -> bool:
    """Whether a ceiling is of eager torch at the thread count the machine was measured for; others stand beside."""
    return ceiling.stack == "torch" and ceiling.threads == machine.description.threads


def best_products(machine: Machine) -> _Products:
    """The fastest ceiling (FLOP/s) of each product and dtype, over the shapes that were tried."""
    best: _Products = {}
    for one in of_kind(machine, "matmul"):
        place = (one.name, one.dtype or tr("any"))
        if not is_main(one, machine) or one.name.endswith(SUSTAINED):
            continue
        if one.unit == "flop/s" and (place not in best or one.value > best[place].value):
            best[place] = one
    return best


def _overhead_text(machine: Machine, name: str, *, unicode: bool) -> str | None:
    """The overhead of that name with its mark; None where it was not measured."""
    one = next((one for one in of_kind(machine, "overhead") if one.name == name), None)
    return None if one is None else f"{_rate(one, unicode=unicode)}{_mark(one)}"


def render_summary(machine: Machine, *, unicode: bool) -> Iterator[RenderableType]:
    """The peaks, the ridge points and the size under which an op is mostly overhead, as far as they are known.

    Args:
        machine: what to summarise.
        unicode: whether characters beyond ASCII may be written.
    """
    peaks = _peaks(machine)
    levels = typical_curve(machine)
    lines = []
    if peaks:
        rates = [(_rate(one, unicode=unicode), f"{clean(dtype, unicode=unicode)}{_mark(one)}") for dtype, one in peaks]
        lines.append((tr("matmul"), tr("at most {rates}", rates=_in_one_unit(rates))))
    if levels:
        main = levels[-1]
        rate = f"{_rate(main, unicode=unicode)}{_mark(main)}"
        text = tr("{rate} from main memory", rate=rate)
        if not reaches_main_memory(machine):
            text = tr(
                "{rate} up to {size}, the largest set measured: main memory was not reached",
                rate=rate,
                size=format_size(main.size_bytes or 0, digits=2),
            )
        caches = [level for level in levels_of(levels) if level.bytes_per_s.value > main.value]
        fastest = max(levels, key=lambda one: one.value)
        if caches:
            levels_told = [
                tr("{rate} up to {size}", rate=f"{_level_rate(one)}{_mark(main)}", size=_level_size(one))
                for one in caches
            ]
            text = ", ".join((text, *levels_told))
        elif fastest.value > main.value:
            rate = f"{_rate(fastest, unicode=unicode)}{_mark(fastest)}"
            text = tr("{main}, up to {rate} from caches", main=text, rate=rate)
        lines.append((tr("memory"), f"{text} ({clean(main.name, unicode=unicode)})"))
    if peaks and levels and reaches_main_memory(machine):
        ridges = [
            (
                format_si(one.value / levels[-1].value, "FLOP/byte", digits=2),
                f"{clean(dtype, unicode=unicode)}{_mark(one, levels[-1])}",
            )
            for dtype, one in peaks[:_SHOWN_RIDGES]
        ]
        lines.append((tr("ridge"), tr("{places}: memory binds below", places=_in_one_unit(ridges))))
    least = _least_overhead(machine)
    if least is not None:
        text = tr(
            "takes {time} where it is pointwise, {low} to {high} by which it is",
            time=f"{_rate(least, unicode=unicode)}{_mark(least)}",
            low=format_rate(least.low, least.unit, digits=2, unicode=unicode),
            high=format_rate(least.high, least.unit, digits=2, unicode=unicode),
        )
        if levels:
            size, bandwidth = _break_even(least, levels)
            text = tr(
                "{takes}; at {time} that is most of its time below {size} of data",
                takes=text,
                time=_rate(least, unicode=unicode),
                size=format_size(size, digits=2),
            )
            text += _mark(least, bandwidth)
        lines.append((tr("an op"), text))
    fault = _overhead_text(machine, _PAGE_FAULT, unicode=unicode)
    if fault is not None:
        text = tr("takes {time} the first time it is written (page fault)", time=fault)
        if machine.description.threads > 1:
            text = tr("{takes}, where {threads} threads write", takes=text, threads=machine.description.threads)
        lines.append((tr("a page"), text))
    region = _overhead_text(machine, _PARALLEL_REGION, unicode=unicode)
    if region is not None:
        text = tr("take {time} to share an op out and to wait for each other (parallel region)", time=region)
        lines.append((tr("threads"), text))
    if not lines:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(Text(f"  {name}"), Text(text))
    yield ""
    yield heading(tr("In short"))
    yield table


def _in_one_unit(figures: list[tuple[str, str]]) -> str:
    """Figures, each a number with its unit and what it is of, the unit only once where all share it."""
    numbers, units = zip(*(figure.split(" ", 1) for figure, _ in figures), strict=True)
    if len(set(units)) > 1:
        return ", ".join(f"{figure} {name}" for figure, name in figures)
    return f"{', '.join(f'{number} {name}' for number, (_, name) in zip(numbers, figures, strict=True))} {units[0]}"


def _peaks(machine: Machine) -> list[tuple[str, Ceiling]]:
    """The fastest product of each dtype, fastest dtype first."""
    peaks: dict[str, Ceiling] = {}
    for (_, dtype), one in best_products(machine).items():
        if dtype not in peaks or one.value > peaks[dtype].value:
            peaks[dtype] = one
    return sorted(peaks.items(), key=lambda item: -item[1].value)[:_SHOWN_DTYPES]


def typical_curve(machine: Machine) -> list[Ceiling]:
    """The bandwidth of one kind of traffic at each size, smallest first; the last is main memory's."""
    ceilings = [one for one in of_kind(machine, "bandwidth") if one.size_bytes is not None and is_main(one, machine)]
    names = [*_TYPICAL_TRAFFIC, *(one.name for one in ceilings)]
    for name in names:
        levels = [one for one in ceilings if one.name == name]
        if levels:
            return sorted(levels, key=lambda one: one.size_bytes or 0)
    return []


def levels_of(curve: list[Ceiling]) -> list[Level]:
    """The levels of memory in a curve, the fastest first, without the one that ends with the curve."""
    if not curve:
        return []
    main = curve[-1]
    levels = bandwidth_levels(curve, main.name, threads=main.threads, stack=main.stack)
    return [level for level in levels if not level.open_ended]


def _level_rate(level: Level) -> str:
    rate = level.bytes_per_s
    return format_rate(rate.value, "byte/s", digits=digits_for(rate.value, rate.low, rate.high))


def _level_size(level: Level) -> str:
    return format_size(level.largest_bytes, digits=2)


def _least_overhead(machine: Machine) -> Ceiling | None:
    known = {one.name: one for one in of_kind(machine, "overhead", "launch") if is_main(one, machine)}
    return known.get(OVERHEAD_KINDS[0])


def _break_even(overhead: Ceiling, levels: list[Ceiling]) -> tuple[float, Ceiling]:
    """The bytes that take as long to move as the op to start, and the bandwidth that this rests on.

    Source: traffic time equals overhead, bytes = seconds per op x bytes per second, at the first size that is large
    enough for its own bandwidth to hold.
    """
    for level in levels:
        if overhead.value * level.value <= (level.size_bytes or 0):
            return overhead.value * level.value, level
    return overhead.value * levels[-1].value, levels[-1]


def _rate(ceiling: Ceiling, *, unicode: bool) -> str:
    digits = digits_for(ceiling.value, ceiling.low, ceiling.high)
    return format_rate(ceiling.value, ceiling.unit, digits=digits, unicode=unicode)


def _mark(*ceilings: Ceiling) -> str:
    """Says of a figure that rests on something that was not measured what that was."""
    sources = sorted({one.source for one in ceilings} - {"measured"})
    return f" [{', '.join(map(source_words, sources))}]" if sources else ""
