"""Lab `measure`, demonstration 1: square matrix products, from those that are overhead to those that are compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import boundby
from boundby.labs.lab import Settings
from boundby.labs.rows import goes_down, last_flat, noise_notes, times_data
from boundby.report.chart import Axis, Chart
from boundby.report.chart import Line as Curve
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.units import format_number, format_percent, format_si, format_size, format_time

NAME = "matmul"
SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
# Where no table was made before, the peak is looked for among these alone.
PEAK_SIZES = (512, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product of two n x n matrices: its work on paper, and its time."""

    n: int
    flops: int
    moved_bytes: int
    time: CallTime

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.moved_bytes

    @property
    def flops_per_s(self) -> float:
        """The rate of the fastest round."""
        return self.flops / self.time.fastest_s


def time_products(settings: Settings, sizes: Sequence[int]) -> tuple[Product, ...]:
    """Times ``torch.mm`` of n x n matrices of random numbers, into a result that exists already, for each n."""
    products = []
    for done, n in enumerate(sizes):
        settings.progress(done / len(sizes))
        generator = torch.Generator().manual_seed(n)
        a, b = (torch.rand(n, n, generator=generator) - 0.5 for _ in range(2))
        out = torch.empty(n, n)

        def product(a: torch.Tensor = a, b: torch.Tensor = b, out: torch.Tensor = out) -> None:
            torch.mm(a, b, out=out)

        counts = boundby.count(product)
        (time,) = boundby.time_calls(product, round_s=settings.round_s)
        products.append(
            Product(n=n, flops=counts.matmul_flops, moved_bytes=counts.bytes_read + counts.bytes_written, time=time)
        )
    return tuple(products)


def matmul_peak(settings: Settings) -> float:
    """The highest rate of a product (FLOP/s): what was found before, or measured now on large ones."""
    if NAME in settings.earlier:
        return float(settings.earlier[NAME]["peak_flops_per_s"])
    aside = replace(settings, progress=lambda share: None)
    return max(product.flops_per_s for product in time_products(aside, PEAK_SIZES))


def show(settings: Settings) -> Shown:
    """Times the products and says where the call binds and where the arithmetic does."""
    products = time_products(settings, SIZES)
    peak = max(products, key=lambda one: one.flops_per_s)
    return Shown(
        about=(
            tr(
                "An n x n matrix times another is 2n^3 FLOP on 3n^2 numbers of 4 bytes: n/6 FLOP for each byte. Watch "
                "how little the time changes while n is small, and where the rate stops rising."
            ),
        ),
        blocks=(_table(products), _chart(products, peak)),
        observations=(*_observations(products, peak), *noise_notes([one.time for one in products], one_thread=True)),
        data={
            "peak_flops_per_s": peak.flops_per_s,
            "peak_at_n": peak.n,
            "rows": [_row_data(product) for product in products],
        },
    )


def _row_data(product: Product) -> dict[str, Any]:
    return {
        "n": product.n,
        "matmul_flops": product.flops,
        "flop_per_byte": product.intensity,
        **times_data(product.time),
        "flops_per_s": product.flops_per_s,
    }


def _table(products: Sequence[Product]) -> LabTable:
    return LabTable(
        caption="",
        head=("n", tr("FLOP"), tr("FLOP/byte"), tr("time"), tr("median"), "GFLOP/s"),
        rows=tuple(
            (
                str(one.n),
                f"{one.flops:,}",
                format_number(one.intensity),
                format_time(one.time.fastest_s),
                format_time(one.time.median_s),
                format_number(one.flops_per_s / 1e9),
            )
            for one in products
        ),
        timed=(3, 4, 5),
        files_only=(4,),
        left=(),
    )


def _observations(products: Sequence[Product], peak: Product) -> list[Line]:
    first = products[0]
    told = []
    times = [one.time for one in products]
    flat = products[last_flat(times)]
    if goes_down(times[: products.index(flat) + 1]):
        told.append(
            tr(
                "Up to n = {flat} the time goes down somewhere as the work grows ({least} to {most}): too unsteady to "
                "say what a call costs.",
                flat=str(flat.n),
                least=format_time(min(one.time.fastest_s for one in products if one.n <= flat.n), digits=2),
                most=format_time(max(one.time.fastest_s for one in products if one.n <= flat.n), digits=2),
            )
        )
    elif flat is not first:
        told.append(
            tr(
                "From n = {first} to n = {flat} the work grows {work}-fold and the time {time}-fold: the cost of a "
                "call ({cost}) binds there, not the arithmetic.",
                first=str(first.n),
                flat=str(flat.n),
                work=f"{flat.flops // first.flops:,}",
                time=format_number(flat.time.fastest_s / first.time.fastest_s, digits=2),
                cost=format_time(first.time.fastest_s, digits=2),
            )
        )
    else:
        told.append(
            tr(
                "Here the time more than doubles from n = {first} to n = {second} already: the cost of a call is small "
                "beside the work.",
                first=str(first.n),
                second=str(products[1].n),
            )
        )
    told.append(
        tr(
            "The highest rate is {peak}, at n = {n}; at n = {first} it is {share} of that.",
            peak=format_si(peak.flops_per_s, "FLOP/s"),
            n=str(peak.n),
            first=str(first.n),
            share=format_percent(first.flops_per_s / peak.flops_per_s),
        )
    )
    told.append(_at_the_end(products, peak))
    return [Line(text=text, timed=True) for text in told]


def _at_the_end(products: Sequence[Product], peak: Product) -> str:
    """What the largest sizes say: that they still rise, that they have reached a ceiling, or that they fall back."""
    before, last = products[-2:]
    if peak is last and last.flops_per_s > 1.1 * before.flops_per_s:
        return tr(
            "From n = {before} to n = {last} it still rises by {rise}: larger products would come nearer to what this "
            "core can do.",
            before=str(before.n),
            last=str(last.n),
            rise=format_percent(last.flops_per_s / before.flops_per_s - 1),
        )
    if last.flops_per_s < 0.8 * peak.flops_per_s:
        return tr(
            "At n = {last} it falls back to {share} of that: three matrices of {size} each outgrow a cache, or "
            "something else ran on this machine.",
            last=str(last.n),
            share=format_percent(last.flops_per_s / peak.flops_per_s),
            size=format_size(last.moved_bytes / 3),
        )
    low = [one.n for one in products if one.flops_per_s < 0.8 * peak.flops_per_s]
    near = [one for one in products if one.n > max(low, default=0)]
    if near[0] is last:
        return tr(
            "At n = {last}, the largest, it is {share} of that.",
            last=str(last.n),
            share=format_percent(last.flops_per_s / peak.flops_per_s),
        )
    return tr(
        "From n = {near} on, products reach {share} of it or more: this is the ceiling of matrix products here.",
        near=str(near[0].n),
        share=format_percent(min(one.flops_per_s for one in near) / peak.flops_per_s),
    )


def _chart(products: Sequence[Product], peak: Product) -> Chart:
    sizes = tuple(float(one.n) for one in products)
    return Chart(
        name="matmul-rate",
        title=tr("Rate of a matrix product against its size"),
        summary=tr(
            "The rate rises from {low} at n = {first} to {high} at n = {n}.",
            low=format_si(products[0].flops_per_s, "FLOP/s"),
            first=str(products[0].n),
            high=format_si(peak.flops_per_s, "FLOP/s"),
            n=str(peak.n),
        ),
        x=Axis(name=tr("n, rows and columns"), scale="log"),
        y=Axis(name=tr("rate"), unit="flop/s", scale="log"),
        lines=(
            Curve(
                name=tr("fastest round, down to the slowest"),
                x=sizes,
                y=tuple(one.flops_per_s for one in products),
                low=tuple(one.flops / one.time.slowest_s for one in products),
                high=tuple(one.flops_per_s for one in products),
            ),
            Curve(
                name=tr("ceiling: the highest rate"),
                x=(sizes[0], sizes[-1]),
                y=(peak.flops_per_s, peak.flops_per_s),
                points=False,
            ),
        ),
    )
