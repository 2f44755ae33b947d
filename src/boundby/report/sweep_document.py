"""A sweep as a page: what it fits in a sentence, and its times over the fitted curve."""

from __future__ import annotations

from collections.abc import Iterator

from boundby.report.chart import Axis, Chart, Line
from boundby.report.document import Block, Bullets, Document, Paragraph, Section, Table
from boundby.report.sweep_page import is_fitted, sweep_facts, sweep_sentence
from boundby.results.language import language, tr
from boundby.results.sweep import Sweep
from boundby.results.units import format_count, format_time

# Places along the fitted curve, which is bent on logarithmic axes.
_CURVE_POINTS = 60


def sweep_document(sweep: Sweep) -> Document:
    """The sweep as a page for `report.html` or `report.markdown`.

    Args:
        sweep: what to show.
    """
    return Document(
        title=tr("Time of {target} against {argument}", target=sweep.target, argument=sweep.argument),
        lead=(
            Paragraph(text=sweep_sentence(sweep, unicode=True), emphasis=True),
            Table(
                caption=tr("What the fit says") if is_fitted(sweep) else "",
                head=("", ""),
                rows=tuple(sweep_facts(sweep, unicode=True)),
            ),
        ),
        sections=tuple(_sections(sweep)),
        language=language(),
    )


def _sections(sweep: Sweep) -> Iterator[Section]:
    yield Section(title=tr("Times"), blocks=(_chart(sweep), _each(sweep)))
    if sweep.findings:
        items = tuple(
            tr("{message}. {advice} [{code}]", message=one.message, advice=one.advice, code=one.code)
            for one in sweep.findings
        )
        yield Section(title=tr("What could spoil the measurement"), blocks=(Bullets(items=items),))


def _chart(sweep: Sweep) -> Chart:
    first, last = sweep.points[0].at, sweep.points[-1].at
    places = [first * (last / first) ** (place / (_CURVE_POINTS - 1)) for place in range(_CURVE_POINTS)]
    fitted = is_fitted(sweep)
    bands = tr("Points are medians, bands the middle half of the times.")
    miss = tr(
        "The fit misses no time by more than {miss}, at {argument} {at}.",
        miss=f"{sweep.fit.largest_miss:.1%}",
        argument=sweep.argument,
        at=format_count(sweep.fit.missed_at),
    )
    return Chart(
        name="times",
        title=tr("Time of a call"),
        summary=tr(
            "{first} {then}",
            first=tr("Points are medians, bands the middle half of the times; the dashed line is the fit."),
            then=miss,
        )
        if fitted
        else bands,
        x=Axis(name=sweep.argument, scale="log"),
        y=Axis(name=tr("time a call"), unit="s", scale="log"),
        lines=(
            Line(
                name=tr("measured"),
                x=tuple(float(one.at) for one in sweep.points),
                y=tuple(one.time_s.value for one in sweep.points),
                low=tuple(one.time_s.low for one in sweep.points),
                high=tuple(one.time_s.high for one in sweep.points),
            ),
            *((_fitted_line(sweep, places),) if fitted else ()),
        ),
    )


def _fitted_line(sweep: Sweep, places: list[float]) -> Line:
    return Line(
        name=tr("fitted"), x=tuple(places), y=tuple(map(sweep.fit.time_s, places)), look="modelled", points=False
    )


def _each(sweep: Sweep) -> Block:
    power, fitted = sweep.fit.power, is_fitted(sweep)
    unit = sweep.argument if power == 1 else f"{sweep.argument}^{power}"
    return Table(
        caption=tr("Measured beside fitted") if fitted else tr("Measured"),
        head=(sweep.argument, tr("Measured"), *((tr("Fitted"),) if fitted else ()), tr("For each {unit}", unit=unit)),
        rows=tuple(
            (
                format_count(one.at),
                format_time(one.time_s.value),
                *((format_time(sweep.fit.time_s(one.at)),) if fitted else ()),
                format_time(one.time_s.value / one.at**power),
            )
            for one in sweep.points
        ),
        numeric=(0, 1, 2, 3) if fitted else (0, 1, 2),
    )
