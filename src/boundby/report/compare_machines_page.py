"""Two machines side by side on a page."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.compare_parts import SIDE_WIDTH, SIZES, more_in_json, render_findings, side_name
from boundby.report.page import bullets, heading
from boundby.report.safe_text import clean
from boundby.results.comparison import CeilingChange, MachineComparison
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.units import digits_for, format_percent, format_rate, format_size

_SHOWN_CEILINGS = 12
# What is not told apart and off by no more than this is called no difference.
_ALIKE = 0.15


def render_machines(found: MachineComparison, *, unicode: bool) -> Iterator[RenderableType]:
    """The answer, what is not the same of the machines, the main limits, those that differ, and how far to trust it.

    Args:
        found: the comparison.
        unicode: whether characters beyond ASCII may be written.
    """
    yield Text(clean(found.sentence, unicode=unicode), style="bold")
    if found.description:
        yield ""
        yield heading(tr("The machines"), tr("what is not the same"))
        yield _sides_table(
            found,
            (
                (
                    _fact_name(one.name),
                    _fact(one.name, one.a, unicode=unicode),
                    _fact(one.name, one.b, unicode=unicode),
                    "",
                )
                for one in found.description
            ),
            unicode=unicode,
        )
    if found.main:
        yield ""
        yield heading(tr("Main limits"), tr("peaks over the shapes tried, main memory, an op on almost nothing"))
        yield _ceilings(found, found.main, unicode=unicode)
    differing = [one for one in found.ceilings if one.differs]
    if differing:
        yield ""
        yield heading(tr("All limits that differ"), tr("most different first"))
        yield _ceilings(found, tuple(differing[:_SHOWN_CEILINGS]), unicode=unicode, detailed=True)
        if len(differing) > _SHOWN_CEILINGS:
            yield more_in_json(len(differing) - _SHOWN_CEILINGS)
    yield ""
    yield heading(tr("How far to trust this"))
    told = trn(
        "{count} of the {limits} that both have differs: the interval of the ratio does not hold 1. It is made of both "
        "bands and {more} more, by which two measurings of one machine differ.",
        "{count} of the {limits} that both have differ: the interval of the ratio does not hold 1. It is made of both "
        "bands and {more} more, by which two measurings of one machine differ.",
        len(differing),
        limits=trn("{count} limit", "{count} limits", len(found.ceilings)),
        more=format_percent(found.between_runs),
    )
    notes = [told]
    if found.only_a or found.only_b:
        notes.append(
            tr(
                "Not compared, as one side alone has them: {only_a} of {a}, {only_b} of {b}.",
                only_a=str(found.only_a),
                a=found.a.name,
                only_b=str(found.only_b),
                b=found.b.name,
            )
        )
    if any(not one.measured for one in found.ceilings):
        notes.append(tr("Limits marked {mark} were not measured on one side or both.", mark="[m]"))
    yield bullets(((Text(clean(text, unicode=unicode)), "") for text in notes), mark="  -", mark_width=4)
    yield from render_findings(found.findings, unicode=unicode)


def _ceilings(
    found: MachineComparison, changes: tuple[CeilingChange, ...], *, unicode: bool, detailed: bool = False
) -> Table:
    return _sides_table(
        found,
        (
            (
                _limit(one, detailed=detailed),
                _rate(one.a, one.unit, unicode=unicode),
                _rate(one.b, one.unit, unicode=unicode) + ("" if one.measured else " [m]"),
                _faster(one),
            )
            for one in changes
        ),
        unicode=unicode,
    )


def _sides_table(found: MachineComparison, rows: Iterator[tuple[str, str, str, str]], *, unicode: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(overflow="fold", max_width=SIDE_WIDTH)
    table.add_column(overflow="fold")
    table.add_row(
        "", *(Text(side_name(side, SIDE_WIDTH, unicode=unicode), style="dim") for side in (found.a, found.b)), ""
    )
    for name, a, b, how in rows:
        table.add_row(Text(f"  {clean(name, unicode=unicode)}"), Text(a), Text(b), Text(how, style="bold"))
    return table


def _limit(change: CeilingChange, *, detailed: bool) -> str:
    """What the limit is of, in words: ``matmul fp32``, ``triad of 64 MiB``, ``overhead of view``."""
    name = _traffic_or_op(change.name)
    stack = "" if change.stack == "torch" else f", {change.stack}"
    dtype = f" {change.dtype}" if change.dtype and (detailed or change.kind == "matmul") else ""
    if change.kind == "matmul":
        shape = ""
        if detailed and change.shape:
            batch, m, n, k = (*change.shape, 1, 1, 1, 1)[:4]
            shape = f" {f'{batch}x' if batch > 1 else ''}{m}x{k}x{n}"
        return f"{name if detailed else 'matmul'}{dtype}{shape}{stack}"
    if change.kind == "bandwidth":
        if not detailed:
            return tr("memory, {traffic}", traffic=name) + stack
        if change.size_bytes is not None:
            name = tr("{traffic} of {size}", traffic=name, size=format_size(change.size_bytes))
        return f"{name}{stack}"
    if change.kind in ("overhead", "launch"):
        if change.name == "page_fault":
            return tr("page fault")
        if change.name == "parallel_region":
            return tr("parallel region")
        return f"{name}{stack}" if detailed else tr("{kind} op", kind=name) + stack
    return f"{name}{dtype}{stack}"


def _traffic_or_op(name: str) -> str:
    return {
        "read": tr("read"),
        "write": tr("write"),
        "copy": tr("copy"),
        "inplace": tr("inplace"),
    }.get(name, name.replace("_", " "))


def _rate(value: Interval, unit: str, *, unicode: bool) -> str:
    return format_rate(value.value, unit, digits=digits_for(value.value, value.low, value.high), unicode=unicode)


def _faster(change: CeilingChange) -> str:
    if not change.differs:
        # As far off as this and not told apart: the bands are wide, and nothing is known of it.
        far = max(change.ratio.value, 1 / change.ratio.value) > 1 + _ALIKE
        return tr("cannot tell") if far else tr("no difference")
    faster = change.faster
    if faster.value >= 1:
        return tr("{times} faster ({band})", times=_times(faster.value), band=_band(faster.low, faster.high))
    return tr("{times} slower ({band})", times=_times(1 / faster.value), band=_band(1 / faster.high, 1 / faster.low))


def _band(low: float, high: float) -> str:
    return f"{_times(low).removesuffix('x')}-{_times(high)}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 9.995 else f"{ratio:,.0f}x"


def _fact_name(name: str) -> str:
    return {
        "cpu": tr("processor"),
        "device": tr("device"),
        "usable_cores": tr("usable cores"),
        "logical_cores": tr("logical cores"),
        "memory_bytes": tr("memory"),
        "memory_limit_bytes": tr("memory limit"),
        "os": tr("system"),
        "threads": tr("threads"),
    }.get(name, name.replace("_", " "))


def _fact(name: str, value: str | int | None, *, unicode: bool) -> str:
    if value is None:
        return tr("none") if name == "memory_limit_bytes" else tr("unknown")
    if name in SIZES and isinstance(value, int):
        return format_size(value)
    return clean(str(value), unicode=unicode)
