"""A sweep as text for a terminal: what it fits, its times beside the fit, and a plot of both."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boundby.report.page import bullets, heading, page_width, render_page
from boundby.report.safe_text import clean
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.sweep import GrowthFit, Sweep, fit_holds, is_unsteady
from boundby.results.units import digits_for, format_count, format_time, format_time_band

_PLOT_ROWS = 12
_MARGIN = 12
_NINE_TENTHS = 9.0


def render_sweep(sweep: Sweep, *, width: int, color: bool, unicode: bool, next_command: str = "") -> str:
    """The sweep as lines of text of at most ``width`` columns.

    Args:
        sweep: what to show.
        width: columns; used between 40 and 100.
        color: whether ANSI colours may be written.
        unicode: whether characters beyond ASCII may be written.
        next_command: the command to name at the end; none where empty.
    """
    columns = page_width(width)
    return render_page(_parts(sweep, columns, unicode=unicode, next_command=next_command), width=columns, color=color)


def _parts(sweep: Sweep, width: int, *, unicode: bool, next_command: str) -> Iterator[RenderableType]:
    yield Text(clean(sweep_sentence(sweep, unicode=unicode), unicode=unicode), style="bold")
    yield ""
    facts = sweep_facts(sweep, unicode=unicode)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts:
        table.add_row(Text(name, style="dim"), Text(clean(text, unicode=unicode)))
    yield table
    yield ""
    yield heading(tr("Times"), tr("of a call, the median and the middle half"))
    yield _times(sweep, unicode=unicode)
    yield ""
    shape = "·" if unicode else "."
    dot = "●" if unicode else "o"
    note = (
        tr("{dot} measured, {shape} fitted; both axes logarithmic", dot=dot, shape=shape)
        if is_fitted(sweep)
        else tr("{dot} measured; both axes logarithmic", dot=dot)
    )
    yield heading(tr("Plot"), note)
    for line in plot_lines(sweep, width=width, unicode=unicode):
        yield Text(line, no_wrap=True)
    if sweep.findings:
        yield ""
        yield heading(tr("What could spoil the measurement"))
        yield bullets(
            ((Text(clean(sweep_remark(one), unicode=unicode)), "") for one in sweep.findings),
            mark="  !",
            mark_width=4,
        )
    if next_command:
        yield ""
        yield Text.assemble((tr("Next     "), "dim"), clean(next_command, unicode=unicode))


def sweep_remark(found: Finding) -> str:
    """A finding whose message is no sentence yet, with its advice and its code."""
    return tr("{message}. {advice} [{code}]", message=found.message, advice=found.advice, code=found.code)


def is_fitted(sweep: Sweep) -> bool:
    """Whether the fit accounts for the times; looked up again, since older files do not say."""
    return sweep.fitted and fit_holds(sweep.points, sweep.fit)


def _no_fit_sentence(sweep: Sweep, *, unicode: bool) -> str:
    times = [one.time_s.value for one in sweep.points]
    words = {
        "low": format_time(min(times), digits=2, unicode=unicode),
        "high": format_time(max(times), digits=2, unicode=unicode),
        "name": sweep.argument,
        "first": format_count(sweep.points[0].at),
        "last": format_count(sweep.points[-1].at),
    }
    if is_unsteady(sweep.points) or sweep.fit.rate_per_s is None:
        return tr(
            "No fit: the times are too noisy to tell. Calls took {low} to {high} at {name} {first} to {last}.", **words
        )
    return tr(
        "No fit: a fixed cost and a rate do not account for the times. Calls took {low} to {high} at {name} {first} "
        "to {last}.",
        **words,
    )


def sweep_sentence(sweep: Sweep, *, unicode: bool) -> str:
    """What a call takes, and from which size on the growing part is most of it; or that no fit can tell."""
    if not is_fitted(sweep):
        return _no_fit_sentence(sweep, unicode=unicode)
    fit, name = sweep.fit, sweep.argument
    fixed = format_time(fit.fixed_s.value, digits=2, unicode=unicode)
    if fit.rate_per_s is None or fit.half_at is None:
        if sweep.backward:
            return tr(
                "A call and its backward pass take {fixed} whatever the {name}: time does not clearly grow with it.",
                fixed=fixed,
                name=name,
            )
        return tr(
            "A call takes {fixed} whatever the {name}: time does not clearly grow with it.", fixed=fixed, name=name
        )
    each = format_time(fit.each_s.value, digits=2, unicode=unicode)
    if fit.half_at.value < sweep.points[0].at and fit.fixed_s.value * 10 < sweep.points[0].time_s.value:
        words = {"each": each, "unit": _unit(fit, name), "name": name}
        if sweep.backward:
            return tr(
                "A call and its backward pass take {each} for each of {unit}, and hardly any fixed cost: a larger "
                "{name} is no cheaper.",
                **words,
            )
        return tr(
            "A call takes {each} for each of {unit}, and hardly any fixed cost: a larger {name} is no cheaper.", **words
        )
    words = {
        "fixed": fixed,
        "each": each,
        "unit": _unit(fit, name),
        "name": name,
        "half": _number(fit.half_at.value),
    }
    if sweep.backward:
        return tr(
            "A call and its backward pass take {fixed} and {each} for each of {unit}: at {name} {half} both parts are "
            "as long.",
            **words,
        )
    return tr("A call takes {fixed} and {each} for each of {unit}: at {name} {half} both parts are as long.", **words)


def _unit(fit: GrowthFit, name: str) -> str:
    return name if fit.power == 1 else f"{name}^{fit.power}"


def sweep_facts(sweep: Sweep, *, unicode: bool) -> Iterator[tuple[str, str]]:
    """What the fit says, each figure with its name and its band; of a fit that tells nothing, by how much it misses."""
    fit, name = sweep.fit, sweep.argument
    if is_fitted(sweep):
        yield from _fit_facts(sweep, unicode=unicode)
    yield (
        tr("Fit"),
        tr(
            "misses no time by more than {miss} ({name} {at})",
            miss=f"{fit.largest_miss:.1%}",
            name=name,
            at=fit.missed_at,
        )
        if is_fitted(sweep)
        else tr(
            "none: the best one misses a time by {miss} ({name} {at})",
            miss=f"{fit.largest_miss:.0%}",
            name=name,
            at=fit.missed_at,
        ),
    )
    yield tr("Target"), f"{sweep.target}, {trn('{count} thread', '{count} threads', sweep.threads)}"


def _fit_facts(sweep: Sweep, *, unicode: bool) -> Iterator[tuple[str, str]]:
    fit, name = sweep.fit, sweep.argument
    yield tr("Fixed"), format_time_band(fit.fixed_s.value, fit.fixed_s.low, fit.fixed_s.high, unicode=unicode)
    each = format_time_band(fit.each_s.value, fit.each_s.low, fit.each_s.high, unicode=unicode)
    yield tr("Each"), tr("{each} for each of {unit}", each=each, unit=_unit(fit, name))
    if fit.rate_per_s is not None:
        yield (
            tr("Rate"),
            tr(
                "{band} of {unit} a second, approached at large {name}",
                band=_band(fit.rate_per_s),
                unit=_unit(fit, name),
                name=name,
            ),
        )
    if fit.half_at is not None:
        nine = fit.half_at.value * _NINE_TENTHS ** (1.0 / fit.power)
        yield (
            tr("Half"),
            tr(
                "half of that rate at {name} {band}, nine tenths at {number}",
                name=name,
                band=_band(fit.half_at),
                number=_number(nine),
            )
            if nine >= 0.5
            else tr("there is no size at which the fixed cost matters"),
        )


def _band(value: Interval) -> str:
    digits = digits_for(value.value, value.low, value.high)
    low, high = (_number(end, digits) for end in (value.low, value.high))
    text = _number(value.value, digits)
    return text if low == high else f"{text} ({low}-{high})"


def _number(value: float, digits: int = 2) -> str:
    if value >= 10 ** (digits - 1):
        rounded = round(value, digits - 1 - math.floor(math.log10(value)))
        return format_count(rounded)
    return f"{value:.{digits}g}"


def _times(sweep: Sweep, *, unicode: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    fitted = is_fitted(sweep)
    for justify in ("right", "left", *(("right",) if fitted else ()), "right"):
        table.add_column(justify=justify, overflow="fold")
    unit = sweep.argument if sweep.fit.power == 1 else f"{sweep.argument}^{sweep.fit.power}"
    titles = (f"  {sweep.argument}", tr("time"), *((tr("fitted"),) if fitted else ()), tr("for each {unit}", unit=unit))
    table.add_row(*(Text(clean(title, unicode=unicode), style="dim") for title in titles))
    for point in sweep.points:
        time = point.time_s
        table.add_row(
            Text(format_count(point.at)),
            Text(format_time_band(time.value, time.low, time.high, unicode=unicode)),
            *((Text(format_time(sweep.fit.time_s(point.at), unicode=unicode)),) if fitted else ()),
            Text(format_time(time.value / point.at**sweep.fit.power, unicode=unicode)),
        )
    return table


def plot_lines(sweep: Sweep, *, width: int, unicode: bool) -> list[str]:
    """Time over size, both logarithmic: the measured points over the fitted curve where it holds, with the axes' ends.

    Args:
        sweep: what to plot.
        width: columns of a line.
        unicode: whether characters beyond ASCII may be written.
    """
    columns = max(20, width - _MARGIN - 2)
    first, last = sweep.points[0].at, sweep.points[-1].at
    sizes = [first * (last / first) ** (column / (columns - 1)) for column in range(columns)]
    curve = [sweep.fit.time_s(size) for size in sizes] if is_fitted(sweep) else []
    times = [*curve, *(one.time_s.value for one in sweep.points)]
    low, high = min(times), max(times)

    def row(seconds: float) -> int:
        if high <= low:
            return _PLOT_ROWS // 2
        return round((_PLOT_ROWS - 1) * math.log(high / seconds) / math.log(high / low))

    grid = [[" "] * columns for _ in range(_PLOT_ROWS)]
    for column, seconds in enumerate(curve):
        grid[row(seconds)][column] = "·" if unicode else "."
    for point in sweep.points:
        at = round((columns - 1) * math.log(point.at / first) / math.log(last / first))
        grid[row(point.time_s.value)][at] = "●" if unicode else "o"
    labels = {
        0: format_time(high, digits=2, unicode=unicode),
        _PLOT_ROWS - 1: format_time(low, digits=2, unicode=unicode),
    }
    bar = "│" if unicode else "|"
    lines = [
        f"{labels.get(number, ''):>{_MARGIN - 1}} {bar}{''.join(cells)}".rstrip() for number, cells in enumerate(grid)
    ]
    corner, dash = ("└", "─") if unicode else ("+", "-")
    lines.append(f"{'':>{_MARGIN}}{corner}{dash * columns}")
    left, right = format_count(first), format_count(last)
    name = clean(sweep.argument, unicode=unicode)
    middle = max(1, columns - len(left) - len(right))
    lines.append(f"{'':>{_MARGIN + 1}}{left}{name[: middle - 2].center(middle)}{right}")
    return lines
