"""Speed-ups by number of workers and what the laws of scaling make of them; as a file, schema ``boundby.scaling``.

History:
- 1: ``origin``, ``target``, ``unit``, ``usable_cores``, ``points``, ``amdahl``, ``usl``, ``projections``, ``laws``,
  ``tool`` and ``findings``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from boundby.results.documents import decode_document, encode_document
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.report import Tool

SCHEMA = "boundby.scaling"
VERSION = 1

Origin = Literal["laws", "given", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """One number of workers: the speed-up over one worker, and the time where it is known.

    ``speedup``'s band is that of turns where it was measured here, and of the digits it was given with otherwise.
    ``time_s`` are seconds of a step or call; None where only speed-ups are known. ``serial_share`` is Karp and Flatt's
    for this speed-up alone, outside 0 and 1 where it is no share; None at one worker. ``efficiency`` is the speed-up
    over the workers. ``oversubscribed`` says that there are more threads than usable cores: the point is shown and
    fitted by no law. ``turns`` is how many pairs of turns it rests on; None where it was given.
    """

    workers: int
    speedup: Interval
    time_s: Interval | None = None
    serial_share: Interval | None = None
    efficiency: Interval | None = None
    oversubscribed: bool = False
    turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdahlFit:
    """Amdahl's law fitted to all speed-ups: the share of the one-worker time that more workers do not shorten.

    ``freedom`` is how many speed-ups there are beyond the one that fixes the share: 0 says that nothing is left to
    check the law with. ``largest_miss`` is by which share of a speed-up the law is off where it is most so, at
    ``missed_at`` workers. ``limit`` is 1 / share, the speed-up of endless workers; its ends and itself are None where
    there is no limit. ``share_at_most`` is the serial share of the time at the most workers, which is Gustafson's.
    """

    serial_share: Interval
    freedom: int
    largest_miss: float
    missed_at: int
    limit: float | None
    limit_low: float | None
    limit_high: float | None
    share_at_most: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class UslFit:
    """The universal scalability law fitted to all speed-ups, with 95% intervals.

    ``contention`` is the share spent waiting for what one worker can have at a time, ``coherence`` the cost of each
    pair of workers of keeping their data alike. ``peak_workers`` is where the speed-up is highest, with its ends; None
    where it grows without end.
    """

    contention: Interval
    coherence: Interval
    freedom: int
    largest_miss: float
    missed_at: int
    peak_workers: float | None
    peak_low: float | None
    peak_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What the fitted laws say of another number of workers: modelled, never measured.

    ``gustafson`` is of work that grows: each worker keeps as much of it as it had at the most workers seen. ``usl`` is
    None where that law was not fitted.
    """

    workers: int
    amdahl: Interval
    gustafson: Interval
    usl: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LawValue:
    """Both laws for one serial share and one number of workers; ``workers`` None is endless workers.

    ``amdahl`` and ``gustafson`` are None where they are without bound.
    """

    serial_share: float
    workers: int | None
    amdahl: float | None
    gustafson: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """What `boundby scaling` found.

    ``origin``: ``laws`` for values of the laws alone, ``given`` for speed-ups measured elsewhere, ``measured`` for
    those measured here. ``target`` is what was measured, or the file of the speed-ups. ``unit`` is what workers are:
    ``threads``, or ``workers`` where that is not known. ``usable_cores`` is of this machine; None where nothing was
    run.
    """

    origin: Origin
    target: str = ""
    unit: str = "workers"
    usable_cores: int | None = None
    points: tuple[ScalingPoint, ...] = ()
    amdahl: AmdahlFit | None = None
    usl: UslFit | None = None
    projections: tuple[Projection, ...] = ()
    laws: tuple[LawValue, ...] = ()
    tool: Tool | None = None
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> str:
        """It as JSON text, schema ``boundby.scaling``."""
        return encode_scaling(self).decode()


def encode_scaling(scaling: Scaling) -> bytes:
    """It as indented UTF-8 JSON, without a final newline."""
    return encode_document(SCHEMA, VERSION, scaling)


def decode_scaling(data: bytes, *, name: str = "the file") -> Scaling:
    """What a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    return decode_document(
        data,
        Scaling,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby scaling -o FILE.json"),
    )
