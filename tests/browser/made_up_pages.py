"""A page with a chart of every kind, whose words try to be markup."""

from __future__ import annotations

from math import inf, nan

from boundby.report.chart import Axis, Bar, Chart, Line, Mark
from boundby.report.document import Bullets, Code, Document, Paragraph, Section, Table

HOSTILE = "<img src=x onerror=alert(1)>"
QUOTED = '/tmp/it\'s "here"/</script><script>alert(2)</script>&amp;.py'

ROOFLINE = Chart(
    name="roofline",
    title=f"Roofline of {HOSTILE}",
    summary="Twelve ops under two limits.",
    x=Axis(name="FLOP a byte", unit="flop/byte", scale="log"),
    y=Axis(name="rate", unit="flop/s", scale="log"),
    lines=(
        Line(
            name=f"roof of {HOSTILE}",
            x=(1.0, 1000.0),
            y=(1e11, 1e11),
            low=(9e10, 9e10),
            high=(1.1e11, 1.1e11),
            points=False,
            name_at="last",
            background=True,
        ),
        Line(name="memory", x=(0.05, 5.0), y=(1e9, 1e11), points=False, name_at="first", background=True),
    ),
    marks=tuple(
        Mark(
            x=0.06 * 2**place,
            y=1e8 * 3 ** min(place, 6),
            size=1.0 + place,
            group=("overhead", "memory", "compute")[place % 3],
            label=f"{HOSTILE} {place}",
            details=(QUOTED,),
        )
        for place in range(12)
    ),
)
TIMES = Chart(
    name="times",
    title="Time by batch",
    summary="Time grows from batch 8 on.",
    x=Axis(name="batch", scale="log"),
    y=Axis(name="time of a call", unit="s", scale="log"),
    lines=(
        Line(
            name="seen",
            x=(1, 2, 4, 8, 16),
            y=(0.002, 0.0021, 0.0025, 0.0034, 0.0051),
            low=(0.0018, 0.002, 0.0024, 0.0032, 0.005),
            high=(0.0024, 0.0022, 0.0026, 0.0036, 0.0054),
        ),
        Line(name="fit", x=(1, 4, 16), y=(0.0019, 0.0025, 0.0053), look="modelled"),
        Line(name="maker", x=(1, 16), y=(0.001, 0.004), look="datasheet"),
    ),
)
SPLIT = Chart(
    name="split",
    title="The split",
    summary="Overhead is most of it.",
    x=Axis(name="share", unit="%"),
    y=Axis(name="", scale="category", categories=("as it is", "fused")),
    bars=tuple(
        Bar(category=category, start=start, value=value, low=value - 0.02, high=value + 0.02, group=group)
        for category in ("as it is", "fused")
        for start, value, group in ((0.0, 0.6, "overhead"), (0.6, 0.3, "memory"), (0.9, 0.1, "compute"))
    ),
)
GAINS = Chart(
    name="gains",
    title="Gains",
    summary="One helps, one hurts.",
    x=Axis(name="remedy", scale="category", categories=("fused", HOSTILE)),
    y=Axis(name="gain", unit="%"),
    bars=(
        Bar(category="fused", value=0.2, low=0.15, high=0.24),
        Bar(category=HOSTILE, value=-0.1, low=-0.2, high=-0.05, look="modelled"),
        Bar(category=HOSTILE, value=-0.12, look="datasheet"),
    ),
)
CHARTS = (ROOFLINE, TIMES, SPLIT, GAINS)
PAGE = Document(
    title=f"Page of {QUOTED}",
    lead=(
        Paragraph(text=f"The step of {HOSTILE} is bound by overhead.", emphasis=True),
        Paragraph(text="x", note=True),
    ),
    sections=(
        Section(title=f"Charts {HOSTILE}", blocks=CHARTS),
        Section(
            title="Words",
            blocks=(
                Bullets(items=(HOSTILE, QUOTED)),
                Code(text=f"\tx = '{HOSTILE}'\n{'y' * 300}", caption=QUOTED),
                Table(
                    caption=HOSTILE,
                    head=("name", QUOTED),
                    rows=((HOSTILE, "1"), ("a sentence of many words " * 8, "2"), ("w" * 120, "3")),
                    numeric=(1,),
                ),
            ),
        ),
    ),
)

_AXIS = Axis(name="n")
_TIME = Axis(name="t", unit="s", scale="log")
_LONG = tuple(f"category number {place}" for place in range(25))
ODD = Document(
    title="Odd charts",
    lead=(
        Chart(name="empty", title="Nothing", summary="", x=_AXIS, y=_TIME),
        Chart(name="none", title="No category", summary="", x=_AXIS, y=Axis(name="k", scale="category")),
        Chart(name="point", title="A point", summary="", x=_TIME, y=_AXIS, lines=(Line(name="a", x=(1.0,), y=(2.0,)),)),
        Chart(
            name="unknown",
            title="Unknown values",
            summary="",
            x=_TIME,
            y=_AXIS,
            lines=(
                Line(name="a", x=(1.0, 0.0, nan, 4.0), y=(2.0, 3.0, 1.0, inf), low=(1, 1, 1, 1), high=(3, 3, 3, nan)),
            ),
        ),
        Chart(name="same", title="One place", summary="", x=_AXIS, y=_AXIS, marks=(Mark(x=5.0, y=-3.0, size=0),) * 3),
        Chart(
            name="zero",
            title="No length",
            summary="",
            x=Axis(name="t", unit="s"),
            y=Axis(name="", scale="category", categories=("a",)),
            bars=(Bar(category="a", value=0.0),) * 2,
        ),
        Chart(
            name="many",
            title="Many bars",
            summary="",
            x=Axis(name="k", scale="category", categories=_LONG),
            y=Axis(name="v", unit="byte"),
            bars=tuple(Bar(category=name, value=1000 * 2.0**place) for place, name in enumerate(_LONG)),
        ),
    ),
    sections=(),
)
