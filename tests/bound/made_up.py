"""Machines and traces made up in round numbers, and strategies for random ones."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import strategies as st

from boundby.bound.split import Division
from boundby.results.counts import MatmulShape, OpCost
from boundby.results.interval import Interval
from boundby.results.machine import Ceiling, Machine, MachineDescription
from boundby.results.report import SHARES
from boundby.results.trace import AnchorReading, OpSite, StepClass, StepOps, Trace, WatchedStep

KIB, MIB = 1 << 10, 1 << 20
ANCHORS = ("matmul", "cache", "memory", "dispatch")


def description() -> MachineDescription:
    return MachineDescription(
        cpu="made up",
        usable_cores=1,
        logical_cores=1,
        memory_bytes=None,
        memory_limit_bytes=None,
        os="none",
        python="3.11",
        torch=None,
        threads=1,
        affinity=None,
    )


def overhead(name: str, seconds: float, *, spread: float = 0.0, threads: int = 1) -> Ceiling:
    return Ceiling(
        kind="overhead",
        name=name,
        value=seconds,
        low=seconds * (1 - spread),
        high=seconds * (1 + spread),
        unit="s",
        threads=threads,
    )


def function(name: str, seconds: float, dtype: str = "fp32") -> Ceiling:
    return Ceiling(kind="function", name=name, dtype=dtype, value=seconds, low=seconds, high=seconds, unit="s")


def bandwidth(name: str, size: int, rate: float, *, spread: float = 0.0) -> Ceiling:
    return Ceiling(
        kind="bandwidth",
        name=name,
        size_bytes=size,
        value=rate,
        low=rate * (1 - spread),
        high=rate * (1 + spread),
        unit="byte/s",
    )


def product(shape: tuple[int, int, int, int], rate: float, dtype: str = "fp32", name: str = "mm") -> Ceiling:
    return Ceiling(kind="matmul", name=name, dtype=dtype, shape=shape, value=rate, low=rate, high=rate, unit="flop/s")


def matvec(shape: tuple[int, int, int, int], rate: float, dtype: str = "fp32") -> Ceiling:
    return Ceiling(kind="matmul", name="mv", dtype=dtype, shape=shape, value=rate, low=rate, high=rate, unit="byte/s")


def anchor(name: str, seconds: float) -> Ceiling:
    return Ceiling(kind="anchor", name=name, value=seconds, low=seconds, high=seconds, unit="s")


PATTERNS = ("read", "write", "copy", "inplace", "triad")


def round_machine(*extra: Ceiling) -> Machine:
    """1 us an op, 100 GB/s in cache and 10 GB/s beyond, 100 GFLOP/s, exp at 2 ns an element."""
    curves = [
        bandwidth(name, size, rate)
        for name in PATTERNS
        for size, rate in ((64 * KIB, 100e9), (1 * MIB, 100e9), (64 * MIB, 10e9), (256 * MIB, 10e9))
    ]
    return Machine(
        description=description(),
        ceilings=(
            overhead("pointwise", 1e-6),
            overhead("view", 0.5e-6),
            overhead("matmul", 2e-6),
            overhead("foreach", 3e-6),
            overhead("foreach_tensor", 0.25e-6),
            overhead("page_fault", 0.1e-6),
            *curves,
            product((1, 256, 256, 256), 100e9),
            product((1, 512, 512, 512), 100e9),
            function("exp", 2e-9),
            function("add", 0.05e-9),
            matvec((1, 1, 1024, 1024), 20e9),
            matvec((1, 1, 8192, 8192), 5e9),
            *(anchor(name, 1e-3) for name in ANCHORS),
            *extra,
        ),
    )


def pointwise_cost(elements: int, name: str = "add") -> OpCost:
    return OpCost(
        kind="pointwise",
        pointwise_flops=elements,
        bytes_read=4 * elements,
        bytes_written=4 * elements,
        function=name,
        function_elements=elements,
    )


def matmul_cost(m: int, n: int, k: int, dtype: str = "fp32") -> OpCost:
    return OpCost(
        kind="matmul",
        matmul_flops=2 * m * n * k,
        bytes_read=4 * (m * k + k * n),
        bytes_written=4 * m * n,
        dtype=dtype,
        matmul_shape=MatmulShape(batch=1, m=m, n=n, k=k),
    )


VIEW = OpCost(kind="view", launches=0)


def site(cost: OpCost, op: str = "aten.op", *, line: int | None = 1, items: int = 0, **fields: object) -> OpSite:
    known: dict[str, object] = {"path": "train.py", "code": None, "module": None, "phase": "forward", "shapes": ""}
    return OpSite(op=op, cost=cost, line=line, items=items, **{**known, **fields})  # type: ignore[arg-type]


def trace(
    *,
    step_s: Sequence[float] = (),
    sites: Sequence[OpSite] = (),
    site_of: Sequence[int] | None = None,
    windows: Sequence[float] = (),
    gaps: Sequence[float] = (),
    faults: Sequence[int] = (),
    distances: Sequence[float] = (),
    tail_s: float = 0.0,
    input_s: Sequence[float] = (),
    **fields: object,
) -> Trace:
    """A trace whose ops are ``sites`` in order, or ``site_of`` them; windows and gaps in seconds."""
    order = range(len(sites)) if site_of is None else site_of
    count = len(windows)
    ops = None
    if sites:
        ops = StepOps(
            site=array("I", order),
            window_s=array("d", windows),
            gap_s=array("d", gaps or [0.0] * count),
            faults=array("I", faults or [0] * count),
            distance_bytes=array("d", distances or [0.0] * count),
            tail_s=tail_s,
        )
    known: dict[str, object] = {
        "kind": "training",
        "step_faults": (),
        "watched": (),
        "classes": (StepClass(digest="x", steps=3, ops=count),),
        "anchors": (),
        "threads": 1,
        "device": "cpu",
    }
    return Trace(  # type: ignore[arg-type]
        step_s=tuple(step_s), input_s=tuple(input_s), sites=tuple(sites), ops=ops, **{**known, **fields}
    )


def watched(
    total_s: float, beside_s: float, *, faults: int = 0, beside_faults: int = 0, watching_s: float = 0.0
) -> WatchedStep:
    """A watched step whose windows and gaps sum to ``total_s`` beside bare ones of ``beside_s`` (seconds)."""
    return WatchedStep(
        total_s=total_s, faults=faults, beside_s=beside_s, beside_faults=beside_faults, watching_s=watching_s
    )


def reading(**seconds: float) -> AnchorReading:
    return AnchorReading(at_s=0.0, seconds=dict.fromkeys(ANCHORS, 1e-3) | seconds)


def _costs() -> st.SearchStrategy[OpCost]:
    sizes = st.integers(1, 1 << 22)
    return st.one_of(
        st.just(VIEW),
        st.just(OpCost(kind="scalar")),
        st.builds(pointwise_cost, sizes, st.sampled_from(["add", "exp", "unheard_of"])),
        st.builds(
            matmul_cost,
            st.integers(1, 600),
            st.integers(1, 600),
            st.integers(1, 600),
            st.sampled_from(["fp32", "bf16"]),
        ),
    )


@st.composite
def traces(draw: st.DrawFn, *, most: int = 12) -> Trace:
    """Any trace: ops of all kinds, windows too long or too short for them, gaps of either sign, any bare time."""
    seconds = st.floats(0, 0.05)
    modules = st.sampled_from([None, "a", "a.b"])
    places = st.sampled_from([1, 2, None])
    phases = st.sampled_from(["forward", "backward", "optimizer", "other"])
    sites = [
        site(
            draw(_costs()),
            f"aten.op{draw(st.integers(0, 3))}",
            line=draw(places),
            module=draw(modules),
            phase=draw(phases),
            recomputed=draw(st.booleans()),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]
    count = draw(st.integers(1, most))

    def column(of: st.SearchStrategy) -> list:
        return draw(st.lists(of, min_size=count, max_size=count))

    steps = draw(st.integers(1, 6))
    timed = st.lists(st.floats(1e-6, 0.5), min_size=steps, max_size=steps)
    return trace(
        step_s=draw(timed),
        input_s=draw(st.lists(st.floats(0, 0.2), min_size=steps, max_size=steps)),
        step_faults=tuple(draw(st.lists(st.integers(0, 10_000), min_size=steps, max_size=steps))),
        watched=tuple(
            watched(total_s, beside_s, faults=draw(st.integers(0, 10_000)), beside_faults=draw(st.integers(0, 10_000)))
            for total_s, beside_s in zip(draw(timed), draw(timed), strict=True)
        ),
        sites=sites,
        site_of=column(st.integers(0, len(sites) - 1)),
        windows=column(seconds),
        gaps=column(st.floats(-1e-6, 0.02)),
        faults=column(st.integers(0, 5000)),
        distances=column(st.floats(0, 1e10)),
        tail_s=draw(st.floats(0, 0.02)),
        host_input_s=draw(st.floats(0, 0.02)),
        kind=draw(st.sampled_from(["training", "inference", "callable"])),
        anchors=tuple(
            reading(**{name: draw(st.floats(1e-4, 1e-2)) for name in ANCHORS}) for _ in range(draw(st.integers(0, 3)))
        ),
    )


def shares_of(division: Division) -> dict[str, Interval]:
    """The shares of a division by name."""
    return {name: getattr(division.split, name) for name in SHARES}


def assert_whole(division: Division) -> None:
    """Asserts that the shares sum to 1, lie in their bands, and that overhead is the sum of its parts."""
    parts = division.parts
    found = shares_of(division)
    assert math.isclose(sum(one.value for one in found.values()), 1.0, rel_tol=1e-9)
    for name, one in found.items():
        assert -1e-12 <= one.low <= one.value <= one.high <= 1 + 1e-9, name
    assert parts.dispatch + parts.host + parts.allocation == pytest.approx(found["overhead"].value)
    assert min(parts.dispatch, parts.host, parts.allocation) >= 0
