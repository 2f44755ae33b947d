"""Findings that a step's ops show by their order and kind: single elements, double precision, copied operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from boundby.bound.ceilings import Ceilings
from boundby.bound.floors import op_floors
from boundby.bound.step_view import StepView, Whole, whereabouts
from boundby.results.interval import Interval, interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.own_code import is_own
from boundby.results.trace import OpSite
from boundby.results.units import format_ratio, format_size

# How an op's site names the shape of a tensor without dimensions.
_SCALAR = "scalar"
_READ = "aten._local_scalar_dense.default"
# Takes one element, or all of them one by one, out of a tensor of one dimension.
_ELEMENT = frozenset({"aten.select.int", "aten.unbind.int"})
# Single elements touched again within so many ops are one loop; it takes so many to be one.
NEAR, LOOP = 24, 8
# Shares of the step from which on a finding is worth telling.
LEAST_LOOP, LEAST_READS, LEAST_DOUBLE, LEAST_COPIED = 0.02, 0.03, 0.02, 0.01
# On a CPU fewer reads a step than these are what every script does.
FEW_READS = 4
# An operand's copy and its product stand this near to each other.
COPY_NEAR = 8
_DOUBLE = frozenset({"fp64", "c128"})
_HALF_OF = {"fp64": "fp32", "c128": "c64"}
_SINGLE = frozenset({"float32", "bfloat16", "float16"})
_COPY = "aten.clone.default"
_SUM = "aten.sum.dim_IntList"
_PRODUCTS = frozenset({"aten.bmm.default", "aten.baddbmm.default"})


def op_findings(view: StepView, ceilings: Ceilings, parameter_dtypes: Sequence[str]) -> Iterator[Finding]:
    """What the order and the kinds of a step's ops show.

    Args:
        view: the ops with their seconds.
        ceilings: of the machine they ran on.
        parameter_dtypes: torch's names of the dtypes of the model's parameters.
    """
    if not len(view.site):
        return
    loops = _element_loops(view)
    for runs in loops:
        yield from _element_loop(view, runs)
    in_loops = {int(one) for runs in loops for run in runs for one in run}
    yield from _reads(view, in_loops)
    yield from _double(view, ceilings, parameter_dtypes)
    yield from _copied_operands(view)


# Loops over elements, and reads that a device is waited for.


def _is_access(site: OpSite) -> bool:
    """Whether it takes an element out of a tensor, or computes with single ones."""
    if site.phase not in ("forward", "other") or not is_own(site.path):
        return False
    return _takes_element(site) or (bool(site.shapes) and set(site.shapes.split()) == {_SCALAR})


def _takes_element(site: OpSite) -> bool:
    return site.op in _ELEMENT and site.shapes.isdecimal()


def _element_loops(view: StepView) -> list[list[Whole]]:
    """Positions of accesses to single elements, those that follow one another closely together, by the loop's line."""
    at = view.where(_is_access)
    if not len(at):
        return []
    loops: dict[tuple[str | None, int | None], list[Whole]] = {}
    for run in np.split(at, np.flatnonzero(np.diff(at) > NEAR) + 1):
        # The same line comes by again and again in a loop; others that read something once, before or after, do not.
        often = [line for line, times in Counter(_line(view.at(int(one))) for one in run).items() if times >= LOOP]
        own = np.array([one for one in run if _line(view.at(int(one))) in often], dtype=run.dtype)
        if len(own) and any(_takes_element(view.at(int(one))) for one in own):
            loops.setdefault(_commonest(view, own), []).append(own)
    return list(loops.values())


def _commonest(view: StepView, positions: Whole) -> tuple[str | None, int | None]:
    return Counter(_line(view.at(int(one))) for one in positions).most_common(1)[0][0]


def _line(site: OpSite) -> tuple[str | None, int | None]:
    return site.path, site.line


def _element_loop(view: StepView, runs: Sequence[Whole]) -> Iterator[Finding]:
    """What a loop costs in all the times that a step goes through it."""
    accesses = np.concatenate(runs)
    forward = np.concatenate([np.arange(int(run[0]), int(run[-1]) + 1) for run in runs])
    lines = {_line(view.at(int(one))) for one in accesses}
    backward = view.where(lambda site: site.phase == "backward" and _line(site) in lines)
    inside = np.concatenate([forward, backward])
    # The gap before a stretch is of what came before the loop.
    gaps = np.setdiff1d(inside, [int(run[0]) for run in runs])
    cost = view.seconds(inside, gaps=gaps)
    if cost is not None and not view.worth(cost, LEAST_LOOP):
        return
    path, line = _commonest(view, accesses)
    reads = sum(view.at(int(one)).op == _READ for one in accesses)
    yield Finding(
        code="element-loop",
        message=tr(
            "{where}a Python loop works on a tensor element by element{reads}: {ops} ops a step{back}, {cost}{device}",
            where=whereabouts(path, line),
            reads=tr(", and reads {count} of them into Python numbers", count=f"{reads:,}") if reads else "",
            ops=f"{len(inside):,}",
            back=tr(" with their backward ones") if len(backward) else "",
            cost=view.told(cost),
            device=_of_devices(view, reads),
        ),
        advice=tr(
            "Compute on the whole tensor at once; where Python needs the numbers, one x.tolist() reads them all."
        ),
        path=path,
        line=line,
        time_s=cost,
    )


def _of_devices(view: StepView, reads: int) -> str:
    if not reads:
        return ""
    if view.device == "cpu":
        return tr(" on this CPU; on an accelerator each reading waits for the device besides")
    return tr("; each reading waits for the device")


def _reads(view: StepView, in_loops: set[int]) -> Iterator[Finding]:
    """Reads of single values outside of loops, by line."""
    at = [
        int(one)
        for one in view.where(lambda site: site.op == _READ and site.phase != "optimizer" and is_own(site.path))
        if int(one) not in in_loops and view.at(int(one)).phase != "backward"
    ]
    by_line: dict[tuple[str | None, int | None], list[int]] = {}
    for one in at:
        by_line.setdefault(_line(view.at(one)), []).append(one)
    cheap: dict[tuple[str | None, int | None], Interval] = {}
    for (path, line), positions in by_line.items():
        cost = view.seconds(np.array(positions))
        if cost is not None and (len(positions) < FEW_READS or not view.worth(cost, LEAST_READS)):
            cheap[path, line] = cost
            continue
        yield Finding(
            code="reads-values",
            message=tr(
                "{where}reads {count} values a step into Python numbers (item(), float() or a condition): "
                "{cost}{device}",
                where=whereabouts(path, line),
                count=f"{len(positions):,}",
                cost=view.told(cost),
                device=_of_devices(view, len(positions)),
            ),
            advice=tr(
                "Keep values in tensors (detached) and read them every so many steps; use torch.where for conditions."
            ),
            path=path,
            line=line,
            time_s=cost,
        )
    yield from _cheap_reads(view, cheap)


def _cheap_reads(view: StepView, costs: Mapping[tuple[str | None, int | None], Interval]) -> Iterator[Finding]:
    """What to know of reads that cost next to nothing on the CPU; there is nothing to gain here, so no advice."""
    if not costs or view.device != "cpu":
        return
    path, line = max(costs, key=lambda one: costs[one].value)
    total = interval(*(sum(getattr(one, end) for one in costs.values()) for end in ("value", "low", "high")))
    more = trn(", and so does {count} more line", ", and so do {count} more lines", len(costs) - 1)
    yield Finding(
        code="value-read",
        message=tr(
            "{where}reads a value into a Python number each step (item(), float() or a condition){more}: {cost} on "
            "this CPU; an accelerator would be waited for here",
            where=whereabouts(path, line),
            more=more if len(costs) > 1 else "",
            cost=view.told(total) if total.value > 0 else tr("no time that could be measured"),
        ),
        path=path,
        line=line,
        time_s=total,
    )


# Double precision.


def _double(view: StepView, ceilings: Ceilings, parameter_dtypes: Sequence[str]) -> Iterator[Finding]:
    """Work in float64 where the parameters are float32: an input or a constant of NumPy's has made it so."""
    if not parameter_dtypes or not set(parameter_dtypes) <= _SINGLE:
        return
    at = view.where(lambda site: site.cost.dtype in _DOUBLE and site.cost.launches > 0 and site.phase != "optimizer")
    cost = view.seconds(at)
    if not len(at) or (cost is not None and not view.worth(cost, LEAST_DOUBLE)):
        return
    own = [int(one) for one in at if is_own(view.at(int(one)).path)]
    if not own:
        return
    # The first is where it begins; later ones follow from it.
    first = view.at(own[0])
    more = {_line(view.at(one)) for one in own} - {_line(first)}
    single = _in_single(view, at, ceilings)
    yield Finding(
        code="double-precision",
        message=tr(
            "{where}{count} ops a step compute in float64 though the parameters are {dtypes}, here first{more}: {cost}"
            "{single}",
            where=whereabouts(first.path, first.line),
            count=f"{len(at):,}",
            dtypes=", ".join(sorted(parameter_dtypes)),
            more=tr(" and on {lines} more lines", lines=f"{len(more):,}") if more else "",
            cost=view.told(cost),
            single=""
            if single is None or cost is None
            else tr(
                "; by this machine's ceilings float32 would take {ratio} of that (modelled)",
                ratio=f"{single.value / cost.value:.0%}",
            ),
        ),
        advice=tr(
            "Make the input float32 where it comes from, as NumPy's default is float64: torch.as_tensor(x).float()."
        ),
        path=first.path,
        line=first.line,
        time_s=cost,
    )


def _in_single(view: StepView, at: Whole, ceilings: Ceilings) -> Interval | None:
    """Seconds of the same ops in float32: what each has beyond its floor stays, in proportion."""
    if view.window is None:
        return None
    value = low = high = 0.0
    for number in np.unique(view.site[at]):
        site = view.sites[int(number)]
        mine = at[view.site[at] == number]
        seconds = float(view.window[mine].sum())
        cost = site.cost
        halved = replace(
            cost,
            dtype=_HALF_OF[cost.dtype],
            bytes_read=cost.bytes_read // 2,
            bytes_written=cost.bytes_written // 2,
        )
        before, after = (op_floors(replace(site, cost=one), 0.0, ceilings) for one in (cost, halved))
        floor = before.overhead.value + before.work.value
        if floor <= 0.0:
            return None
        value += seconds * min(1.0, (after.overhead.value + after.work.value) / floor)
        low += seconds * min(1.0, (after.overhead.low + after.work.low) / (before.overhead.high + before.work.high))
        high += seconds
    return Interval(value=value, low=min(low, value), high=max(high, value))


# Operands of products that are copied to be repeated.


def _copied_operands(view: StepView) -> Iterator[Finding]:
    """Copies that write more than they read, right before a batched product of the same line: repeated operands."""
    copies: dict[tuple[str | None, int | None], list[int]] = {}
    for one in view.where(lambda site: site.op == _COPY and is_own(site.path) and _repeats_input(site)):
        position = int(one)
        where = _line(view.at(position))
        after = range(position + 1, min(position + 1 + COPY_NEAR, len(view.site)))
        if any(view.at(near).op in _PRODUCTS and _line(view.at(near)) == where for near in after):
            copies.setdefault(where, []).append(position)
    for (path, line), positions in copies.items():
        cost = view.seconds(np.array([*positions, *_summed_again(view, path, line)]))
        if cost is not None and not view.worth(cost, LEAST_COPIED):
            continue
        costs = [view.at(one).cost for one in positions]
        written, read = sum(one.bytes_written for one in costs), sum(one.bytes_read for one in costs)
        yield Finding(
            code="operand-copied",
            message=tr(
                "{where}a product of tensors of unlike batch shapes copies an operand to repeat it: {read} become "
                "{written} ({ratio}), {count} copies; with what sums up their gradients {cost}",
                where=whereabouts(path, line),
                read=format_size(read),
                written=format_size(written),
                ratio=format_ratio(written / max(1, read)),
                count=f"{len(positions):,}",
                cost=view.told(cost),
            ),
            advice=tr(
                "Put the repeated dimension into the rows of one product (reshape, or torch.einsum), so that nothing "
                "is repeated."
            ),
            path=path,
            line=line,
            time_s=cost,
        )


def _summed_again(view: StepView, path: str | None, line: int | None) -> list[int]:
    """Backward, the gradient of a repeated operand is as large as its copies, and is summed up."""
    at = view.where(
        lambda site: (
            site.phase == "backward"
            and (site.path, site.line) == (path, line)
            and site.op == _SUM
            and site.cost.bytes_read >= 2 * site.cost.bytes_written
        )
    )
    return [int(one) for one in at]


def _repeats_input(site: OpSite) -> bool:
    cost = site.cost
    return 0 < 2 * cost.bytes_read <= cost.bytes_written
