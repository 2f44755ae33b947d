"""torch.compile of the hot module: chains fused, small ops no longer dispatched, and the cost of calling what it made.

What compiling changes is summed up part by part, each from the report or this machine's ceilings: chains of
elementwise ops that become one kernel, the overhead of the ops in them, and against these the call of the compiled
code with its guards, and kernels that the compiler writes worse than the library's. Products, convolutions, attention
and the optimizer are left as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from boundby.remedies.compiled_calls import call_s, gradient_s, has_compiler, overhead_s, telling_backend
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.fused_times import fused_time
from boundby.remedies.in_step import seconds_of
from boundby.remedies.pointwise_chains import Chain, is_pointwise, is_reduction, plain_name, pointwise_chains
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.interval import Interval, interval
from boundby.results.report import OpRow, Report
from boundby.results.units import plural

NAME = "compile"
TITLE = "torch.compile of the outermost module"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
CHANGE = "model = torch.compile(model); the first steps compile for some 10 to 60 s, once"

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
# A generated kernel's own start, beside an eager op's.
KERNEL_START = interval(0.6, 0.3, 1.0)
# Ops that only stand around a product, with which they stay: a compiled linear layer takes as long as one in eager mode.
STAYING = frozenset({"t", "detach", "alias"})
# What is no longer dispatched saves this share of what the ceilings say of it.
STARTS_BAND = interval(1.0, 0.6, 1.5)
# Scripts that call more modules than these from outside have no hot one.
MOST_MODULES = 8


def predict(evidence: Evidence) -> Prediction:
    """What fusing saves, less what calling compiled code costs; how long compiling takes is known by trying."""
    report = evidence.report
    if evidence.facts.compiled or any(row.op == "torch.compile region" for row in report.ops):
        return NotApplicable("the script compiles already")
    if not has_compiler():
        return NotApplicable("no C++ compiler is here for torch.compile to use")
    region = compiled_rows(report)
    if not region:
        return NotApplicable("no module runs in the step")
    calls = outermost_calls(region)
    parts = _Parts(report, region, calls)
    if parts.call is None:
        return CannotTell("what an op's overhead is here is not known", change=CHANGE)
    saved = [parts.chains, parts.starts, parts.unknown]
    spent = [parts.call, parts.masks, parts.other]
    value = sum(one.value for one in saved) - sum(one.value for one in spent)
    low = sum(one.low for one in saved) - sum(one.high for one in spent)
    high = sum(one.high for one in saved) - sum(one.low for one in spent)
    return predicted_from_saving(
        report, value, low, high, reason=parts.reason(), change=CHANGE, changes_numbers=CHANGES_NUMBERS
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

    def __init__(self, report: Report, region: Sequence[OpRow], calls: int) -> None:
        self.report, self.region, self.calls = report, region, calls
        self.trains = any(row.phase == "backward" for row in region)
        inside = {id(row) for row in region}
        self.found = [one for one in pointwise_chains(report) if all(id(row) in inside for row in one.rows)]
        one = call_s(report.machine, trains=self.trains)
        self.call = None if one is None else one.scaled(calls)
        self.chains = self._chains()
        self.starts = self._starts()
        self.masks = self._masks()
        self.other = self._other()
        known = seconds_of(report, region)
        self.unknown = interval(0.0, -UNKNOWN * known, UNKNOWN * known)

    def reason(self) -> str:
        """The largest parts in words."""
        said = []
        before = sum(one.passes_before * one.runs * one.elements for one in self.found)
        after = sum(one.passes_after.value * one.runs * one.elements for one in self.found)
        if self.found and self.chains.value > 0:
            said.append(
                f"{plural(len(self.found), 'chain')} of elementwise ops would pass over memory "
                f"{after / max(before, 1):.2g} times as often ({_signed(-self.chains.value)})"
            )
        said.append(f"ops no longer started one by one {_signed(-self.starts.value)}")
        if self.call is not None:
            said.append(f"{plural(self.calls, 'call')} of compiled code {_signed(self.call.value)}")
        if self.masks.value > 0.002 * self.report.step.time_s.median:
            said.append(f"masks stored for the backward pass {_signed(self.masks.value)}")
        said.append(f"kernels as generated {_signed(self.other.value)}")
        return f"of a step's {self.report.step.time_s.median * 1e3:.3g} ms: {', '.join(said)}"

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
        gradient = gradient_s(machine)
        now = sum(row.floors.overhead_s for row in gone if not self._in_chain(row))
        if self.trains:
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
            ratio = RATIOS[_kind(row)]
            work = max(0.0, seconds_of(self.report, [row]) - row.floors.overhead_s)
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


def _signed(seconds: float) -> str:
    return f"{seconds * 1e3:+.2g} ms"


def apply(effects: Effects) -> None:
    """Outermost modules with parameters compile themselves at their first call; what the script compiled is left."""
    import torch

    kind: Any = torch.nn.Module
    plain = kind.__call__
    forwards: dict[int, tuple[Any, Any]] = {}
    backend = telling_backend(effects)
    torch._dynamo.config.suppress_errors = True  # a region that cannot be compiled runs as it was

    @functools.wraps(plain)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Inside, and while compiling, modules are called as ever: the compiler knows that way.
        kind.__call__ = plain
        own = vars(self).get("forward")
        try:
            if id(self) not in forwards and len(forwards) < MOST_MODULES:
                # The module is held, so that no other one gets its number.
                forwards[id(self)] = (self, _compiled_forward(self, backend, effects))
            elif id(self) not in forwards:
                effects.cannot(f"more than {MOST_MODULES} modules are called from outside")
            _, forward = forwards.get(id(self), (None, None))
            # The module's own hooks run as ever, outside; and nothing stays in it that a copy would take along.
            if forward is not None:
                vars(self)["forward"] = forward
            return plain(self, *args, **kwargs)
        finally:
            if own is not None:
                vars(self)["forward"] = own
            else:
                vars(self).pop("forward", None)
            kind.__call__ = call

    kind.__call__ = call


def _compiled_forward(module: Any, backend: Any, effects: Effects) -> Any:
    """Its forward, to be compiled when it is first called; None where it is left as it is."""
    import torch

    if isinstance(module, torch._dynamo.eval_frame.OptimizedModule) or module._compiled_call_impl is not None:
        effects.cannot("the script compiles its module itself")
        return None
    if next(module.parameters(), None) is None:
        return None
    return torch.compile(module.forward, backend=backend)


def wrap(step: Callable[[], Any], effects: Effects) -> Callable[[], Any]:
    """The whole step compiled, with graph breaks where the compiler cannot follow."""
    import torch

    compiled: Callable[[], Any] = torch.compile(step, backend=telling_backend(effects))
    return compiled
