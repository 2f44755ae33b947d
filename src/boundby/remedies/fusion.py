"""Fusing by hand: elementwise ops written one by one, by source line, that a library function or one kernel would do.

Nothing is tried from outside: it takes another line in the script. The whole module compiled, which fuses the same
chains, is a remedy of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from boundby.remedies.compiled_calls import call_s, has_compiler
from boundby.remedies.contract import CannotTell, Effects, Evidence, NotApplicable, Prediction
from boundby.remedies.fused_times import FusedTime, fused_time, most_of
from boundby.remedies.in_step import base_name, savable_s, tensor_shapes
from boundby.remedies.pointwise_chains import Chain, chain_of, plain_name, pointwise_chains
from boundby.remedies.predicting import predicted_from_saving
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.own_code import is_own
from boundby.results.report import Report
from boundby.results.units import format_time

NAME = "fusion"
CHANGES_NUMBERS = True
ENVIRONMENT: Mapping[str, str] = {}
# Advice by source line: there is nothing that could be applied from outside.
ADVICE_ONLY = True
# Lines whose chains could save less than this share of the step are not worth naming.
LEAST_SHARE = 0.003
MOST_LINES = 3


@dataclass(frozen=True, slots=True)
class Library:
    """A function that does a chain in one kernel: the ops it has at least and at most, and its ceiling's name.

    ``scaled`` says whether its product is one by a number; None where either may be. ``in_place`` likewise.
    """

    call: str
    has: frozenset[str]
    only: frozenset[str] | None
    function: str | None
    ops: tuple[int, int] = (2, 99)
    scaled: bool | None = None
    in_place: bool | None = None


def _library(
    call: str,
    has: str,
    *,
    only: str | None = None,
    function: str | None = None,
    ops: tuple[int, int] = (2, 99),
    scaled: bool | None = None,
    in_place: bool | None = None,
) -> Library:
    allowed = None if only is None else frozenset(only.split()) | frozenset(has.split())
    return Library(call, frozenset(has.split()), allowed, function, ops, scaled, in_place)


# The first that fits. What a chain computes is guessed from its ops: advice says "if it is that".
LIBRARY = (
    _library('F.gelu(x, approximate="tanh")', "tanh mul add pow", only="div rsub", function="gelu_tanh"),
    _library('F.gelu(x, approximate="tanh")', "tanh mul add", only="div", function="gelu_tanh", ops=(7, 10)),
    _library("F.gelu(x)", "erf mul add", only="div", function="gelu"),
    _library("F.log_softmax(x, dim)", "exp sum log", only="amax max sub", function="log_softmax"),
    _library("F.softmax(x, dim)", "exp sum div", only="amax max sub", function="softmax"),
    _library("F.silu(x)", "sigmoid mul", only="", function="silu", ops=(2, 2)),
    _library("F.softplus(x)", "exp log1p", only=""),
    _library("F.layer_norm", "mean sub rsqrt", function="layer_norm"),
    _library("F.rms_norm", "mean rsqrt mul"),
    _library("F.mse_loss(a, b)", "sub pow mean", only=""),
    # A running mean, of weights for example: a *= decay; a += (1 - decay) * b.
    _library("a.lerp_(b, weight)", "mul add", only="", ops=(2, 2), scaled=True, in_place=True),
    _library("torch.add(c, a, alpha=number)", "mul add", only="", ops=(2, 2), scaled=True, in_place=False),
    _library("torch.addcmul(c, a, b)", "mul add", only="", function="addcmul", ops=(2, 2), scaled=False),
    _library("torch.addcdiv(c, a, b)", "div add", only="", function="addcdiv", ops=(2, 2), scaled=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The chains of one source line, in all modules, forward and backward, with what fusing them saves (seconds)."""

    chains: tuple[Chain, ...]
    library: Library | None
    now_s: float
    saved: Interval
    bound: str


def title() -> str:
    """What it does, for people."""
    return tr("elementwise chains, by source line, as one kernel each")


def predict(evidence: Evidence) -> Prediction:
    """What the chains of the script's own lines would save as one kernel each, by passes and by functions."""
    report = evidence.report
    found = pointwise_chains(report)
    own = [one for one in found if is_own(one.path)]
    least = LEAST_SHARE * report.step.time_s.median
    places = [one for one in fusible_places(own, report) if one.saved.value > 0 and one.saved.high > least]
    if not places:
        return NotApplicable(tr("no chain of elementwise ops in the script's own lines would save a noticeable time"))
    if not any(place.library for place in places) and not has_compiler():
        return CannotTell(tr("no library function is known for its chains, and no C++ compiler is here to make one"))
    most = most_of(report)
    # What nothing explains of a line's time is not promised to go.
    cap = savable_s(report, [row for one in places for chain in one.chains for row in chain.rows])
    promised = (1.0 + most) / 2.0 * sum(one.saved.value for one in places)
    saved, least, highest = (
        min(cap, seconds)
        for seconds in (
            promised,
            sum(one.saved.low for one in places),
            most * sum(one.saved.high for one in places),
        )
    )
    told = places[:MOST_LINES]
    reason = tr("; ").join(_told(one, min(1.0, saved / promised)) for one in told)
    if len(places) > len(told):
        reason = tr("{lines} and {number} more lines", lines=reason, number=str(len(places) - len(told)))
    predicted = predicted_from_saving(
        report,
        saved,
        least,
        highest,
        reason=reason,
        change=tr("; ").join(_advice(one) for one in told),
        changes_numbers=CHANGES_NUMBERS,
    )
    return replace(predicted, from_outside=not ADVICE_ONLY)


def fusible_places(chains: Sequence[Chain], report: Report) -> tuple[Place, ...]:
    """Chains by source line, the one that saves most first.

    Args:
        chains: of the report.
        report: with the machine's ceilings.
    """
    lines: dict[tuple[str, int, int], list[Chain]] = {}
    forward = [part for one in chains if one.phase != "backward" for part in _by_library(one)]
    for one in forward:
        lines.setdefault((one.path, one.first_line, one.line), []).append(one)
    for one in chains:
        if one.phase == "backward":
            same = next((key for key, (first, *_) in lines.items() if first.overlaps(one)), None)
            lines.setdefault(same or (one.path, one.first_line, one.line), []).append(one)
    places = [_place(found, report) for found in lines.values()]
    return tuple(sorted(places, key=lambda one: -one.saved.value))


def library_for(chain: Chain) -> Library | None:
    """The library function that seems to compute what the chain does; None where none is known."""
    each = chain.ops // chain.runs
    for one in LIBRARY:
        fits = one.has <= chain.names and (one.only is None or chain.names <= one.only)
        fits = fits and one.scaled in (None, _scaled(chain)) and one.in_place in (None, _in_place(chain))
        if fits and one.ops[0] <= each <= one.ops[1]:
            return one
    return None


def _scaled(chain: Chain) -> bool:
    """Whether its product or quotient is one by a number: no second tensor is told."""
    products = [row for row in chain.rows if plain_name(row.op) in ("mul", "div")]
    return any(len([shape for shape in tensor_shapes(row) if shape != ()]) < 2 for row in products)


def _in_place(chain: Chain) -> bool:
    return all(base_name(row.op).endswith("_") for row in chain.rows)


def _by_library(chain: Chain) -> list[Chain]:
    """A chain of several lines in parts, where a library function does some of the lines and none does all."""
    lines = sorted({row.line or 0 for row in chain.rows})
    if library_for(chain) is not None:
        return [chain]
    for count in range(len(lines) - 1, 0, -1):
        for at in range(len(lines) - count + 1):
            part = _lines_of(chain, lines[at : at + count])
            if part is not None and library_for(part) is not None:
                beside = (_lines_of(chain, lines[:at]), _lines_of(chain, lines[at + count :]))
                return [part, *(one for rest in beside if rest is not None for one in _by_library(rest))]
    return [chain]


def _lines_of(chain: Chain, lines: Sequence[int]) -> Chain | None:
    return chain_of([row for row in chain.rows if row.line in lines])


def _place(chains: Sequence[Chain], report: Report) -> Place:
    forward = [one for one in chains if one.phase != "backward"]
    library = library_for(forward[0]) if forward else None
    times = [_time(one, report, library) for one in chains]
    saved = interval(
        sum(one.saved.value for one in times), sum(one.saved.low for one in times), sum(one.saved.high for one in times)
    )
    if library is None:
        trains = any(one.phase == "backward" for one in chains)
        call = call_s(report.machine, trains=trains) or interval(0.0)
        runs = sum(one.runs for one in forward)
        saved = interval(saved.value - runs * call.value, saved.low - runs * call.high, saved.high - runs * call.low)
    slowest = max(times, key=lambda one: one.now_s)
    now = sum(one.now_s for one in times)
    return Place(chains=tuple(chains), library=library, now_s=now, saved=saved, bound=slowest.bound)


def _time(chain: Chain, report: Report, library: Library | None) -> FusedTime:
    function = None if library is None else library.function
    if function is not None and chain.phase == "backward":
        function = f"{function}_backward"
    return fused_time(chain, report, function=function)


def _told(place: Place, part: float) -> str:
    """The place and what it would take, where ``part`` of what its floors say can be saved."""
    one = place.chains[0]
    after = one.passes_after
    band = "" if after.high - after.low < 0.5 else f" ({after.low:.0f}-{after.high:.0f})"
    left = place.now_s - part * place.saved.value
    return tr(
        "{where}: {before} -> {after} passes over memory, {now} -> {left}, then bound by {bound}",
        where=_where(place),
        before=f"{one.passes_before:.0f}",
        after=f"{after.value:.0f}{band}",
        now=format_time(place.now_s, digits=2),
        left=format_time(left, digits=2),
        bound=place.bound,
    )


def _advice(place: Place) -> str:
    if place.library is None:
        return tr("{where}: torch.compile the function it is in", where=_where(place))
    return tr("{where}: {call} if it is that", where=_where(place), call=place.library.call)


def _where(place: Place) -> str:
    one = place.chains[0]
    lines = str(one.line) if one.first_line == one.line else f"{one.first_line}-{one.line}"
    return f"{os.path.basename(one.path)}:{lines}"


def apply(effects: Effects) -> None:
    """Nothing can be applied from outside: the lines themselves would have to change."""
    effects.cannot(tr("it takes other source lines; the remedy compile fuses the same chains from outside"))


def wrap(step: Callable[[], Any], effects: Effects) -> None:
    """The lines themselves would have to change."""
