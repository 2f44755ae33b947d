"""An estimate of decoding as an SVG picture: batch sweep, context sweep, share of launches; light and dark screens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from boundby.llm.decode import DecodeEstimate, Step
from boundby.report.safe_text import clean, elide
from boundby.results.language import tr
from boundby.results.units import format_percent, format_si, format_time

WIDTH, HEIGHT = 960, 760
_TOP, _BOTTOM = 110.0, 380.0
_PANELS = ((90.0, 460.0), (560.0, 930.0))
_BARS_TOP, _BAR_STEP, _BAR_WIDTH = 470.0, 26.0, 560.0
_BARS = 9
_LONGEST_TITLE = 80


def render_plots(estimate: DecodeEstimate) -> str:
    """The plots as one SVG document. Every text in it is escaped.

    Args:
        estimate: what to draw.
    """
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("boundby.report"), autoescape=True)
    title = tr(
        "{model} on {hardware}, {weights}", model=estimate.model, hardware=estimate.hardware, weights=estimate.weights
    )
    engine = estimate.engine if estimate.engine_known else tr("no engine in particular")
    batches = _panel(
        _PANELS[0],
        tr("Tokens/s in all, by batch"),
        tr("batch, {context} tokens in each cache", context=f"{estimate.context:,}"),
        estimate.sweep,
        lambda step: step.batch,
        lambda step: (step.tokens_per_s.value, step.tokens_per_s.low, step.tokens_per_s.high),
        lambda step: step.batch / step.floor_s,
        lambda value: format_si(value, "", digits=2).strip(),
    )
    contexts = _panel(
        _PANELS[1],
        tr("A step, by context"),
        tr("tokens in each cache, batch {batch}", batch=f"{estimate.batch:,}"),
        estimate.context_sweep,
        lambda step: step.context,
        lambda step: (step.step_s.value, step.step_s.low, step.step_s.high),
        lambda step: step.floor_s,
        lambda value: format_time(value, digits=2),
    )
    return environment.get_template("decode.svg").render(
        width=WIDTH,
        height=HEIGHT,
        title=elide(clean(title, unicode=True), _LONGEST_TITLE, unicode=True),
        subtitle=clean(
            tr("{engine}; expected times are calibrated on published measurements", engine=engine), unicode=True
        ),
        bars_title=tr("Share of launching kernels in a step, device at its floor"),
        expected_words=tr("expected, with its interval"),
        floor_words=tr("the floor by physics"),
        description=tr(
            "Tokens a second by batch, a step's time by context, and the share of launching kernels by partition."
        ),
        panels=[batches, contexts],
        bars_left=40.0,
        bars_top=_BARS_TOP,
        bars=[
            {
                "y": _BARS_TOP + index * _BAR_STEP,
                "text": f"{one.partition}, {format_time(one.launch_s, digits=2)}",
                "device": round(_BAR_WIDTH * (1 - one.overhead), 2),
                "launch": round(_BAR_WIDTH * one.overhead, 2),
                "share": format_percent(one.overhead),
            }
            for index, one in enumerate(estimate.launch_costs[:_BARS])
        ],
    )


def _panel(
    sides: tuple[float, float],
    title: str,
    axis: str,
    steps: Sequence[Step],
    across: Callable[[Step], float],
    up: Callable[[Step], tuple[float, float, float]],
    floor: Callable[[Step], float],
    told: Callable[[float], str],
) -> dict[str, Any]:
    """One plot with both axes logarithmic: a line, its band and the floor."""
    left, right = sides
    first, last = across(steps[0]), across(steps[-1])
    values = [value for step in steps for value in (*up(step), floor(step))]
    low, high = min(values) / 1.15, max(values) * 1.15

    def x(value: float) -> float:
        return round(left + (right - left) * math.log(value / first) / math.log(last / first), 2)

    def y(value: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * math.log(value / low) / math.log(high / low), 2)

    def points(pairs: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x(across_value)},{y(value)}" for across_value, value in pairs)

    band = [(across(step), up(step)[1]) for step in steps] + [(across(step), up(step)[2]) for step in reversed(steps)]
    return {
        "left": left,
        "right": right,
        "top": _TOP,
        "bottom": _BOTTOM,
        "title": title,
        "axis": axis,
        "x_ticks": [{"place": x(across(step)), "text": f"{across(step):,.0f}"} for step in steps],
        "y_ticks": [{"place": y(value), "text": told(value)} for value in _ticks(low, high)],
        "band": points(band),
        "line": points([(across(step), up(step)[0]) for step in steps]),
        "floor": points([(across(step), floor(step)) for step in steps]),
    }


def _ticks(low: float, high: float) -> list[float]:
    """Round values between two ends: 1, 2 and 5 of each decade, or the decades alone where that is many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1.0, 2.0, 5.0) if len(decades) <= 4 else (1.0,)
    return [step * 10.0**power for power in decades for step in steps if low <= step * 10.0**power <= high]
