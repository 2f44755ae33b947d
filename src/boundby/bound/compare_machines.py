"""Two machines side by side, limit by limit: pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from boundby.bound.compare import inverse, ratio_text, same_machine
from boundby.results.comparison import CeilingChange, FactChange, MachineComparison, Side
from boundby.results.interval import Interval, interval
from boundby.results.language import tr, trn
from boundby.results.machine import Ceiling, Finding, Machine

# Allowed for beside both bands: with it one limit in fifty differs between two of 20 runs on one machine.
BETWEEN_MEASURINGS = 0.06

_FACTS = (
    "cpu",
    "device",
    "usable_cores",
    "logical_cores",
    "memory_bytes",
    "memory_limit_bytes",
    "os",
    "python",
    "torch",
    "threads",
)
# Triad reads two streams and writes one, as STREAM does; the others stand in where it was not measured.
_TRAFFIC = ("triad", "copy", "read", "write", "inplace")
_DTYPES = ("fp32", "bf16", "fp16", "fp64", "int8")
_PARALLEL_REGION = "parallel_region"
_PAGE_FAULT = "page_fault"
_MAIN_OVERHEADS = ("pointwise", "view", _PAGE_FAULT, _PARALLEL_REGION)
# What is no cost of an op and is told beside it.
_OF_THEIR_OWN = (_PAGE_FAULT, _PARALLEL_REGION)


def compare_machines(a: Machine, b: Machine, *, name_a: str, name_b: str) -> MachineComparison:
    """What machine ``b`` does faster or slower than machine ``a``.

    Limits are compared at equal thread counts; where the two have none in common, each at the count it was measured
    for.

    Args:
        a: the machine that is compared with.
        b: the machine of which is said how it differs.
        name_a: what the user calls ``a``.
        name_b: what the user calls ``b``.
    """
    threads = {one.threads for one in a.ceilings} & {one.threads for one in b.ceilings}
    limits_a, limits_b = (_limits(machine, with_threads=bool(threads)) for machine in (a, b))
    both = [_change(limits_a[key], limits_b[key]) for key in limits_a if key in limits_b]
    side_a, side_b = (
        Side(name=name, cpu=machine.description.cpu, threads=machine.description.threads)
        for machine, name in ((a, name_a), (b, name_b))
    )
    main = tuple(_main(a, b))
    same = same_machine(a.description, b.description)
    sentence = _sentence(side_a, side_b, main, both)
    busy = [side.name for machine, side in ((a, side_a), (b, side_b)) if _was_busy(machine)]
    if busy:
        sentence = tr(
            "{sentence} Do not rely on it: {names} was measured beside other load.",
            sentence=sentence,
            names=_listed(list(dict.fromkeys(busy))),
        )
    return MachineComparison(
        a=side_a,
        b=side_b,
        sentence=sentence,
        same_machine=same is True,
        description=tuple(_facts(a, b)),
        main=main,
        ceilings=tuple(sorted(both, key=_by_difference)),
        only_a=len(limits_a.keys() - limits_b.keys()),
        only_b=len(limits_b.keys() - limits_a.keys()),
        between_runs=BETWEEN_MEASURINGS,
        findings=tuple(_findings(a, b, side_a, side_b)),
    )


def _was_busy(machine: Machine) -> bool:
    return any(one.code == "machine-busy" for one in machine.findings)


def _limits(machine: Machine, *, with_threads: bool) -> dict[tuple[object, ...], Ceiling]:
    """The ceilings by what they are of; probes of the machine's speed are no limits."""
    return {
        (
            one.kind,
            one.name,
            one.dtype,
            one.stack,
            one.size_bytes,
            one.shape,
            one.unit,
            one.threads if with_threads else None,
        ): one
        for one in machine.ceilings
        if one.kind != "anchor" and (with_threads or one.threads == machine.description.threads)
    }


def _facts(a: Machine, b: Machine) -> Iterator[FactChange]:
    for name in _FACTS:
        of_a, of_b = getattr(a.description, name), getattr(b.description, name)
        if of_a != of_b:
            yield FactChange(name=name, a=of_a, b=of_b)


def _change(a: Ceiling, b: Ceiling) -> CeilingChange:
    """Two ceilings of one kind; what the two measured them at is told where it is the same."""
    value = b.value / a.value
    # Each band stands for chance of its own: added as independent, in the logarithm.
    slack = math.log1p(BETWEEN_MEASURINGS)
    below = math.hypot(math.log(b.value / b.low), math.log(a.high / a.value), slack) if b.low > 0 else math.inf
    above = math.hypot(math.log(b.high / b.value), math.log(a.value / a.low), slack) if a.low > 0 else math.inf
    ratio = interval(value, value * math.exp(-below), value * math.exp(above))
    return CeilingChange(
        kind=a.kind,
        name=a.name,
        dtype=a.dtype,
        stack=a.stack,
        size_bytes=a.size_bytes if a.size_bytes == b.size_bytes else None,
        shape=a.shape if a.shape == b.shape else None,
        unit=a.unit,
        a=_interval(a),
        b=_interval(b),
        ratio=ratio,
        faster=inverse(ratio) if a.unit == "s" else ratio,
        differs=not ratio.low <= 1.0 <= ratio.high,
        measured=a.source == b.source == "measured",
    )


def _interval(ceiling: Ceiling) -> Interval:
    return interval(ceiling.value, ceiling.low, ceiling.high)


def _by_difference(change: CeilingChange) -> tuple[bool, float]:
    return not change.differs, -abs(math.log(change.ratio.value))


def _main(a: Machine, b: Machine) -> Iterator[CeilingChange]:
    """The limits that tell most: the fastest product of each dtype, main memory, what an op costs at least."""
    fastest = [_by(machine, "matmul", _dtype_of_product, _is_faster) for machine in (a, b)]
    for dtype in sorted(fastest[0].keys() & fastest[1].keys(), key=_dtype_order):
        yield _change(fastest[0][dtype], fastest[1][dtype])
    largest = [_by(machine, "bandwidth", lambda one: one.name, _is_larger) for machine in (a, b)]
    for name in _TRAFFIC:
        if name in largest[0] and name in largest[1]:
            yield _change(largest[0][name], largest[1][name])
    overheads = [_by(machine, "overhead", lambda one: one.name, _is_faster) for machine in (a, b)]
    for name in _MAIN_OVERHEADS:
        if name in overheads[0] and name in overheads[1]:
            yield _change(overheads[0][name], overheads[1][name])


def _by(
    machine: Machine, kind: str, key: Callable[[Ceiling], str | None], better: Callable[[Ceiling, Ceiling], bool]
) -> dict[str, Ceiling]:
    """The best ceiling of a kind for each key, through torch and at the machine's own thread count."""
    best: dict[str, Ceiling] = {}
    for one in machine.ceilings:
        if one.kind != kind or one.stack != "torch" or one.threads != machine.description.threads:
            continue
        name = key(one)
        if name is not None and (name not in best or better(one, best[name])):
            best[name] = one
    return best


def _dtype_of_product(ceiling: Ceiling) -> str | None:
    return (ceiling.dtype or "any") if ceiling.unit == "flop/s" else None


def _is_faster(one: Ceiling, other: Ceiling) -> bool:
    return one.value > other.value


def _is_larger(one: Ceiling, other: Ceiling) -> bool:
    return (one.size_bytes or 0) > (other.size_bytes or 0)


def _dtype_order(dtype: str) -> tuple[int, str]:
    return (_DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)), dtype


def _sentence(a: Side, b: Side, main: tuple[CeilingChange, ...], both: list[CeilingChange]) -> str:
    if not both:
        return tr("{a} and {b} have no limit in common.", a=a.name, b=b.name)
    differing_main = [one for one in main if one.differs]
    told = [
        _deed(one)
        for one in (
            next((one for one in differing_main if one.kind == "matmul"), None),
            next((one for one in differing_main if one.kind == "bandwidth"), None),
            next((one for one in differing_main if one.kind == "overhead" and one.name not in _OF_THEIR_OWN), None),
            *(one for one in differing_main if one.name in _OF_THEIR_OWN),
        )
        if one is not None
    ]
    if told:
        return tr("Beside {a}, {b} {does}.", a=a.name, b=b.name, does=_listed(told))
    differing = sum(one.differs for one in both)
    if not differing:
        return trn(
            "No difference between {a} and {b} in any of {count} limit.",
            "No difference between {a} and {b} in any of {count} limits.",
            len(both),
            a=a.name,
            b=b.name,
        )
    return trn(
        "No difference between {a} and {b} in the main limits; {differing} of {count} limit differ.",
        "No difference between {a} and {b} in the main limits; {differing} of {count} limits differ.",
        len(both),
        a=a.name,
        b=b.name,
        differing=str(differing),
    )


def _deed(change: CeilingChange) -> str:
    """What one machine does faster or slower than the other, with the machine as the subject."""
    faster = change.faster.value > 1
    times = ratio_text(change.faster.value if faster else 1 / change.faster.value)
    if change.kind == "matmul" and change.dtype:
        values = {"dtype": change.dtype, "times": times}
        return (
            tr("multiplies {dtype} matrices {times} faster", **values)
            if faster
            else tr("multiplies {dtype} matrices {times} slower", **values)
        )
    if change.kind == "matmul":
        return (
            tr("multiplies matrices {times} faster", times=times)
            if faster
            else tr("multiplies matrices {times} slower", times=times)
        )
    if change.kind == "bandwidth":
        return (
            tr("moves main memory ({traffic}) {times} faster", traffic=change.name, times=times)
            if faster
            else tr("moves main memory ({traffic}) {times} slower", traffic=change.name, times=times)
        )
    if change.name == _PAGE_FAULT:
        return (
            tr("takes a fresh page of memory {times} faster", times=times)
            if faster
            else tr("takes a fresh page of memory {times} slower", times=times)
        )
    if change.name == _PARALLEL_REGION:
        return (
            tr("shares an op out among its threads {times} faster", times=times)
            if faster
            else tr("shares an op out among its threads {times} slower", times=times)
        )
    return tr("starts an op {times} faster", times=times) if faster else tr("starts an op {times} slower", times=times)


def _listed(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    listed = parts[0]
    for part in parts[1:-1]:
        listed = tr("{listed}, {another}", listed=listed, another=part)
    return tr("{listed} and {last}", listed=listed, last=parts[-1])


def _findings(a: Machine, b: Machine, side_a: Side, side_b: Side) -> Iterator[Finding]:
    if side_a.threads != side_b.threads:
        yield Finding(
            code="settings-differ",
            message=trn(
                "{a} was measured with {count} thread, {b} with {b_threads}",
                "{a} was measured with {count} threads, {b} with {b_threads}",
                side_a.threads,
                a=side_a.name,
                b=side_b.name,
                b_threads=str(side_b.threads),
            ),
            advice=tr("To compare core by core, measure both with {command}.", command="boundby machine --threads 1"),
        )
    probes_a, probes_b = (one.measuring and one.measuring.probes for one in (a, b))
    if probes_a != probes_b:
        unknown = tr("unknown")
        yield Finding(
            code="settings-differ",
            message=tr(
                "{a} and {b} were measured with different probes ({probes_a} and {probes_b})",
                a=side_a.name,
                b=side_b.name,
                probes_a=unknown if probes_a is None else str(probes_a),
                probes_b=unknown if probes_b is None else str(probes_b),
            ),
            advice=tr("Measure both with one version of boundby: {command}.", command="boundby machine --again"),
        )
    for machine, side in ((a, side_a), (b, side_b)):
        if any(one.code in ("machine-busy", "machine-unsteady") for one in machine.findings):
            yield Finding(
                code="unsteady-side",
                message=tr("the limits of {name} moved while they were measured", name=side.name),
                advice=tr("Measure it again when it is quiet: {command}.", command="boundby machine --again"),
            )
