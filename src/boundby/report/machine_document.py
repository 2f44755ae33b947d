"""A machine as a page: its answer in a sentence, the roofline, and each kind of ceiling as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from boundby.report.chart import Axis, Bar, Chart, Line, Mark
from boundby.report.document import Block, Bullets, Document, Paragraph, Section, Table
from boundby.report.machine_notes import bandwidth_notes, product_notes
from boundby.report.machine_summary import (
    OVERHEAD_KINDS,
    SUSTAINED,
    best_products,
    finding_words,
    is_main,
    mode_words,
    of_kind,
    typical_curve,
)
from boundby.report.report_roofline import ceiling_lines
from boundby.report.roofline import Ridge, Roofline, roofline
from boundby.results.language import language, tr, trn
from boundby.results.machine import Ceiling, Machine
from boundby.results.units import digits_for, format_rate, format_si, format_size, format_time

_TRAFFIC = ("read", "write", "copy", "inplace", "triad")
_SHOWN_DTYPES = 5
# Those that people know and that models spend time in, first those that differ most; the file has them all.
_KNOWN_FUNCTIONS = (
    *("add", "mul", "div", "relu", "sqrt", "rsqrt", "exp", "log", "sigmoid", "tanh", "erf", "sin", "cos", "pow"),
    *("gelu", "silu", "softmax", "log_softmax", "layer_norm", "dropout"),
)
_SHOWN_FUNCTIONS = 20
_SHOWN_OVERHEADS = 20
_COMPILED = "torch.compile"


def machine_document(machine: Machine) -> Document:
    """The machine as a page for `report.html` or `report.markdown`.

    Args:
        machine: what to show; what was not measured of it is left out.
    """
    return Document(
        title=machine.description.cpu or tr("Processor unknown"),
        lead=tuple(_lead(machine)),
        sections=tuple(section for section in _sections(machine) if section.blocks),
        language=language(),
    )


def _sections(machine: Machine) -> Iterator[Section]:
    yield Section(title=tr("Roofline"), blocks=tuple(_roofline(machine)))
    yield Section(title=tr("Matrix products"), blocks=tuple(_products(machine)))
    yield Section(title=tr("Bandwidth"), blocks=tuple(_bandwidth(machine)))
    yield Section(title=tr("Functions"), blocks=tuple(_functions(machine)))
    yield Section(title=tr("Overhead"), blocks=tuple(_overheads(machine)))
    yield Section(title=tr("What could spoil these figures"), blocks=tuple(_findings(machine)))
    yield Section(title=tr("How it was measured"), blocks=(_facts(machine),))


def _lead(machine: Machine) -> Iterator[Block]:
    peaks = _peaks(machine)
    curve = typical_curve(machine)
    words = []
    if peaks:
        rates = ", ".join(f"{one.dtype or tr('any type')} {_rate(one)}" for one in peaks[:2])
        words.append(tr("Matrix products reach {rates}.", rates=rates))
    if curve:
        words.append(tr("Main memory moves {rate}.", rate=_rate(curve[-1])))
    if peaks and curve:
        ridge = format_si(peaks[0].value / curve[-1].value, "FLOP/byte", digits=2)
        words.append(tr("Below {ridge}, memory binds in {dtype}.", ridge=ridge, dtype=peaks[0].dtype or tr("unknown")))
    least = next((one for one in _main_overheads(machine) if one.name == OVERHEAD_KINDS[0]), None)
    if least is not None:
        words.append(tr("An op takes {time} at least.", time=_rate(least)))
    if not words:
        words.append(tr("No limit is known of this machine."))
    text = reduce(lambda first, then: tr("{first} {then}", first=first, then=then), words)
    yield Paragraph(text=text, emphasis=True)
    about = machine.description
    yield Paragraph(
        text=tr(
            "{limits} through torch {torch} as scripts use it, {threads}, on {device}.",
            limits=trn("{count} limit", "{count} limits", len(machine.ceilings)),
            torch=about.torch or tr("unknown"),
            threads=trn("{count} thread", "{count} threads", about.threads),
            device=about.device_name or about.device,
        ),
        note=True,
    )


def _facts(machine: Machine) -> Table:
    about, how = machine.description, machine.measuring
    rows = [
        (tr("Processor"), about.cpu or tr("unknown")),
        (tr("Device"), about.device_name or about.device),
        (
            tr("Cores"),
            tr("{usable} usable of {all}", usable=f"{about.usable_cores}", all=about.logical_cores or tr("unknown")),
        ),
        (tr("Memory"), format_size(about.memory_limit_bytes or about.memory_bytes)),
        (tr("System"), about.os),
        (tr("Python"), about.python),
        ("torch", f"{about.torch or tr('unknown')}, {trn('{count} thread', '{count} threads', about.threads)}"),
        (tr("Measured"), about.measured_at or tr("unknown")),
    ]
    if how is not None:
        took = tr(
            "{mode}, {time}, {rounds}",
            mode=mode_words(how.mode),
            time=format_time(how.seconds, digits=2),
            rounds=trn("{count} round", "{count} rounds", how.rounds),
        )
        rows.append((tr("Measuring"), took))
        if how.unconfirmed:
            rows.append((tr("Still moving"), trn("{count} limit", "{count} limits", how.unconfirmed)))
    return Table(caption=tr("The machine, and how it was measured"), head=("", ""), rows=tuple(rows))


def _roofline(machine: Machine) -> Iterator[Block]:
    limits = roofline(machine)
    if limits is None:
        return
    yield Chart(
        name="roofline",
        title=tr("What this machine can do, by how much an op computes on each byte"),
        summary=_roofline_summary(limits),
        x=Axis(name=tr("FLOP done a byte moved"), unit="flop/byte", scale="log"),
        y=Axis(name=tr("FLOP/s within reach"), unit="flop/s", scale="log"),
        lines=ceiling_lines(machine),
        marks=tuple(_ridge_mark(limits, one) for one in limits.ridges),
    )
    if limits.below:
        low = ", ".join(f"{one.name} {_rate(one.ceiling)}" for one in limits.below)
        yield Paragraph(text=tr("Too low to draw: {limits}.", limits=low), note=True)


def _roofline_summary(limits: Roofline) -> str:
    roofs = ", ".join(f"{one.name} {_rate(one.ceiling)}" for one in limits.roofs)
    slopes = ", ".join(f"{one.name} {_rate(one.ceiling)}" for one in limits.slopes)
    return tr(
        "Flat lines are matrix products ({roofs}), slopes levels of memory ({slopes}). Left of a ridge point, main "
        "memory binds. Shaded is the band of each ceiling.",
        roofs=roofs,
        slopes=slopes,
    )


def _ridge_mark(limits: Roofline, ridge: Ridge) -> Mark:
    return Mark(
        x=ridge.flop_per_byte,
        y=ridge.flop_per_s,
        group=tr("ridge point"),
        label=ridge.roof.name,
        details=(
            tr(
                "main memory ({rate}) binds below {place}",
                rate=_rate(limits.main.ceiling),
                place=format_si(ridge.flop_per_byte, "FLOP/byte", digits=2),
            ),
        ),
    )


def _products(machine: Machine) -> Iterator[Block]:
    squares: dict[str, list[tuple[int, Ceiling]]] = {}
    for one in of_kind(machine, "matmul"):
        side = _side(one)
        if side and one.name == "mm" and one.unit == "flop/s" and is_main(one, machine):
            squares.setdefault(one.dtype or tr("any type"), []).append((side, one))
    lines = tuple(
        _line(dtype, sorted(found, key=lambda item: item[0]))
        for dtype, found in list(squares.items())[:_SHOWN_DTYPES]
        if len(found) > 1
    )
    if lines:
        yield Chart(
            name="products",
            title=tr("Products of two n x n matrices"),
            summary=tr("The rate rises with n: small products are mostly the op's own cost."),
            x=Axis(name="n", scale="log"),
            y=Axis(name=tr("FLOP/s"), unit="flop/s", scale="log"),
            lines=lines,
        )
    best = {place: one for place, one in best_products(machine).items() if "_" not in place[0]}
    if best:
        yield Table(
            caption=tr("The fastest of the shapes tried"),
            head=(tr("Product"), tr("Type"), tr("Rate"), tr("Low to high"), tr("Shape"), tr("How")),
            rows=tuple(
                (name, dtype, _rate(one), _ends(one), _shape(one), _how(one)) for (name, dtype), one in best.items()
            ),
            numeric=(2, 3, 4),
        )
    notes = tuple(product_notes(machine, unicode=True))
    if notes:
        yield Bullets(items=notes)


def _bandwidth(machine: Machine) -> Iterator[Block]:
    curves: dict[str, list[tuple[int, Ceiling]]] = {}
    for one in of_kind(machine, "bandwidth"):
        if one.size_bytes and is_main(one, machine) and not one.name.endswith(SUSTAINED):
            curves.setdefault(one.name, []).append((one.size_bytes, one))
    names = [name for name in _TRAFFIC if name in curves] or list(curves)
    if names:
        largest = max(size for name in names for size, _ in curves[name])
        yield Chart(
            name="bandwidth",
            title=tr("Bandwidth by the size of what an op touches"),
            summary=tr(
                "Bytes read and written a second: caches on the left, main memory on the right, at {size}.",
                size=format_size(largest),
            ),
            x=Axis(name=tr("bytes an op touches"), unit="byte", scale="log"),
            y=Axis(name=tr("bytes a second"), unit="byte/s", scale="log"),
            lines=tuple(_line(name, sorted(curves[name], key=lambda item: item[0])) for name in names),
        )
    notes = tuple(bandwidth_notes(machine, unicode=True))
    if notes:
        yield Bullets(items=notes)


def _functions(machine: Machine) -> Iterator[Block]:
    every = [one for one in of_kind(machine, "function") if one.arguments is None and one.dtype is not None]
    eager = [one for one in every if is_main(one, machine)]
    counts: dict[str, int] = {}
    for one in eager:
        counts[one.dtype or ""] = counts.get(one.dtype or "", 0) + 1
    if not counts:
        return
    dtype = max(counts, key=lambda name: counts[name])
    known = {one.name: one for one in eager if one.dtype == dtype}
    chosen = dict.fromkeys(name for name in (*_KNOWN_FUNCTIONS, *known) if name in known)
    names = sorted(list(chosen)[:_SHOWN_FUNCTIONS], key=lambda name: known[name].value)
    compiled = [one for one in every if one.stack == _COMPILED and one.dtype == dtype]
    shown = [one for one in (*eager, *compiled) if one.dtype == dtype and one.name in names]
    yield Chart(
        name="functions",
        title=tr("Time of a function, an element"),
        summary=tr("In {dtype}, from data in a cache; the shorter the bar, the cheaper.", dtype=dtype),
        x=Axis(name=tr("time an element"), unit="s"),
        y=Axis(name=tr("function"), scale="category", categories=tuple(names)),
        bars=tuple(_bar(one, one.stack if compiled else "") for one in shown),
    )


def _overheads(machine: Machine) -> Iterator[Block]:
    places = {name: place for place, name in enumerate(OVERHEAD_KINDS)}
    kinds = [one for one in _main_overheads(machine) if "/" not in one.name]
    shown = sorted(kinds, key=lambda one: places.get(one.name, len(places)))[:_SHOWN_OVERHEADS]
    if shown:
        yield Chart(
            name="overhead",
            title=tr("Time of an op that works on almost nothing"),
            summary=tr("What an op of each kind takes before any work: the floor of overhead."),
            x=Axis(name=tr("time an op"), unit="s"),
            y=Axis(name=tr("kind of op"), scale="category", categories=tuple(dict.fromkeys(one.name for one in shown))),
            bars=tuple(_bar(one, "") for one in shown),
        )


def _findings(machine: Machine) -> Iterator[Block]:
    if machine.findings:
        yield Bullets(items=tuple(finding_words(one) for one in machine.findings))


def _main_overheads(machine: Machine) -> list[Ceiling]:
    return [one for one in of_kind(machine, "overhead", "launch") if is_main(one, machine)]


def _peaks(machine: Machine) -> list[Ceiling]:
    """The fastest product of each type, fastest first."""
    peaks: dict[str, Ceiling] = {}
    for (_, dtype), one in best_products(machine).items():
        if dtype not in peaks or one.value > peaks[dtype].value:
            peaks[dtype] = one
    return sorted(peaks.values(), key=lambda one: -one.value)


def _line(name: str, points: Sequence[tuple[float, Ceiling]]) -> Line:
    ceilings = [one for _, one in points]
    return Line(
        name=name,
        x=tuple(float(at) for at, _ in points),
        y=tuple(one.value for one in ceilings),
        low=tuple(one.low for one in ceilings),
        high=tuple(one.high for one in ceilings),
        look=ceilings[0].source,
    )


def _bar(one: Ceiling, group: str) -> Bar:
    return Bar(
        category=one.name,
        value=one.value,
        low=one.low,
        high=one.high,
        group=group,
        details=tuple(_marks(one)),
        look=one.source,
    )


def _marks(one: Ceiling) -> Iterator[str]:
    if one.unsteady:
        yield tr("moved while it was measured")
    if one.contradicted:
        yield tr("above what another limit allows: one of the two is wrong")


def _how(one: Ceiling) -> str:
    source = {"measured": tr("measured"), "modelled": tr("modelled"), "datasheet": tr("from a datasheet")}[one.source]
    return "; ".join((source, *_marks(one)))


def _rate(one: Ceiling) -> str:
    return format_rate(one.value, one.unit, digits=digits_for(one.value, one.low, one.high))


def _ends(one: Ceiling) -> str:
    low, high = (format_rate(end, one.unit) for end in (one.low, one.high))
    return tr("{low} to {high}", low=low, high=high)


def _shape(one: Ceiling) -> str:
    if one.shape is None:
        return ""
    batch, *sizes = one.shape
    text = " x ".join(map(str, sizes))
    return text if batch == 1 else tr("{count} of {shape}", count=f"{batch}", shape=text)


def _side(one: Ceiling) -> int:
    """n of a product of two n x n matrices; 0 for any other."""
    batch, m, n, k = one.shape if one.shape is not None and len(one.shape) == 4 else (0, 0, 0, 0)
    return n if batch == 1 and m == n == k else 0
