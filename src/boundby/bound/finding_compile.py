"""Findings on torch.compile: graphs broken off, code compiled again and again, and after how many steps it pays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from boundby.bound.ceilings import Ceilings
from boundby.bound.step_view import StepView, whereabouts
from boundby.results.counts import REGION_NAME, eager_equivalent
from boundby.results.habits import Compilation
from boundby.results.interval import Interval
from boundby.results.language import tr, trn
from boundby.results.machine import Finding
from boundby.results.trace import Trace
from boundby.results.units import format_time

# A frame is compiled twice where its first sizes turn out to change: that is how dynamic shapes begin.
USUAL_TIMES = 2
# What was saved, modelled, may be this much less or more.
LEAST_SAVED, MOST_SAVED = 0.5, 1.5
# Of the compiled code's chains, bytes that are no longer moved lay in caches as often as in memory.
LARGE = 64 << 20
MOST_NAMED = 3


def compile_findings(trace: Trace, view: StepView, ceilings: Ceilings) -> Iterator[Finding]:
    """What torch.compile did in the process, as far as it costs.

    Args:
        trace: with compilations and graph breaks.
        view: the ops with their seconds.
        ceilings: of the machine the step ran on.
    """
    habits = trace.habits
    if not habits.compilations:
        return
    saved = _saved(trace, view, ceilings)
    yield from _breaks(trace, view)
    yield from _again(habits.compilations, view, saved)


def _breaks(trace: Trace, view: StepView) -> Iterator[Finding]:
    breaks = trace.habits.graph_breaks
    if not breaks:
        return
    lines: Counter[tuple[str | None, int | None, str]] = Counter()
    for one in breaks:
        lines[one.place.path, one.place.line, one.reason] += one.times
    told = [
        tr("{where}{reason}", where=whereabouts(path, line), reason=reason)
        for (path, line, reason), _ in lines.most_common(MOST_NAMED)
    ]
    more = len(lines) - len(told)
    regions = len(view.where(lambda site: site.op == REGION_NAME))
    yield Finding(
        code="graph-breaks",
        message=tr(
            "{breaks}: {told}{more}; {regions}, and what lies between them runs as it would without torch.compile; "
            "what that costs is not known",
            breaks=trn(
                "torch.compile broke off its graph at one place",
                "torch.compile broke off its graph at {count} places",
                len(lines),
            ),
            told=tr("; ").join(told),
            more=trn("; and one more place", "; and {count} more places", more) if more else "",
            regions=trn("a step calls one compiled region", "a step calls {count} compiled regions", regions),
        ),
        advice=tr(
            "Take printing, item() and conditions on tensors out of the compiled code; fullgraph=True names each place."
        ),
        path=breaks[0].place.path,
        line=breaks[0].place.line,
    )


def _again(compilations: Sequence[Compilation], view: StepView, saved: Interval | None) -> Iterator[Finding]:
    """Recompilations, and after how many steps all compiling together pays."""
    seconds = [one.seconds for one in compilations if one.seconds is not None]
    total = sum(seconds)
    again = [one for one in compilations if one.again_because is not None]
    times = Counter((one.place, one.name) for one in again)
    often = [key for key, count in times.items() if count >= USUAL_TIMES]
    if often:
        place, name = max(often, key=lambda key: times[key])
        mine = [one for one in again if (one.place, one.name) == (place, name)]
        spent = sum(one.seconds or 0.0 for one in again)
        yield Finding(
            code="recompiles",
            message=tr(
                "{where}{name} was compiled {count} times again, at last because of: {why}; compiling again took "
                "{spent} of the {total} that torch.compile took{pays}",
                where=whereabouts(place.path, place.line),
                name=name,
                count=str(len(mine)),
                why=mine[-1].again_because,
                spent=format_time(spent),
                total=format_time(total),
                pays=_pays(total, saved),
            ),
            advice=tr(
                "Pad to a few sizes, mark changing sizes with torch._dynamo.mark_dynamic, or pass numbers as tensors."
            ),
            path=place.path,
            line=place.line,
        )
        return
    if saved is not None and view.step_s > 0 and total > 0 and total > PAYS_LATE * max(saved.value, 0.0):
        first = max(compilations, key=lambda one: one.seconds or 0.0)
        yield Finding(
            code="compile-pays-late",
            message=tr(
                "{where}torch.compile took {total}, as long as {steps} steps{pays}",
                where=whereabouts(first.place.path, first.place.line),
                total=format_time(total),
                steps=f"{total / view.step_s:,.0f}",
                pays=_pays(total, saved),
            ),
            advice=tr("For runs shorter than that, leave it out."),
            path=first.place.path,
            line=first.place.line,
        )


# Compiling that is paid back after fewer steps is not worth a word.
PAYS_LATE = 2_000


def _pays(total: float, saved: Interval | None) -> str:
    if saved is None:
        return tr("; what a step saves by it is not known")
    if saved.high <= 0.0:
        return tr("; by what is modelled a step saves nothing by it, so that it never pays")
    soonest = _rounded(total / saved.high)
    if saved.low <= 0.0:
        return tr("; modelled, it pays after {steps} steps or more", steps=soonest)
    return tr(
        "; modelled, it saves {saved} a step and pays after {steps} steps ({low} to {high})",
        saved=format_time(saved.value, digits=2),
        steps=_rounded(total / saved.value),
        low=soonest,
        high=_rounded(total / saved.low),
    )


def _rounded(steps: float) -> str:
    """A modelled number of steps, with the two digits that it deserves."""
    return f"{float(f'{math.ceil(steps):.2g}'):,.0f}"


def _saved(trace: Trace, view: StepView, ceilings: Ceilings) -> Interval | None:
    """Seconds that a step saves by its compiled regions: ops not dispatched, bytes not moved; None where not known."""
    pointwise = ceilings.overhead("pointwise")
    moved = ceilings.bandwidth("copy", float(LARGE))
    cached = ceilings.bandwidth("copy", float(1 << 20))
    if view.window is None or pointwise is None or moved is None or cached is None:
        return None
    used = [(view.at(at).cost, 1) for at in range(len(view.site))]
    regions = view.where(lambda site: site.op == REGION_NAME)
    eager = eager_equivalent(used, len(regions))
    if eager is None:
        return None
    launches = eager.launches - sum(cost.launches for cost, _ in used)
    size = eager.bytes_read + eager.bytes_written - sum(cost.bytes_read + cost.bytes_written for cost, _ in used)
    value = launches * pointwise.value + size / moved.value
    least = LEAST_SAVED * (launches * pointwise.low + size / cached.high)
    return Interval(value=value, low=min(least, value), high=max(MOST_SAVED * value, value))
