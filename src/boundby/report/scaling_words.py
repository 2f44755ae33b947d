"""What a scaling result says in words and numbers; the terminal's page and the document are made of these."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.scaling import AmdahlFit, LawValue, Projection, Scaling, ScalingPoint, UslFit
from boundby.results.units import format_percent, format_percent_range, format_time_band
from boundby.scaling.summary import LARGEST_MISS, describes, unit_words

# A band of at most this share of its time is shown with three digits.
_NARROW_BAND = 0.1

# A share of the time on one worker below this, and of that on the most below the other, is none where it may be 0.
_NO_SHARE = 5e-4
_NO_SHARE_AT_MOST = 0.01
# A miss below this would read 0.0%.
_NO_MISS = 5e-4

NOTHING = "-"


def sentence(scaling: Scaling) -> str:
    """The answer in a sentence or two, with a warning where other load may have made it."""
    said = _sentence(scaling)
    if any(one.code == "scaling-load" for one in scaling.findings):
        warning = tr("Other processes took the cores meanwhile: do not rely on it.")
        return tr("{first} {then}", first=said, then=warning)
    return said


def _sentence(scaling: Scaling) -> str:
    law = scaling.amdahl
    if scaling.origin == "laws":
        return _laws_sentence(scaling.laws)
    if law is None:
        return tr(
            "There is nothing to fit: no speed-up of more than one {unit} within the usable cores.", unit=_one(scaling)
        )
    most = max((one for one in scaling.points if not one.oversubscribed), key=lambda one: one.workers)
    if most.speedup.high < 1:
        return tr(
            "{workers} make it slower: it is {speedup} as fast as with one.",
            workers=workers_text(scaling, most.workers),
            speedup=times(most.speedup),
        )
    if most.speedup.low <= 1:
        return tr(
            "Whether {workers} are faster than one is not clear: {speedup} as fast.",
            workers=workers_text(scaling, most.workers),
            speedup=times(most.speedup),
        )
    if not describes(law):
        return tr(
            "{workers} are {speedup} as fast as one, and no serial share describes how it got there.",
            workers=workers_text(scaling, most.workers),
            speedup=times(most.speedup),
        )
    values = {"workers": workers_text(scaling, most.workers), "speedup": times(most.speedup)}
    if no_loss(law) and law.serial_share.high <= 0:
        first = tr("{workers} are {speedup} as fast as one: no loss seen.", **values)
    elif no_loss(law):
        first = tr(
            "{workers} are {speedup} as fast as one: no loss seen, and at most {share} of the time does not get "
            "shorter.",
            share=_few_digits(law.serial_share.high),
            **values,
        )
    else:
        first = tr(
            "{workers} are {speedup} as fast as one: {share} of the time does not get shorter.",
            share=share_band(law.serial_share),
            **values,
        )
    further = scaling.projections[0] if scaling.projections else None
    if further is None:
        return first
    if universal_is_better(scaling) and further.usl is not None and scaling.usl is not None:
        then = _universal_sentence(scaling, further, scaling.usl)
    elif law.limit is None or no_loss(law):
        then = tr("By Amdahl's law nothing limits how much more would help; such a law holds only so far.")
    else:
        then = tr(
            "By Amdahl's law {workers} would be {speedup} as fast (modelled), and no number of them more than {limit}.",
            workers=workers_text(scaling, further.workers),
            speedup=times(further.amdahl),
            limit=limit_text(scaling),
        )
    return tr("{first} {then}", first=first, then=then)


def _universal_sentence(scaling: Scaling, further: Projection, fit: UslFit) -> str:
    said = tr(
        "By the universal law, which fits better than Amdahl's, {workers} would be {speedup} as fast (modelled)",
        workers=workers_text(scaling, further.workers),
        speedup=times(further.usl) if further.usl is not None else NOTHING,
    )
    if fit.peak_workers is None:
        return tr("{said}.", said=said)
    return tr(
        "{said}; it is fastest at {peak} {unit}.",
        said=said,
        peak=number(fit.peak_workers, 2),
        unit=unit_words(scaling.unit),
    )


def no_loss(law: AmdahlFit) -> bool:
    """Whether the serial share is none as far as one can see: it may be 0, and is near it at the most workers too."""
    share = law.serial_share
    return share.low <= 0 and share.value < _NO_SHARE and law.share_at_most.value < _NO_SHARE_AT_MOST


def universal_is_better(scaling: Scaling) -> bool:
    """Whether one serial share does not fit, and the universal law does so much better."""
    law, pair = scaling.amdahl, scaling.usl
    if law is None or pair is None or pair.freedom < 1:
        return False
    return law.largest_miss > LARGEST_MISS and pair.largest_miss < law.largest_miss / 2


def best_law(scaling: Scaling, one: Projection) -> Interval:
    """The projection by the law that the sentence goes by."""
    return one.usl if one.usl is not None and universal_is_better(scaling) else one.amdahl


def _laws_sentence(laws: tuple[LawValue, ...]) -> str:
    share = laws[0].serial_share
    if share == 0:
        return tr("Where nothing is serial, n workers are n times as fast by both laws.")
    return tr(
        "Where {share} of the time is serial, no number of workers does a job of fixed size more than {limit} as fast.",
        share=share_text(share),
        limit=f"{number(1 / share)}x",
    )


def remark_words(found: Finding) -> str:
    """A finding whose message is no sentence yet, with its advice and its code."""
    return tr("{message}. {advice} [{code}]", message=found.message, advice=found.advice, code=found.code)


def facts(scaling: Scaling) -> Iterator[tuple[str, str]]:
    """Names and values of what stands beside the sentence."""
    law = scaling.amdahl
    if law is not None and not describes(law):
        yield tr("Serial share"), tr("none that describes these speed-ups")
    elif law is not None:
        if law.freedom == 0:
            checked = tr("from one speed-up; nothing is left to check the law with")
        else:
            checked = (
                tr("95% interval; the law meets every speed-up")
                if law.largest_miss < _NO_MISS
                else tr(
                    "95% interval; the law misses no speed-up by more than {miss} (at {workers})",
                    miss=f"{law.largest_miss:.1%}",
                    workers=f"{law.missed_at:,}",
                )
            )
        yield tr("Serial share"), tr("{share}, {checked}", share=_share_told(law), checked=checked)
        yield (
            tr("Limit"),
            tr(
                "{limit} with endless {unit} (Amdahl, modelled)",
                limit=limit_text(scaling),
                unit=unit_words(scaling.unit),
            ),
        )
    if scaling.usl is not None:
        yield tr("Universal law"), usl_text(scaling.usl, scaling.unit)
    elif law is not None:
        count = law.freedom + 1
        yield (
            tr("Universal law"),
            trn(
                "not fitted: {count} speed-up cannot tell waiting from keeping data alike; it takes 3",
                "not fitted: {count} speed-ups cannot tell waiting from keeping data alike; it takes 3",
                count,
            ),
        )
    if scaling.usable_cores is not None:
        yield tr("Usable cores"), f"{scaling.usable_cores}"
    if scaling.target:
        yield tr("Target"), scaling.target


def _share_told(law: AmdahlFit) -> str:
    if not no_loss(law):
        return share_band(law.serial_share)
    if law.serial_share.high <= 0:
        return tr("no loss seen")
    return tr("no loss seen, at most {share}", share=_few_digits(law.serial_share.high))


def usl_text(fit: UslFit, unit: str) -> str:
    """Both parts, and where the peak is."""
    values = {"contention": share_band(fit.contention), "coherence": share_band(fit.coherence)}
    parts = (
        tr("contention {contention}, coherence {coherence}; meets every speed-up", **values)
        if fit.largest_miss < _NO_MISS
        else tr(
            "contention {contention}, coherence {coherence}; misses no speed-up by more than {miss}",
            miss=f"{fit.largest_miss:.1%}",
            **values,
        )
    )
    if fit.peak_workers is None:
        peak = tr("no peak")
    else:
        low = NOTHING if fit.peak_low is None else number(fit.peak_low, 2)
        high = tr("no end") if fit.peak_high is None else number(fit.peak_high, 2)
        peak = tr(
            "fastest at {peak} {unit} ({low} to {high}, modelled)",
            peak=number(fit.peak_workers, 2),
            unit=unit_words(unit),
            low=low,
            high=high,
        )
    return tr("; ").join((parts, peak))


def point_head(scaling: Scaling) -> tuple[str, ...]:
    """The head of the table of speed-ups."""
    timed = any(one.time_s is not None for one in scaling.points)
    return (
        unit_words(scaling.unit),
        *((tr("time"),) if timed else ()),
        tr("speed-up"),
        tr("efficiency"),
        tr("serial share"),
    )


def point_row(scaling: Scaling, one: ScalingPoint, *, unicode: bool = True) -> tuple[str, ...]:
    """A speed-up as cells under ``point_head``."""
    timed = any(each.time_s is not None for each in scaling.points)
    time = one.time_s
    return (
        f"{one.workers:,}" + ("*" if one.oversubscribed else ""),
        *((NOTHING if time is None else _time_band(time, unicode=unicode),) if timed else ()),
        times(one.speedup),
        NOTHING if one.efficiency is None else format_percent(one.efficiency.value),
        NOTHING if one.serial_share is None else _karp_flatt(one.serial_share),
    )


def _time_band(time: Interval, *, unicode: bool) -> str:
    """A time with its band; the digits that were given say the band, which two would round onto the time."""
    narrow = time.high - time.low <= _NARROW_BAND * time.value
    return format_time_band(time.value, time.low, time.high, unicode=unicode, digits=3 if narrow else None)


def _karp_flatt(share: Interval) -> str:
    """A share, or that the speed-up amounts to none."""
    if share.value > 1:
        return tr("over 100%")
    return tr("below 0%") if share.value < 0 else share_band(share)


def projection_head(scaling: Scaling) -> tuple[str, ...]:
    """The head of the table of what the laws say of more."""
    return (
        unit_words(scaling.unit),
        tr("Amdahl (same job)"),
        *((tr("universal law"),) if scaling.usl is not None else ()),
        tr("Gustafson (job grows)"),
    )


def projection_row(one: Projection) -> tuple[str, ...]:
    """A projection as cells under ``projection_head``."""
    return (
        f"{one.workers:,}",
        times(one.amdahl),
        *((times(one.usl),) if one.usl is not None else ()),
        times(one.gustafson),
    )


def law_head() -> tuple[str, ...]:
    """The head of a table of the laws' values."""
    return (tr("workers"), tr("Amdahl (same job)"), tr("efficiency"), tr("Gustafson (job grows)"))


def law_row(one: LawValue) -> tuple[str, ...]:
    """One value as cells under ``law_head``."""
    return (
        tr("endless") if one.workers is None else f"{one.workers:,}",
        tr("no bound") if one.amdahl is None else f"{number(one.amdahl)}x",
        NOTHING if one.workers is None or one.amdahl is None else format_percent(one.amdahl / one.workers),
        tr("no bound") if one.gustafson is None else f"{number(one.gustafson)}x",
    )


def workers_text(scaling: Scaling, count: int) -> str:
    """``2 threads``, or ``2 workers``."""
    if scaling.unit == "threads":
        return trn("{count} thread", "{count} threads", count)
    return trn("{count} worker", "{count} workers", count)


def _one(scaling: Scaling) -> str:
    return tr("thread") if scaling.unit == "threads" else tr("worker")


def limit_text(scaling: Scaling) -> str:
    """The speed-up of endless workers with its ends."""
    law = scaling.amdahl
    if law is None or law.limit is None or no_loss(law):
        return tr("no limit seen")
    low = NOTHING if law.limit_low is None else number(law.limit_low, 2)
    high = tr("no end") if law.limit_high is None else number(law.limit_high, 2)
    middle = number(law.limit, 2)
    return (
        f"{middle}x"
        if low == middle == high
        else tr("{value} ({low} to {high})", value=f"{middle}x", low=low, high=high)
    )


def times(value: Interval) -> str:
    """How many times, with its band."""
    ends = (value.value, value.low, value.high)
    apart = len({number(one, 4) for one in ends})
    text = low = high = ""
    for digits in (2, 3, 4):
        text, low, high = (number(one, digits) for one in ends)
        if len({text, low, high}) == apart:
            break
    return f"{text}x" if low == high else tr("{value} ({note})", value=f"{text}x", note=f"{low}-{high}")


def share_text(share: float) -> str:
    """A share with the digits that tell 0.01% from none."""
    return f"{100 * share + 0.0:.3g}%"  # and no -0%


def _few_digits(share: float) -> str:
    return share_text(share) if 0 < share < 1e-2 else format_percent(share)


def share_band(value: Interval) -> str:
    """A share with its band; one beyond 0 and 1 as it is."""
    text = _few_digits(value.value)
    if value.low == value.high:
        return text
    if value.high < 1e-2 and value.low >= 0:
        return tr(
            "{value} ({low} to {high})",
            value=text,
            low=share_text(value.low),
            high=share_text(value.high),
        )
    ends = format_percent_range(value.low, value.high)
    return text if ends == text else tr("{value} ({note})", value=text, note=ends)


def number(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, and whole ones in full."""
    if value >= 10 ** (digits - 1):
        return f"{value:,.0f}" if value >= 100 or digits < 3 else f"{value:.{digits - 2}f}"
    return f"{value:#.{digits}g}"
