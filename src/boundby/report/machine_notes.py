"""What stands under the tables of a machine: shapes, sizes, the hardware beside the stack, and what threads bring."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from boundby.report.machine_summary import SUSTAINED, best_products, is_main, of_kind, typical_curve
from boundby.report.peaks import best_product, half_performance_size
from boundby.report.safe_text import clean
from boundby.results.language import tr
from boundby.results.machine import Ceiling, Machine
from boundby.results.units import format_percent, format_percent_range, format_ratio, format_size
from boundby.scaling.serial_shares import SerialShare, serial_shares

_NATIVE = "native"
_TRAFFIC = ("read", "write", "copy", "inplace", "triad")
# Working sets this near in size are compared.
_SAME_SIZE = 1.5
_SHOWN_DTYPES = 4
# More times as fast with so many threads than there are threads, and both were not measured in one state.
_TOO_FAST = 1.15


def product_notes(machine: Machine, *, unicode: bool) -> Iterator[str]:
    """The best shape of each dtype, from which size half of it is reached, and the share of the hardware.

    Args:
        machine: the ceilings.
        unicode: whether characters beyond ASCII may be written.
    """
    threads = machine.description.threads
    dtypes = list(dict.fromkeys(dtype for _, dtype in best_products(machine)))
    best = {dtype: one for dtype in dtypes if (one := best_product(machine.ceilings, dtype, threads=threads))}
    best = dict(sorted(best.items(), key=lambda item: -item[1].value))
    if not best:
        return
    shapes = ", ".join(f"{dtype} {_shape(one)}" for dtype, one in list(best.items())[:_SHOWN_DTYPES])
    yield clean(tr("fastest mm (m x n x k): {shapes}", shapes=shapes), unicode=unicode)
    halves = {dtype: half_performance_size(machine.ceilings, dtype, threads=threads) for dtype in best}
    known = ", ".join(f"{dtype} {round(half.value)}" for dtype, half in halves.items() if half is not None)
    if known:
        yield clean(tr("half of the fastest square's rate from n of: {known}", known=known), unicode=unicode)
    shares = [
        f"{dtype} {format_percent(one.value / native.value)}"
        for dtype, one in best.items()
        if (native := _fastest(machine, dtype)) is not None
    ]
    if shares:
        yield clean(
            tr("of the hardware's multiply-adds (native code): {shares}", shares=", ".join(shares)), unicode=unicode
        )
    lasting = [
        f"{one.dtype} {format_percent(one.value / best[one.dtype].value)}"
        for one in of_kind(machine, "matmul")
        if one.name.endswith(SUSTAINED) and is_main(one, machine) and one.dtype in best
    ]
    if lasting:
        yield clean(
            tr("of the fastest mm after seconds without a rest: {lasting}", lasting=", ".join(lasting)), unicode=unicode
        )
    yield from _threads_note(machine, list(best.values()), "matmul", unicode=unicode)


def bandwidth_notes(machine: Machine, *, unicode: bool) -> Iterator[str]:
    """The share of the hardware in main memory, and what threads bring there.

    Args:
        machine: the ceilings.
        unicode: whether characters beyond ASCII may be written.
    """
    curve = typical_curve(machine)
    if not curve:
        return
    size = curve[-1].size_bytes or 0
    streams = [one for one in of_kind(machine, "bandwidth") if one.size_bytes and one.name in _TRAFFIC]
    main = {one.name: one for one in streams if is_main(one, machine) and one.size_bytes == size}
    shares = [
        f"{name} {format_percent(one.value / native.value)}"
        for name, one in main.items()
        if (native := _native_stream(machine, one)) is not None
    ]
    if shares:
        text = tr(
            "of what the hardware moves (native code) at {size}: {shares}",
            size=format_size(size),
            shares=", ".join(shares),
        )
        yield clean(text, unicode=unicode)
    yield from _threads_note(machine, list(main.values()), "bandwidth", unicode=unicode)


def _shape(ceiling: Ceiling) -> str:
    batch, *sizes = ceiling.shape or (1,)
    shape = "x".join(map(str, sizes))
    return shape if batch == 1 else tr("{count} of {shape}", count=f"{batch}", shape=shape)


def _fastest(machine: Machine, dtype: str) -> Ceiling | None:
    """The most multiply-adds of a dtype that native code does."""
    native = [
        one
        for one in of_kind(machine, "matmul")
        if one.stack == _NATIVE and one.dtype == dtype and one.threads == machine.description.threads
    ]
    return max(native, key=lambda one: one.value, default=None)


def _native_stream(machine: Machine, stream: Ceiling) -> Ceiling | None:
    """The fastest native stream of the same kind and about the same size, with or without caching stores."""
    native = [
        one
        for one in of_kind(machine, "bandwidth")
        if one.stack == _NATIVE
        and one.threads == stream.threads
        and one.name in (stream.name, f"{stream.name}_nt")
        and one.size_bytes
        and abs(math.log(one.size_bytes / (stream.size_bytes or 1))) < math.log(_SAME_SIZE)
    ]
    return max(native, key=lambda one: one.value, default=None)


def _threads_note(machine: Machine, shown: list[Ceiling], kind: str, *, unicode: bool) -> Iterator[str]:
    """How many times as fast they are as with one thread."""
    threads = machine.description.threads
    ratios: dict[str, SerialShare] = {}
    for share in serial_shares(machine.ceilings):
        name = share.many.dtype if kind == "matmul" else share.many.name
        if share.many.threads == threads and any(share.many is one for one in shown):
            ratios.setdefault(str(name), share)
    if ratios:
        told = ", ".join(f"{name} {format_ratio(one.speedup.value)}" for name, one in ratios.items())
        low, high = (median([getattr(one.serial_share, end) for one in ratios.values()]) for end in ("low", "high"))
        serial = tr("no serial share to be seen")
        if high > 1 or any(one.speedup.value > _TOO_FAST * threads for one in ratios.values()):
            serial = tr("measured at moments too unlike for a serial share")
        elif high > 0:
            serial = tr("serial share {share}", share=format_percent_range(max(0.0, low), high))
        text = tr("{threads} threads against 1: {told}; {serial}", threads=threads, told=told, serial=serial)
        yield clean(text, unicode=unicode)
