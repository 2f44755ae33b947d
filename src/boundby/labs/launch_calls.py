"""What a call of NumPy costs against its size: a fixed cost and a rate, and the size at which both take as long."""

from __future__ import annotations

from collections.abc import Callable

from boundby.labs.lab import Settings
from boundby.labs.launch_timing import FITTED, SIZES, SPLIT_CALLS, SPLIT_SIZE, Found, measure
from boundby.labs.rows import noise_notes, times_data
from boundby.report.chart import Axis, Chart, Mark
from boundby.report.chart import Line as ChartLine
from boundby.report.demonstration import LabTable, Line, Shown
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.sweep import LARGEST_MISS
from boundby.results.units import (
    digits_for,
    format_count,
    format_number,
    format_percent,
    format_ratio,
    format_si,
    format_time,
)

# Times that grow by less over all fitted sizes say nothing of a rate.
_HARDLY_GROWS = 1.25


def show(settings: Settings) -> Shown:
    """Times np.add into a given output over sizes, and the same elements in many calls and in one."""
    found = measure(settings)
    return Shown(
        about=(
            tr(
                "np.add(a, b, out=c) on n fp32 elements, c given, so that nothing is allocated. A call costs something "
                "before it adds anything: t(n) = t0 + n / r."
            ),
        ),
        blocks=(_sizes_table(found), _split_table(found), _chart(found)),
        observations=tuple(_observations(found)),
        data=_as_data(found),
    )


def _fixed_share(found: Found, n: int) -> float:
    """What a call costs whatever it adds, over the time of one on n elements."""
    return min(1.0, found.fixed_s / found.times[n].fastest_s)


def _sizes_table(found: Found) -> LabTable:
    return LabTable(
        caption=tr("np.add by size; the fixed share is the time of the smallest call over that of n"),
        head=(tr("n"), tr("time a call"), tr("ns an element"), tr("fixed share"), tr("median")),
        rows=tuple(
            (
                f"{n:,}",
                format_time(found.times[n].fastest_s),
                _ns(found.times[n].fastest_s / n),
                format_percent(_fixed_share(found, n)),
                format_time(found.times[n].median_s),
            )
            for n in SIZES
        ),
        timed=(1, 2, 3, 4),
        files_only=(4,),
        left=(),
    )


def _ns(seconds: float) -> str:
    value = 1e9 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _split_table(found: Found) -> LabTable:
    rows = ((SPLIT_CALLS, found.many), (1, found.one))
    return LabTable(
        caption=tr("The same {count} elements in many calls and in one", count=f"{SPLIT_SIZE:,}"),
        head=(tr("calls"), tr("elements a call"), tr("time in all"), tr("against one call"), tr("median")),
        rows=tuple(
            (
                f"{calls:,}",
                f"{SPLIT_SIZE // calls:,}",
                format_time(time.fastest_s),
                format_ratio(time.fastest_s / found.one.fastest_s),
                format_time(time.median_s),
            )
            for calls, time in rows
        ),
        timed=(2, 3, 4),
        files_only=(4,),
        left=(),
    )


def _band(value: Interval, text: Callable[[float, int], str]) -> str:
    digits = digits_for(value.value, value.low, value.high)
    return tr(
        "{value} ({low} to {high})",
        value=text(value.value, digits),
        low=text(value.low, digits),
        high=text(value.high, digits),
    )


def _time(seconds: float, digits: int) -> str:
    return format_time(seconds, digits=digits)


def _rate(per_s: float, digits: int) -> str:
    return format_si(per_s, "", digits=digits).strip()


def _elements(count: float, digits: int) -> str:
    return format_count(float(f"{count:.{digits - 1}e}"))


def _observations(found: Found) -> list[Line]:
    one, few, some, large, largest = SIZES
    times, fit = found.times, found.fit
    lines = [
        tr(
            "A call on {one} element takes {before} and one on {few} takes {after}, for {few} times the work: a call "
            "costs {fixed} whatever it adds.",
            one=str(one),
            few=str(few),
            before=format_time(times[one].fastest_s, digits=2),
            after=format_time(times[few].fastest_s, digits=2),
            fixed=format_time(found.fixed_s, digits=2),
        ),
        tr(
            "The fixed cost is {some} of a call on {n} elements, {large} of one on {more} and {largest} of one on "
            "{most}: in large calls it does not matter.",
            some=format_percent(_fixed_share(found, some)),
            n=f"{some:,}",
            large=format_percent(_fixed_share(found, large)),
            more=f"{large:,}",
            largest=format_percent(_fixed_share(found, largest)),
            most=f"{largest:,}",
        ),
        _split_observation(found),
    ]
    if fit.rate_per_s is None or fit.half_at is None:
        lines.append(_no_rate(found))
    else:
        lines += [
            tr(
                "Fitted up to n = {last}: t0 = {fixed}, r = {rate} elements/s, and the half-performance length "
                "n_1/2 = t0 r = {half} elements, at which a call spends half of its time on itself. The fit is off by "
                "at most {miss}, at n = {at}.",
                last=f"{FITTED[-1]:,}",
                fixed=_band(fit.fixed_s, _time),
                rate=_band(fit.rate_per_s, _rate),
                half=_band(fit.half_at, _elements),
                miss=format_percent(fit.largest_miss),
                at=f"{fit.missed_at:,}",
            ),
            _beyond(found),
        ]
        if fit.largest_miss > LARGEST_MISS:
            lines.append(
                tr(
                    "A fit that is off by so much is no account of the times: something else ran on this machine, or "
                    "these sizes are served by caches of very unlike rates. Run it again."
                )
            )
    rest = tr(
        "A GPU's launch is the same thing: t0 there is the launch, and kernels below n_1/2 are bound by it. The cures "
        "are the same too: fewer and larger calls."
    )
    noise = noise_notes([*found.times.values(), found.many, found.one], one_thread=True)
    return [*(Line(text=text, timed=True) for text in lines), Line(text=rest), *noise]


def _no_rate(found: Found) -> str:
    grown = found.times[FITTED[-1]].fastest_s / found.times[FITTED[0]].fastest_s
    if grown <= _HARDLY_GROWS:
        return tr("No rate can be fitted: up to {n} elements the time hardly grows with n here.", n=f"{FITTED[-1]:,}")
    return tr(
        "No rate can be fitted: up to {n} elements the time grows {times}-fold, but too unsteadily for a fixed cost "
        "and a rate. Something else ran on this machine; run it again.",
        n=f"{FITTED[-1]:,}",
        times=format_number(grown, digits=2),
    )


def _split_observation(found: Found) -> str:
    extra_s = (found.many.fastest_s - found.one.fastest_s) / (SPLIT_CALLS - 1)
    if extra_s <= 0:
        return tr(
            "{calls} calls took no longer than one here ({many} against {one}): what each of them costs did not show.",
            calls=str(SPLIT_CALLS),
            many=format_time(found.many.fastest_s, digits=2),
            one=format_time(found.one.fastest_s, digits=2),
        )
    return tr(
        "{calls} calls took {ratio} times as long as one for the same elements: each of the {more} calls more cost "
        "{extra}, beside {fixed} for the smallest call.",
        calls=str(SPLIT_CALLS),
        ratio=format_number(found.many.fastest_s / found.one.fastest_s, digits=2),
        more=str(SPLIT_CALLS - 1),
        extra=format_time(extra_s, digits=2),
        fixed=format_time(found.fixed_s, digits=2),
    )


def _beyond(found: Found) -> str:
    largest = SIZES[-1]
    measured, fitted = found.times[largest].fastest_s, found.fit.time_s(largest)
    size = format_si(3 * 4 * largest, "B", digits=2)
    if measured > 1.25 * fitted:
        return tr(
            "At n = {n} a call took {ratio} times the {fitted} of the fit: as where the three arrays ({size} together) "
            "no longer fit in the caches and the rate is that of memory.",
            n=f"{largest:,}",
            ratio=format_number(measured / fitted, digits=2),
            fitted=format_time(fitted, digits=2),
            size=size,
        )
    return tr(
        "At n = {n} the fit says {fitted} and {measured} was measured: even three arrays of {size} together are "
        "added at the rate of smaller ones.",
        n=f"{largest:,}",
        fitted=format_time(fitted, digits=2),
        measured=format_time(measured, digits=2),
        size=size,
    )


def _chart(found: Found) -> Chart:
    sizes = tuple(sorted(found.times))
    half = found.fit.half_at
    return Chart(
        name="launch-calls",
        title=tr("Time of np.add against its size"),
        summary=tr(
            "Flat at {fixed} for small sizes, then growing with n. The fit t0 + n / r is dashed; n_1/2 = {half}.",
            fixed=format_time(found.fixed_s, digits=2),
            half=tr("unknown") if half is None else _elements(half.value, 2),
        ),
        x=Axis(name=tr("elements"), scale="log"),
        y=Axis(name=tr("time a call"), unit="s", scale="log"),
        lines=(
            ChartLine(
                name=tr("measured, fastest and slowest round"),
                x=tuple(map(float, sizes)),
                y=tuple(found.times[n].fastest_s for n in sizes),
                low=tuple(found.times[n].fastest_s for n in sizes),
                high=tuple(found.times[n].slowest_s for n in sizes),
            ),
            ChartLine(
                name=tr("fit"),
                x=tuple(map(float, sizes)),
                y=tuple(found.fit.time_s(n) for n in sizes),
                look="modelled",
                points=False,
            ),
        ),
        marks=()
        if half is None
        else (Mark(x=half.value, y=found.fit.time_s(half.value), label="n_1/2", group=tr("half-performance length")),),
    )


def _as_data(found: Found) -> dict[str, object]:
    fit = found.fit
    return {
        "dtype": "fp32",
        "sizes": [{"n": n, **times_data(time)} for n, time in sorted(found.times.items())],
        "split": [
            {"calls": SPLIT_CALLS, "elements": SPLIT_SIZE, **times_data(found.many)},
            {"calls": 1, "elements": SPLIT_SIZE, **times_data(found.one)},
        ],
        "fit": {
            "sizes": list(FITTED),
            "fixed_s": _interval(fit.fixed_s),
            "elements_per_s": _interval(fit.rate_per_s),
            "half_performance_elements": _interval(fit.half_at),
            "largest_miss": fit.largest_miss,
        },
    }


def _interval(value: Interval | None) -> dict[str, float] | None:
    return None if value is None else {"value": value.value, "low": value.low, "high": value.high}
