"""All of it together: speed-ups, the laws fitted to them, what those say of more workers, and what to be wary of."""

from __future__ import annotations

from collections.abc import Sequence

from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.scaling import AmdahlFit, Origin, Scaling, ScalingPoint
from boundby.scaling.speedups import Fits, fit_speedups

# Without wishes: so many times the most workers seen.
_FACTORS = (2, 4, 8)
# A law that misses a speed-up by more is no account of it.
LARGEST_MISS = 0.1
# A band of a measured speed-up that is wider says that turns were disturbed.
WIDEST_BAND = 0.25


def scaling_of(
    points: Sequence[ScalingPoint],
    *,
    origin: Origin,
    target: str = "",
    unit: str = "workers",
    usable_cores: int | None = None,
    more: Sequence[int] = (),
    findings: Sequence[Finding] = (),
) -> Scaling:
    """Speed-ups with what the laws make of them.

    Args:
        points: at one worker and more, in order.
        origin: how they came about.
        target: what was measured, or where they were read.
        unit: what workers are.
        usable_cores: of this machine.
        more: numbers of workers to say something of; none: 2, 4 and 8 times the most that was seen.
        findings: what measuring found.
    """
    fitted = [one for one in points if one.workers > 1 and not one.oversubscribed]
    if not fitted:
        return Scaling(
            origin=origin,
            target=target,
            unit=unit,
            usable_cores=usable_cores,
            points=tuple(points),
            findings=(*findings, *_of_points(points, unit)),
        )
    fits = fit_speedups(fitted)
    most = fitted[-1].workers
    wanted = sorted(set(more)) or [factor * most for factor in _FACTORS]
    seen = {one.workers for one in fitted}
    return Scaling(
        origin=origin,
        target=target,
        unit=unit,
        usable_cores=usable_cores,
        points=tuple(points),
        amdahl=fits.amdahl,
        usl=fits.usl,
        projections=tuple(
            fits.project(count) for count in wanted if count > 1 and count not in seen and describes(fits.amdahl)
        ),
        findings=(
            *findings,
            *_of_points(points, unit),
            *_of_fits(fits, fitted, unit, loaded=any(one.code == "scaling-load" for one in findings)),
        ),
    )


def describes(law: AmdahlFit) -> bool:
    """Whether the law says anything: not where more workers are slower, nor where any share could be."""
    share = law.serial_share
    return share.low < 1 and not (share.low <= 0 and share.high >= 1)


def unit_words(unit: str) -> str:
    """What workers are, threads for one, in the language in use."""
    return {"threads": tr("threads"), "workers": tr("workers")}.get(unit, unit)


def _of_points(points: Sequence[ScalingPoint], unit: str) -> list[Finding]:
    found = []
    over = [one.workers for one in points if one.oversubscribed]
    if over:
        found.append(
            Finding(
                code="scaling-oversubscribed",
                message=tr(
                    "{counts} threads are more than the usable cores",
                    counts=tr(", ").join(f"{count:,}" for count in over),
                ),
                advice=tr("They take turns on a core; no law was fitted to them."),
            )
        )
    wide = [one for one in points if one.turns and one.speedup.high > (1 + WIDEST_BAND) * one.speedup.low]
    if wide:
        count = f"{wide[0].workers:,}"
        found.append(
            Finding(
                code="scaling-unsteady",
                message=tr(
                    "the speed-up at {count} {unit} is known poorly: turns differ", count=count, unit=unit_words(unit)
                ),
                advice=tr("Look for other load (boundby doctor), or measure longer with --budget."),
            )
        )
    return found


def _of_fits(fits: Fits, fitted: Sequence[ScalingPoint], unit: str, *, loaded: bool) -> list[Finding]:
    found = []
    law = fits.amdahl
    slower = [one.workers for one in fitted if one.speedup.high < 1]
    if fits.superlinear:
        found.append(
            Finding(
                code="scaling-superlinear",
                message=tr("the speed-ups are more than the workers, which no serial share explains"),
                advice=tr(
                    "Caches that add up can do that; so can a one-worker time that was disturbed. Time it again."
                ),
            )
        )
    elif slower:
        found.append(
            Finding(
                code="scaling-slower",
                message=tr("{count} {unit} make it slower than one", count=f"{slower[0]:,}", unit=unit_words(unit)),
                advice=tr("Other load may be the cause: time it again when the machine is quiet.")
                if loaded
                else tr("Use fewer: handing out the work costs more than it saves. Amdahl's law knows no such cost."),
            )
        )
    elif law.freedom > 0 and law.largest_miss > LARGEST_MISS:
        miss, at = f"{law.largest_miss:.0%}", f"{law.missed_at:,}"
        found.append(
            Finding(
                code="scaling-misfit",
                message=tr(
                    "one serial share does not fit: it is off by {miss} at {at} {unit}",
                    miss=miss,
                    at=at,
                    unit=unit_words(unit),
                ),
                advice=tr(
                    "A share that grows with the workers says that they wait for each other or for memory: see the "
                    "universal law, or the shares one by one."
                ),
            )
        )
    if law.freedom == 0 and not slower:
        found.append(
            Finding(
                code="scaling-unchecked",
                message=tr("one speed-up gives one serial share, and nothing is left to check the law with"),
                advice=tr("Whether more workers would follow it is not known; measure at more where there are cores."),
            )
        )
    return found
