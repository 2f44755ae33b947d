"""Remedies as text: what should help by how much, what it did where it was tried, and what is not worth it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from boundby.report.page import bullets, heading
from boundby.report.safe_text import clean
from boundby.results.remedy import Measured, Numerics, Predicted, Remedy
from boundby.results.units import format_time, plural

_STYLES = {"do": "bold green", "skip": "dim", "unknown": ""}
_ADVICE = {"do": "do", "skip": "skip", "unknown": "try"}
_TRIED_ADVICE = {"do": "do", "skip": "skip", "unknown": "unclear"}
_NOT_WORTH_SHOWN = 6


def render_remedies(remedies: Sequence[Remedy], *, unicode: bool) -> Iterator[RenderableType]:
    """The remedies in their order; those not worth it in one line.

    Args:
        remedies: as ranked; some may have been tried.
        unicode: whether characters beyond ASCII may be written.
    """
    if not remedies:
        return
    tried = [one for one in remedies if one.measured is not None or one.failed]
    if tried:
        yield heading("What helped", "times as fast; measured in turns with the script as it is")
        yield bullets([(_paragraph(one, unicode=unicode), f"  {_mark(one)}") for one in tried], mark_width=11)
    rest = [one for one in remedies if one not in tried]
    if not rest:
        return
    if tried:
        yield ""
    yield heading("What would help" if not tried else "Not tried", "times as fast, predicted")
    told = [one for one in rest if not _is_dismissed(one)]
    items = [(_paragraph(one, unicode=unicode), f"  {_mark(one)}") for one in told]
    if items:
        yield bullets(items, mark_width=11)
    dismissed = [one for one in rest if _is_dismissed(one)]
    if dismissed:
        names = [f"{one.name} ({_times(one.predicted)})" for one in dismissed[:_NOT_WORTH_SHOWN] if one.predicted]
        more = f" and {len(dismissed) - len(names)} more" if len(dismissed) > len(names) else ""
        yield bullets(
            [(Text(clean(f"{', '.join(names)}{more}", unicode=unicode)), "  skip")], mark_width=11, style="dim"
        )


def _is_dismissed(remedy: Remedy) -> bool:
    return remedy.advice == "skip" and remedy.measured is None and not remedy.failed


def _mark(remedy: Remedy) -> str:
    if remedy.failed:
        return "failed"
    return (_TRIED_ADVICE if remedy.measured is not None else _ADVICE)[remedy.advice]


def _paragraph(remedy: Remedy, *, unicode: bool) -> Text:
    text = Text(clean(remedy.name, unicode=unicode), style=_STYLES[remedy.advice])
    parts = []
    if remedy.measured is not None:
        parts.append(f"{_times(remedy.measured)} measured")
        if remedy.predicted is not None and remedy.held is not None:
            held = "as predicted" if remedy.held else "not as predicted"
            parts.append(f"{held} ({_times(remedy.predicted)})")
        parts += _costs(remedy.measured, unicode=unicode)
        if remedy.took_effect is False:
            parts.append("the change itself was not seen to take place")
    elif remedy.failed:
        parts.append(remedy.failed)
    elif remedy.predicted is not None:
        parts.append(_times(remedy.predicted))
        parts.append(remedy.predicted.reason)
    else:
        parts.append(f"not predicted: {remedy.why}")
    if remedy.failed:
        text.append(clean(f": {'; '.join(parts)}.", unicode=unicode), style="not bold")
        return text
    if remedy.numerics is not None:
        parts.append(_difference(remedy.numerics))
    elif remedy.measured is not None:
        parts.append("results not compared: the script sets no seed, or shows none")
    change = remedy.predicted.change if remedy.predicted is not None else ""
    if change and remedy.advice != "skip":
        parts.append(f"to do: {change}")
    text.append(clean(f": {'; '.join(parts)}.", unicode=unicode), style="not bold")
    return text


def _times(speed: Predicted | Measured | None) -> str:
    if speed is None:
        return "unknown"
    value, low, high = (f"{one:#.3g}".rstrip(".") for one in (speed.speedup, speed.low, speed.high))
    return f"{value}x ({low}-{high})"


def _costs(measured: Measured, *, unicode: bool) -> list[str]:
    """What a longer start and other memory use say, where they say something."""
    found = []
    longer = measured.start_s - measured.base_start_s
    if longer > 1.0:
        paid = measured.break_even_steps
        after = f", paid back after {plural(paid, 'step')}" if paid is not None else ", never paid back"
        found.append(f"starting takes {format_time(longer, unicode=unicode)} longer{after}")
    if measured.peak_bytes and measured.base_peak_bytes:
        ratio = measured.peak_bytes / measured.base_peak_bytes
        if not 0.9 < ratio < 1.1:
            found.append(f"peak memory {ratio:.2g} times as much")
    return found


def _difference(numerics: Numerics) -> str:
    what = "losses" if numerics.of == "loss" else "outputs"
    over = f"over {plural(numerics.steps, 'step')}"
    if numerics.largest == 0:
        return f"{what} equal to the last bit {over}"
    return f"{what} differ by at most {numerics.largest:.0e} {over}, {numerics.last:.0e} in the last"
