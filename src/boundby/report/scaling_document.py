"""A scaling result as a document: the answer, tables, and a chart of speed-ups with the laws through them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby

from boundby.report import scaling_words as words
from boundby.report.chart import Axis, Chart, Line
from boundby.report.document import Block, Bullets, Document, Paragraph, Section, Table
from boundby.results.language import language, tr
from boundby.results.scaling import Scaling
from boundby.scaling.laws import amdahl, gustafson, usl
from boundby.scaling.summary import unit_words

# A line over more doublings than this has a point at every second one.
_DOUBLINGS = 12
# Endless workers are drawn up to so many times the most that are named.
_BEYOND = 4


def scaling_document(scaling: Scaling) -> Document:
    """The result as a page for `report.html` or `report.markdown`.

    Args:
        scaling: what to show.
    """
    facts = list(words.facts(scaling))
    lead: list[Block] = [Paragraph(text=words.sentence(scaling), emphasis=True)]
    if facts:
        lead.append(Table(caption=tr("In short"), head=("", ""), rows=tuple(facts)))
    return Document(
        title=tr("Scaling of {target}", target=scaling.target) if scaling.target else tr("Laws of scaling"),
        lead=tuple(lead),
        sections=tuple(_sections(scaling)),
        language=language(),
    )


def _sections(scaling: Scaling) -> Iterator[Section]:
    if scaling.points:
        head = words.point_head(scaling)
        here = scaling.origin == "measured"
        table = Table(
            caption=tr("Speed-ups over one, measured here") if here else tr("Speed-ups over one, as given"),
            head=head,
            rows=tuple(words.point_row(scaling, one) for one in scaling.points),
            numeric=tuple(range(len(head))),
        )
        yield Section(title=tr("Measured here") if here else tr("As given"), blocks=(table, _chart(scaling)))
    if scaling.projections:
        head = words.projection_head(scaling)
        modelled = Table(
            caption=tr("By the laws fitted to the above; nothing here was measured"),
            head=head,
            rows=tuple(words.projection_row(one) for one in scaling.projections),
            numeric=tuple(range(len(head))),
        )
        yield Section(title=tr("Modelled"), blocks=(modelled, Paragraph(text=_what_grows(), note=True)))
    if scaling.laws:
        yield Section(title=tr("Both laws"), blocks=tuple(_law_blocks(scaling)))
    if scaling.findings:
        items = tuple(words.remark_words(one) for one in scaling.findings)
        yield Section(title=tr("What to be wary of"), blocks=(Bullets(items=items),))


def _what_grows() -> str:
    return tr(
        "Amdahl's law is of the same job on more workers. Gustafson's is of a job that grows with them, so that each "
        "keeps as much work as it had at the most workers seen. The universal law adds what workers cost each other."
    )


def _law_blocks(scaling: Scaling) -> Iterator[Block]:
    for share, values in groupby(scaling.laws, key=lambda one: one.serial_share):
        yield Table(
            caption=tr("Serial share {share}", share=words.share_text(share)),
            head=words.law_head(),
            rows=tuple(words.law_row(one) for one in values),
            numeric=(0, 1, 2, 3),
        )
    shares = list(dict.fromkeys(one.serial_share for one in scaling.laws))
    most = max((one.workers for one in scaling.laws if one.workers is not None), default=64) * _BEYOND
    lines = [
        _curve(f"{name}, {words.share_text(share)}", partial(law, share), most)
        for share in shares
        for name, law in ((tr("Amdahl"), amdahl), (tr("Gustafson"), gustafson))
    ]
    yield Chart(
        name="laws",
        title=tr("Speed-up by workers"),
        summary=words.sentence(scaling),
        x=Axis(name=tr("workers"), scale="log"),
        y=Axis(name=tr("speed-up"), scale="log"),
        lines=tuple(lines),
    )


def _chart(scaling: Scaling) -> Chart:
    most = max(
        [one.workers for one in scaling.points] + [one.workers for one in scaling.projections],
    )
    points = scaling.points
    lines = [
        Line(
            name=tr("measured here") if scaling.origin == "measured" else tr("as given"),
            x=tuple(float(one.workers) for one in points),
            y=tuple(one.speedup.value for one in points),
            low=tuple(one.speedup.low for one in points),
            high=tuple(one.speedup.high for one in points),
            look="measured" if scaling.origin == "measured" else "given",
        ),
        _curve(tr("as many times as workers"), lambda n: n, most),
    ]
    law, pair = scaling.amdahl, scaling.usl
    if law is not None:
        share = law.serial_share
        lines.append(
            _curve(
                tr("Amdahl's law, fitted"),
                lambda n: amdahl(share.value, n),
                most,
                lambda n: (amdahl(share.high, n), amdahl(share.low, n)),
            )
        )
    if pair is not None:
        parts = (pair.contention.value, pair.coherence.value)
        lines.append(_curve(tr("universal law, fitted"), lambda n: usl(n, *parts), most))
    return Chart(
        name="speed-ups",
        title=tr("Speed-up by {unit}", unit=unit_words(scaling.unit)),
        summary=words.sentence(scaling),
        x=Axis(name=unit_words(scaling.unit), scale="log"),
        y=Axis(name=tr("speed-up"), scale="log"),
        lines=tuple(lines),
    )


def _curve(
    name: str,
    law: Callable[[float], float],
    most: float,
    ends: Callable[[float], tuple[float, float]] | None = None,
) -> Line:
    """A modelled line from one worker to ``most``, at numbers of workers that can be read off."""
    factor = 2 if most <= 2**_DOUBLINGS else 4
    counts = [1.0]
    while counts[-1] * factor < most:
        counts.append(counts[-1] * factor)
    counts.append(float(max(most, 2)))
    bands = None if ends is None else [ends(n) for n in counts]
    return Line(
        name=name,
        x=tuple(counts),
        y=tuple(law(n) for n in counts),
        low=None if bands is None else tuple(low for low, _ in bands),
        high=None if bands is None else tuple(high for _, high in bands),
        look="modelled",
        points=False,
    )
