"""Words that the sections of a report's page share: names of shares and phases, places in the source, floors, bands."""

from __future__ import annotations

import os
from collections.abc import Sequence

from boundby.report.safe_text import elide_middle, short_path
from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.report import Floors
from boundby.results.units import format_percent, format_percent_range, format_ratio, format_time

# Windows and ceilings are both measured: an op this little under its floor is at it.
AT_FLOOR = 0.95
_LONGEST_NAME = 60
_LONGEST_PATH = 60
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")
_LAST_PARTS = 2


def share_name(name: str) -> str:
    """A share of the split, or a bound of an op, as a person reads it."""
    return {
        "overhead": tr("overhead"),
        "memory": tr("memory"),
        "matmul": tr("matmul"),
        "pointwise": tr("pointwise"),
        "input": tr("input"),
        "unexplained": tr("unexplained"),
        "none": tr("no floor"),
    }.get(name, name)


def share_meaning(name: str) -> str:
    """What the time of a share, or of a part of the overhead, goes into."""
    return {
        "overhead": tr("starting ops and running Python"),
        "dispatch": tr("the fixed cost of ops"),
        "host": tr("Python and autograd between ops"),
        "allocation": tr("page faults in fresh memory"),
        "memory": tr("moving bytes to and from memory"),
        "matmul": tr("multiplying matrices"),
        "pointwise": tr("exp, tanh, add... on each element"),
        "input": tr("waiting for the next data"),
        "unexplained": tr("more than the measured limits explain"),
    }[name]


def phase_name(name: str) -> str:
    """A phase of a step, or the time between ops, as a person reads it."""
    return {
        "forward": tr("forward"),
        "backward": tr("backward"),
        "optimizer": tr("optimizer"),
        "other": tr("other"),
        "gap": tr("no op"),
    }.get(name, name)


def short_name(name: str) -> str:
    """A name of an op or module, cut in its middle where it is too long to be read."""
    return elide_middle(name, _LONGEST_NAME, unicode=True)


def place_of(path: str | None, line: int | None, folder: str | None) -> str:
    """A place in the source, short enough for a table: ``train.py:58``, ``torch/nn/functional.py:2013``.

    Args:
        path: as recorded; None where no line of the script made the op.
        line: its number, None where it is not known.
        folder: paths below it are shown relative to it, others by their last parts.
    """
    if path is None:
        return tr("outside any line of the script")
    shown = short_path(path, folder)
    if os.path.isabs(shown):
        shown = _last_parts(shown)
    return _with_line(elide_middle(shown, _LONGEST_PATH, unicode=True), line)


def whole_place_of(path: str | None, line: int | None, folder: str | None) -> str:
    """A place in the source with its whole path, where ``place_of`` has cut it."""
    if path is None:
        return tr("outside any line of the script")
    return _with_line(short_path(path, folder), line)


def _last_parts(path: str) -> str:
    """What tells a file from others: where it is in its package, or the last folders above it."""
    parts = path.replace("\\", "/").split("/")
    for mark in _PACKAGE_FOLDERS:
        if mark in parts[:-1]:
            return "/".join(parts[len(parts) - parts[::-1].index(mark) :])
    return path if len(parts) <= _LAST_PARTS + 1 else "/".join(("…", *parts[-_LAST_PARTS:]))


def _with_line(path: str, line: int | None) -> str:
    return path if line is None else f"{path}:{line}"


def percent_band(share: Interval) -> str:
    """The band of a share: ``58-66%``; empty where it shows no width."""
    band = format_percent_range(share.low, share.high)
    return "" if band == format_percent(share.value) else band


def floors_by_name(floors: Floors) -> dict[str, float]:
    """The floors that are known, in seconds, the largest first."""
    seconds = {
        "overhead": floors.overhead_s,
        "memory": floors.memory_s,
        "matmul": floors.matmul_s,
        "pointwise": floors.pointwise_s,
    }
    return {name: seconds[name] for name in sorted(seconds, key=lambda name: -seconds[name]) if seconds[name] > 0}


def floor_text(floors: Floors, time_s: float, *, unicode: bool = True) -> str:
    """How an op's or a line's time stands to the largest of its floors: ``1.4x its memory floor of 12 µs``.

    The largest, and not that of the bound: time that goes to page faults, or that nothing explains, has no floor.

    Args:
        floors: of the op or the line.
        time_s: what it took, in seconds.
        unicode: whether ``µs`` may be written.
    """
    known = floors_by_name(floors)
    if not known:
        return tr("no floor known")
    name, floor_s = next(iter(known.items()))
    bound, floor = share_name(name), format_time(floor_s, digits=2, unicode=unicode)
    ratio = time_s / floor_s
    if name == "overhead" and ratio < 1 / AT_FLOOR:
        # The call from Python lies before an op's window, so its own time may be less than what it costs.
        return tr("all of it the overhead of ops, {floor} with their calls", floor=floor)
    if ratio < AT_FLOOR:
        return tr("faster than its {bound} floor of {floor}: above the measured limit", bound=bound, floor=floor)
    if ratio < 1 / AT_FLOOR:
        return tr("at its {bound} floor of {floor}", bound=bound, floor=floor)
    return tr("{ratio} its {bound} floor of {floor}", ratio=format_ratio(ratio), bound=bound, floor=floor)


def sentence(text: str) -> str:
    """The text, ended by a full stop where it has no end of its own."""
    return text if text.endswith((".", "!", "?", "。")) or not text else tr("{text}.", text=text)


def followed(*sentences: str) -> str:
    """Sentences one after another, with what the language puts between them; empty ones are left out."""
    said = [one for one in sentences if one]
    found = said[0] if said else ""
    for one in said[1:]:
        found = tr("{first} {then}", first=found, then=one)
    return found


def listed(parts: Sequence[str]) -> str:
    """Words or phrases one after another, with what the language puts between them."""
    found = parts[0] if parts else ""
    for part in parts[1:]:
        found = tr("{listed}, {another}", listed=found, another=part)
    return found
