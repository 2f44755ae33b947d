"""Time against one argument of a factory, and what it fits; as a file, schema ``boundby.sweep``.

History:
- 1: ``target``, ``argument``, ``backward``, ``threads``, ``tool``, ``points``, ``fit`` and ``findings``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from boundby.results.documents import decode_document, encode_document
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.report import Tool

SCHEMA = "boundby.sweep"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One value of the argument: seconds a call, the median of windows with their middle half, and the windows."""

    at: int
    time_s: Interval
    samples_s: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthFit:
    """Time as ``fixed_s + each_s * n ** power``, with 95% intervals.

    ``fixed_s`` are seconds that a call takes whatever the argument; ``each_s`` seconds for each n ** power.
    ``rate_per_s`` is 1 / ``each_s``, the rate that is approached where the argument is large, of n ** power a second.
    ``half_at`` is the argument at which half of that rate is reached, where both parts take as long: Hockney's n_1/2.
    Both are None where time does not grow with the argument. ``largest_miss`` is by which share of a measured time the
    fit is off where it is most so, at ``missed_at``.
    """

    power: int
    fixed_s: Interval
    each_s: Interval
    rate_per_s: Interval | None
    half_at: Interval | None
    largest_miss: float
    missed_at: int

    def time_s(self, at: float) -> float:
        """Seconds that the fit gives a call at this value of the argument."""
        return self.fixed_s.value + self.each_s.value * at**self.power


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What `boundby sweep` measured: ``target`` is what was built, ``argument`` what was varied.

    ``fitted`` says whether ``fit`` accounts for the times at all; where it does not, its figures tell nothing.
    """

    target: str
    argument: str
    backward: bool
    threads: int
    points: tuple[SweepPoint, ...]
    fit: GrowthFit
    tool: Tool | None = None
    findings: tuple[Finding, ...] = ()
    fitted: bool = True

    def to_json(self) -> str:
        """The sweep as JSON text, schema ``boundby.sweep``."""
        return encode_sweep(self).decode()


# A fit that misses a measured time by more is no account of it; times whose middle half is wider were disturbed.
LARGEST_MISS = 0.2
WIDEST_MIDDLE = 1.25
# A fit with a rate that misses by more is not even a rough account.
FAR_MISS = 0.5


def fit_holds(points: tuple[SweepPoint, ...], fit: GrowthFit) -> bool:
    """Whether the fit accounts for the times: not where it misses by far, nor says "no growth" of unlike times."""
    if fit.rate_per_s is not None:
        return fit.largest_miss <= FAR_MISS
    times = [one.time_s.value for one in points]
    return fit.largest_miss <= LARGEST_MISS and max(times) <= WIDEST_MIDDLE * min(times)


def is_unsteady(points: tuple[SweepPoint, ...]) -> bool:
    """Whether the times of some size spread widely."""
    return any(_is_disturbed(one) for one in points)


def _is_disturbed(point: SweepPoint) -> bool:
    return point.time_s.high > WIDEST_MIDDLE * point.time_s.low


def swept(
    *,
    target: str,
    argument: str,
    backward: bool,
    threads: int,
    points: tuple[SweepPoint, ...],
    fit: GrowthFit,
    tool: Tool | None = None,
) -> Sweep:
    """The sweep with what is to be said of its times and its fit."""
    findings = []
    disturbed = [one for one in points if _is_disturbed(one)]
    if disturbed:
        findings.append(
            Finding(
                code="sweep-unsteady",
                message=tr(
                    "the times of {number} of {points} sizes spread widely",
                    number=len(disturbed),
                    points=len(points),
                ),
                advice=tr("Look for other load (boundby doctor), or time longer with --budget."),
            )
        )
    elif fit.largest_miss > LARGEST_MISS:
        findings.append(
            Finding(
                code="sweep-misfit",
                message=tr(
                    "the fit is off by {miss} at {argument} {at}",
                    miss=f"{fit.largest_miss:.0%}",
                    argument=argument,
                    at=fit.missed_at,
                ),
                advice=tr("Sweep the range on one side of it: another kernel or another cache serves there."),
            )
        )
    return Sweep(
        target=target,
        argument=argument,
        backward=backward,
        threads=threads,
        points=points,
        fit=fit,
        tool=tool,
        findings=tuple(findings),
        fitted=fit_holds(points, fit),
    )


def encode_sweep(sweep: Sweep) -> bytes:
    """The sweep as indented UTF-8 JSON, without a final newline."""
    return encode_document(SCHEMA, VERSION, sweep)


def decode_sweep(data: bytes, *, name: str = "the file") -> Sweep:
    """The sweep a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        Sweep,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby sweep -o FILE.json"),
    )
