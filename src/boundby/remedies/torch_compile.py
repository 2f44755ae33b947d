"""torch.compile of the hot module: chains fused, small ops no longer dispatched, and the cost of calling what it made.

What compiling changes is summed up part by part, each from the report or this machine's ceilings: chains of
elementwise ops that become one kernel, the overhead of the ops in them, and against these the call of the compiled
code with its guards, and kernels that the compiler writes worse than the library's. Products, convolutions, attention
and the optimizer are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from boundby.remedies.compiled_calls import call_s, gradient_s, has_compiler, overhead_s
from boundby.remedies.compiled_modules import compile_outermost_modules, telling_backend
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.fused_times import fused_time, generated_ratio
from boundby.remedies.in_step import explained_s, savable_s, seconds_of
from boundby.remedies.pointwise_chains import is_pointwise, is_reduction, plain_name, pointwise_chains
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.interval import Interval, interval
from boundby.results.language import tr, trn
from boundby.results.report import OpRow, Report
from boundby.results.units import format_number, format_time

NAME = "compile"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
TOUCHES = frozenset({"model"})

# The constants below are ratios to what the machine file has, measured as those of ``compiled_calls``.
#
# Writing a mask of booleans that the backward pass needs, beside exp of an element: 12.5 ns where that is 0.9 ns. The
# generated code stores them one by one. Dropout always needs its mask; an activation needs none where its result is
# kept anyway, as the input of the next product, which the report does not say.
MASK_STORE = interval(14.0, 9.0, 17.0)
MASKS = {
    **dict.fromkeys(("dropout", "native_dropout", "bernoulli"), interval(1.0)),
    **dict.fromkeys(("relu", "threshold", "leaky_relu", "hardtanh", "clamp", "clamp_min"), interval(0.35, 0.0, 1.0)),
}
# How long generated kernels and library calls take beside those of eager mode.
RATIOS = {
    "layer_norm": interval(1.15, 1.0, 1.25),
    "batch_norm": interval(1.0, 0.85, 1.15),
    "softmax": interval(1.05, 0.98, 1.12),
    "pool": interval(0.9, 0.75, 1.1),
    "library": interval(1.02, 0.99, 1.05),
    "pointwise": interval(1.03, 0.97, 1.1),
}
# What is fused beyond a source line is not known: up to this share of the other elementwise ops' traffic.
FURTHER = 0.3
# Compiled code takes its memory at other places and runs its ops in another order. What that does to the region's time
# is not known to less than this.
UNKNOWN = 0.05
# Parts of less than this share of the step are not told.
LEAST_SAID = 0.002
# A generated kernel's own start, beside an eager op's.
KERNEL_START = interval(0.6, 0.3, 1.0)
# Ops that only stand around a product, with which they stay: a linear layer compiled takes as long as in eager mode.
STAYING = frozenset({"t", "detach", "alias"})
# What is no longer dispatched saves this share of what the ceilings say of it.
STARTS_BAND = interval(1.0, 0.6, 1.5)


def title() -> str:
    """What it does, for people."""
    return tr("torch.compile of the outermost module")


def _change() -> str:
    return tr("{code}; the first steps compile for some 10 to 60 s, once", code="model = torch.compile(model)")


def predict(evidence: Evidence) -> Prediction:
    """What fusing saves, less what calling compiled code costs; how long compiling takes is known by trying."""
    report = evidence.report
    if evidence.facts.compiled or any(row.op == "torch.compile region" for row in report.ops):
        return NotApplicable(tr("the script compiles already"))
    if not has_compiler():
        return NotApplicable(tr("no C++ compiler is here for torch.compile to use"))
    region = compiled_rows(report)
    if not region:
        return NotApplicable(tr("no module runs in the step"))
    calls = outermost_calls(region)
    parts = _Parts(report, region, calls, graph=bool(evidence.facts.grad_in_inference))
    if parts.call is None:
        return CannotTell(tr("what an op's overhead is here is not known"), change=_change())
    saved = [parts.chains, parts.starts, parts.unknown]
    spent = [parts.call, parts.masks, parts.other]
    value = sum(one.value for one in saved) - sum(one.value for one in spent)
    low = sum(one.low for one in saved) - sum(one.high for one in spent)
    high = sum(one.high for one in saved) - sum(one.low for one in spent)
    most = savable_s(report, region) + report.overhead_parts.host * report.step.time_s.median
    value, low, high = min(value, most), min(low, most), min(high, most)
    return predicted_from_saving(
        report, value, low, high, reason=parts.reason(), change=_change(), changes_numbers=CHANGES_NUMBERS
    )


def compiled_rows(report: Report) -> tuple[OpRow, ...]:
    """The ops that would be in the compiled code: those of modules, or of the whole callable."""
    if report.step.kind == "callable":
        return tuple(row for row in report.ops if row.phase != "optimizer")
    return tuple(row for row in report.ops if row.module is not None and row.phase in ("forward", "backward"))


def outermost_calls(region: Sequence[OpRow]) -> int:
    """How often a step calls the compiled module: as often as most modules with a product in them."""
    calls: dict[str | None, int] = {}
    for row in region:
        if row.matmul_flops and row.phase != "backward":
            calls[row.module] = calls.get(row.module, 0) + row.calls
    return max(1, round(median(calls.values()))) if calls else 1


class _Parts:
    """What compiling changes, each in seconds a step."""

    def __init__(self, report: Report, region: Sequence[OpRow], calls: int, *, graph: bool) -> None:
        self.report, self.region, self.calls = report, region, calls
        self.trains = any(row.phase == "backward" for row in region)
        inside = {id(row) for row in region}
        self.found = [one for one in pointwise_chains(report) if all(id(row) in inside for row in one.rows)]
        self.graph = graph or self.trains
        one = call_s(report.machine, trains=self.trains, unused_gradient=graph and not self.trains)
        self.call = None if one is None else one.scaled(calls)
        self.chains = self._chains()
        self.starts = self._starts()
        self.masks = self._masks()
        self.other = self._other()
        known = seconds_of(report, region)
        self.unknown = interval(0.0, -UNKNOWN * known, UNKNOWN * known)

    def reason(self) -> str:
        """The largest parts in words."""
        step = self.report.step.time_s.median
        before = sum(one.passes_before * one.runs * one.elements for one in self.found)
        after = sum(one.passes_after.value * one.runs * one.elements for one in self.found)
        chains = trn(
            "{count} chain of elementwise ops would pass over memory {times} times as often",
            "{count} chains of elementwise ops would pass over memory {times} times as often",
            len(self.found),
            times=format_number(after / max(before, 1), digits=2),
        )
        calls = trn("{count} call of compiled code", "{count} calls of compiled code", self.calls)
        parts = (
            (chains, -self.chains.value if self.found else 0.0),
            (tr("ops no longer started one by one"), -self.starts.value),
            (calls, self.call.value if self.call is not None else 0.0),
            (tr("masks stored for the backward pass"), self.masks.value),
            (tr("kernels as generated"), self.other.value),
        )
        said = [
            tr("{what} {change}", what=what, change=f"{seconds * 1e3:+.2g} ms")
            for what, seconds in parts
            if abs(seconds) > LEAST_SAID * step
        ]
        return tr(
            "of a step's {step}: {parts}",
            step=format_time(step),
            parts=tr(", ").join(said) or tr("next to nothing would change"),
        )

    def _chains(self) -> Interval:
        total = interval(0.0)
        for chain in self.found:
            saved = fused_time(chain, self.report).saved
            total = _plus(total, saved)
        rest = [row for row in self._fusible() if not self._in_chain(row)]
        memory = sum(min(seconds_of(self.report, [row]), row.floors.memory_s) for row in rest)
        further = FURTHER * memory
        return _plus(total, interval(further / 2, 0.0, further))

    def _starts(self) -> Interval:
        """The overhead of ops that are no longer dispatched one by one, and of what they add to the graph."""
        machine = self.report.machine
        gone = [row for row in self.region if not row.matmul_flops and plain_name(row.op) not in STAYING]
        gradient = gradient_s(machine) if self.trains else overhead_s(machine, "autograd_node") or 0.0
        now = sum(row.floors.overhead_s for row in gone if not self._in_chain(row))
        if self.graph:
            now += gradient * sum(row.calls for row in gone if row.phase != "backward")
        working = sum(row.calls for row in gone if row.bytes_written and not self._in_chain(row))
        library = sum(row.calls for row in self.region if row.matmul_flops)
        start = (overhead_s(machine, "pointwise") or 0.0) * min(working, library + 1)
        left = KERNEL_START.scaled(start) if start else interval(0.0)
        return interval(now - left.value, STARTS_BAND.low * now - left.high, STARTS_BAND.high * now - left.low)

    def _masks(self) -> Interval:
        if not self.trains:
            return interval(0.0)
        exp = next(
            (
                one.value
                for one in self.report.machine.ceilings
                if one.kind == "function" and one.name == "exp" and one.dtype == "fp32" and one.stack == "torch"
            ),
            0.0,
        )
        total = interval(0.0)
        for row in self.region:
            stored = MASKS.get(plain_name(row.op)) if row.phase != "backward" else None
            if stored is not None:
                seconds = exp * _elements(row)
                ends = ((stored.value, MASK_STORE.value), (stored.low, MASK_STORE.low), (stored.high, MASK_STORE.high))
                total = _plus(total, interval(*(a * b * seconds for a, b in ends)))
        return total

    def _other(self) -> Interval:
        """What kernels cost more (or less) than in eager mode."""
        total = interval(0.0)
        for row in self.region:
            if self._in_chain(row) or not row.bytes_read + row.bytes_written:
                continue
            kind = _kind(row)
            bound = kind == "pointwise" and row.floors.pointwise_s > row.floors.memory_s
            ratio = generated_ratio(plain_name(row.op), self.report.machine) if bound else None
            ratio = ratio or RATIOS[kind]
            work = max(0.0, seconds_of(self.report, [row]) - row.floors.overhead_s)
            if bound:
                work = min(work, explained_s(self.report, row))
            more = interval((ratio.value - 1) * work, (ratio.low - 1) * work, (ratio.high - 1) * work)
            total = _plus(total, more)
        return total

    def _fusible(self) -> list[OpRow]:
        return [row for row in self.region if is_pointwise(row) or is_reduction(row)]

    def _in_chain(self, row: OpRow) -> bool:
        return any(row is one for chain in self.found for one in chain.rows)


def _kind(row: OpRow) -> str:
    name = plain_name(row.op)
    for kind in ("layer_norm", "batch_norm", "softmax", "pool"):
        if kind in name:
            return kind
    return "pointwise" if is_pointwise(row) or is_reduction(row) else "library"


def _elements(row: OpRow) -> int:
    return row.pointwise_flops or row.bytes_written // 4


def _plus(a: Interval, b: Interval) -> Interval:
    return interval(a.value + b.value, a.low + b.low, a.high + b.high)


def apply(effects: Effects) -> None:
    """Outermost modules with parameters compile themselves at their first call; what the script compiled is left."""
    import torch

    backend = telling_backend(effects)
    compile_outermost_modules(effects, lambda forward: torch.compile(forward, backend=backend))


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The whole step compiled, with graph breaks where the compiler cannot follow."""
    import torch

    compiled: Callable[[], Any] = torch.compile(step, backend=telling_backend(effects))
    return compiled
