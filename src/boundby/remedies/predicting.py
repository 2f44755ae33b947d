"""What predictions share: from seconds that change to a speed-up of the whole step, with its band."""

from __future__ import annotations

from collections.abc import Sequence

from boundby.remedies.contract import CannotTell, Compared, Prediction
from boundby.results.language import tr
from boundby.results.remedy import Predicted
from boundby.results.report import Report
from boundby.results.units import format_time

# A probe's own seconds and those of the same work inside the step differ by this much: other caches, other neighbours.
PROBE_BAND = 0.15
# Turns of a probe whose middle half lies this far apart were disturbed, and say nothing of the quiet machine.
WIDEST_RATIO = 2.0
# What is left of a step is never less than this share of it: something always remains.
LEAST_LEFT = 0.02


def replaced_part(
    report: Report,
    parts: Sequence[Compared],
    *,
    what: str,
    change: str,
    changes_numbers: bool,
    band: float = PROBE_BAND,
    least_s: float = 0.0,
    most_s: float | None = None,
) -> Prediction:
    """The step once some of its work takes as long as probes say; undecided where the probes were disturbed.

    Args:
        report: the report; its step time is the whole.
        parts: the probes of the work as it is and as it would be, one for each part of a step.
        what: what they did, for the reason.
        change: what the user would change.
        changes_numbers: whether results may differ.
        band: by what share a part's seconds inside the step may differ from the probe's.
        least_s: what the work is known to take of the step, by its own rows (s).
        most_s: the most that the work can take of the step, by what was seen of it (s); None: all of the step.
    """
    if any(one.ratio.high > WIDEST_RATIO * one.ratio.low for one in parts):
        return CannotTell(tr("the machine was not quiet enough for its probe"), change=change)
    step = report.step.time_s.median
    probed = sum(one.base_s for one in parts)
    base = min(max(probed, least_s), step if most_s is None else most_s)
    factor = base / max(probed, 1e-12)
    saved = factor * sum(one.base_s * (1.0 - one.ratio.value) for one in parts)
    most = factor * sum(one.base_s * (1.0 - one.ratio.low) for one in parts)
    least = factor * sum(one.base_s * (1.0 - one.ratio.high) for one in parts)
    if factor > 1.0:
        # What makes the work slower inside the step need not make what replaces it slower.
        most = max(most, base - sum(one.base_s * one.ratio.low for one in parts))
    low, high = least - band * abs(least), most + band * abs(most)
    if most_s is not None:
        high = min(high, most_s)
    return predicted_from_saving(
        report,
        saved,
        low,
        high,
        reason=tr(
            "{what} takes {time} of the step's {step}; it would take {left}",
            what=what,
            time=format_time(base),
            step=format_time(step),
            left=format_time(base - saved),
        ),
        change=change,
        changes_numbers=changes_numbers,
    )


def predicted_from_saving(
    report: Report, saved_s: float, low_s: float, high_s: float, *, reason: str, change: str, changes_numbers: bool
) -> Predicted:
    """The speed-up that so many saved seconds a step make; negative ones make it slower.

    Args:
        report: the report; its step time is the whole.
        saved_s: seconds a step that the remedy saves.
        low_s: the least it may save.
        high_s: the most.
        reason: why.
        change: what the user would change.
        changes_numbers: whether results may differ.
    """
    step = report.step.time_s.median
    speedup, low, high = (step / max(step - seconds, LEAST_LEFT * step) for seconds in (saved_s, low_s, high_s))
    return Predicted(
        speedup=speedup,
        low=min(low, speedup),
        high=max(high, speedup),
        reason=reason,
        change=change,
        changes_numbers=changes_numbers,
    )
