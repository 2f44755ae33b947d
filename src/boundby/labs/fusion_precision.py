"""Copying as many elements in fp32 and in bf16: half the bytes, and where bytes bind, half the time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from boundby.api import count, time_calls
from boundby.labs.lab import Settings, cpu_threads
from boundby.labs.rows import is_unsteady, noise_notes, times_data
from boundby.labs.sentences import followed_by
from boundby.machine.bf16 import computes_in_bf16
from boundby.report.chart import Axis, Bar, Chart
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.call_time import CallTime
from boundby.results.language import tr
from boundby.results.units import format_si, format_time

ELEMENTS, QUICK_ELEMENTS = 2**25, 2**24
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Rates within this factor of each other are about equal, and a time within it of a half is about a half.
_ABOUT = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copying in one dtype: bytes read and written by count, and the time, None where it cannot be done here."""

    dtype: str
    element_bytes: int
    moved_bytes: int
    time: CallTime | None = None
    failure: str = ""

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes read and written over the fastest time."""
        return None if self.time is None else self.moved_bytes / self.time.fastest_s


def show(settings: Settings) -> Shown:
    """Copies 2^25 elements (2^24 where it is to be quick) in fp32 and in bf16, in turns."""
    elements = QUICK_ELEMENTS if settings.quick else ELEMENTS
    copies = measure(settings, elements)
    return Shown(
        about=(
            tr(
                "copy_ of {elements} elements into a tensor that is there already, in fp32 (4 bytes an element) and in "
                "bf16 (2 bytes). A copy reads and writes each element once and computes nothing: the purest case of "
                "what memory binds.",
                elements=f"{elements:,}",
            ),
        ),
        blocks=(_table(copies), _chart(copies)),
        observations=tuple(_observations(copies, settings.device, cpu_threads(settings))),
        data={
            "elements": elements,
            "computes_in_bf16": computes_in_bf16(settings.device),
            "copies": [
                {
                    "dtype": one.dtype,
                    "moved_bytes": one.moved_bytes,
                    "bytes_per_s": one.bytes_per_s,
                    **times_data(one.time),
                }
                for one in copies
            ],
        },
    )


def measure(settings: Settings, elements: int) -> tuple[Copy, ...]:
    """The copies in turns; one that the device cannot do has its reason."""
    source = torch.randn(elements, generator=torch.Generator().manual_seed(0)).to(settings.device)
    settings.progress(0.2)
    counted = [_counted(name, dtype) for name, dtype in DTYPES.items()]
    calls: dict[str, Callable[[], object]] = {}
    failures: dict[str, str] = {}
    for name, dtype in DTYPES.items():
        try:
            calls[name] = copying(source, dtype)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            failures[name] = str(error).strip().partition("\n")[0] or type(error).__name__
    settings.progress(0.4)
    timed = time_calls(*calls.values(), round_s=settings.round_s, device=settings.device)
    settings.progress(1.0)
    times = dict(zip(calls, timed, strict=True))
    return tuple(
        Copy(
            dtype=name,
            element_bytes=size,
            moved_bytes=size_moved * elements,
            time=times.get(name),
            failure=failures.get(name, ""),
        )
        for name, size, size_moved in counted
    )


def copying(source: torch.Tensor, dtype: torch.dtype) -> Callable[[], object]:
    """What copies ``source`` in another dtype, between two tensors that are there.

    Raises:
        RuntimeError, TypeError, NotImplementedError: the device does not hold that dtype.
    """
    given = source.to(dtype)
    target = torch.zeros_like(given)
    return partial(target.copy_, given)


def _counted(name: str, dtype: torch.dtype) -> tuple[str, int, int]:
    """A dtype with the bytes of an element and those that copying one moves, by boundby's count."""
    elements = 1024
    counts = count(torch.empty(elements, dtype=dtype).copy_, torch.zeros(elements, dtype=dtype))
    return name, dtype.itemsize, (counts.bytes_read + counts.bytes_written) // elements


def _table(copies: tuple[Copy, ...]) -> LabTable:
    return LabTable(
        caption="",
        head=(tr("dtype"), tr("an element"), tr("bytes moved"), tr("time"), tr("rate"), tr("median")),
        rows=tuple(
            (
                one.dtype,
                f"{one.element_bytes} B",
                format_si(one.moved_bytes, "B"),
                tr("not possible") if one.time is None else format_time(one.time.fastest_s),
                "" if one.bytes_per_s is None else format_si(one.bytes_per_s, "B/s"),
                "" if one.time is None else format_time(one.time.median_s),
            )
            for one in copies
        ),
        timed=(3, 4, 5),
        files_only=(5,),
    )


def _observations(copies: tuple[Copy, ...], device: str, threads: int | None) -> Iterator[Line]:
    full, half = copies
    for one in copies:
        if one.time is None:
            text = tr("This device does not copy {dtype}: {failure}", dtype=one.dtype, failure=one.failure)
            yield Line(text=text, timed=True)
    if full.time is not None and half.time is not None:
        yield Line(text=_compared(full, full.time, half, half.time), timed=True)
    yield Line(text=_hardware(computes_in_bf16(device)), timed=True)
    yield Line(
        text=tr(
            "The price is precision: bf16 has the range of fp32 and keeps 8 significant bits, so that a number is off "
            "by up to {bf16}, in fp32 by up to {fp32}.",
            bf16=f"{50 * torch.finfo(torch.bfloat16).eps:.2g}%",
            fp32=f"{50 * torch.finfo(torch.float32).eps:.6f}%",
        )
    )
    yield from noise_notes([one.time for one in copies if one.time is not None], threads=threads)


def _compared(full: Copy, full_time: CallTime, half: Copy, half_time: CallTime) -> str:
    share = half_time.fastest_s / full_time.fastest_s
    told = tr(
        "bf16 took {half}, {share} of the {full} of fp32, for half the bytes ({half_rate} and {full_rate}).",
        half=format_time(half_time.fastest_s),
        share=f"{share:.2f}",
        full=format_time(full_time.fastest_s),
        half_rate=format_si(half.bytes_per_s, "B/s"),
        full_rate=format_si(full.bytes_per_s, "B/s"),
    )
    if is_unsteady(half_time, full_time):
        why = tr("That differs too much from turn to turn to say why.")
    elif 0.5 / _ABOUT <= share <= 0.5 * _ABOUT:
        why = tr("About the same rate and half the time: bytes bind, and bf16 has half of them.")
    elif share < 0.5:
        why = tr("Less than half the time: the smaller data moved at a higher rate, as where caches hold more of it.")
    else:
        why = tr(
            "The lecture expects a half. Here the rate of bf16 is lower, so that more than bytes bind: the copy of "
            "this dtype itself, or a machine busy with other things while it ran."
        )
    return followed_by(told, why)


def _hardware(computes: bool | None) -> str:
    if computes:
        return tr(
            "This device also computes in bf16 itself, which a copy does not need; what its products gain is in "
            "`boundby machine`."
        )
    if computes is None:
        return tr("Whether this device computes in bf16 itself is not known; a copy does not need it.")
    return tr(
        "This device has no bf16 arithmetic: ops on bf16 convert to fp32 and back, so that computing gains nothing and "
        "may lose. A copy computes nothing, and the bytes are half all the same."
    )


def _chart(copies: tuple[Copy, ...]) -> Chart:
    timed = [(one, one.bytes_per_s) for one in copies if one.bytes_per_s is not None and one.time is not None]
    return Chart(
        name="fusion-precision",
        title=tr("Rate of a copy by dtype"),
        summary=tr(
            "Bytes read and written a second: {rates}.",
            rates=tr(", ").join(f"{one.dtype} {format_si(rate, 'B/s')}" for one, rate in timed),
        ),
        x=Axis(name=tr("bytes read and written a second"), unit="byte/s"),
        y=Axis(name=tr("dtype"), scale="category", categories=tuple(one.dtype for one, _ in timed)),
        bars=tuple(
            Bar(
                category=one.dtype,
                value=rate,
                low=None if one.time is None else min(rate, one.moved_bytes / one.time.slowest_s),
                high=rate,
                group=one.dtype,
                label="" if one.time is None else format_time(one.time.fastest_s),
            )
            for one, rate in timed
        ),
    )
