"""What torch.compile did in this process, as it recorded it itself: frames compiled, why again, and graph breaks."""

from __future__ import annotations

import linecache
import re
import sys
from collections import Counter
from typing import Any

from boundby.capture.sites import is_torchs
from boundby.results.habits import Compilation, GraphBreak, Place

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")
# "0/1: tensor 'x' size mismatch ...": the number is that of the guard's entry.
_ENTRY = re.compile(r"^\d+/\d+: ")


def compilations(since_us: int = 0) -> tuple[Compilation, ...]:
    """Frames that torch.compile compiled, in order; torch keeps the last 64.

    Args:
        since_us: microseconds since the epoch; what began before is left out.
    """
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return ()
    return tuple(
        Compilation(
            name=_plain_name(one.co_name) or "unknown",
            place=_place(one.co_filename, one.co_firstlineno),
            seconds=one.entire_frame_compile_time_s if one.entire_frame_compile_time_s is not None else _seconds(one),
            again_because=_ENTRY.sub("", one.recompile_reason) if one.recompile_reason else None,
            failed=one.fail_type,
        )
        for one in utils.get_compilation_metrics()
        if one.start_time_us is not None and one.start_time_us >= since_us and one.is_forward is not False
    )


def graph_breaks(since: int = 0) -> tuple[GraphBreak, ...]:
    """Where torch.compile broke off a graph, the most frequent first.

    Args:
        since: so many entries of torch's own list are left out, as they were there before; none of them where the
            list was emptied meanwhile.
    """
    utils: Any = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return ()
    found: Counter[tuple[str, str | None, int | None]] = Counter()
    reasons = utils.graph_break_reasons
    for one in reasons[since if since <= len(reasons) else 0 :]:
        frame = next((frame for frame in reversed(one.user_stack or ()) if not is_torchs(frame.filename)), None)
        reason = one.reason.strip().partition("\n")[0]
        found[reason, frame and frame.filename, frame and frame.lineno] += 1
    return tuple(
        GraphBreak(reason=reason, place=_place(path, line), times=times)
        for (reason, path, line), times in found.most_common()
    )


def _seconds(metrics: Any) -> float | None:
    return metrics.duration_us / 1e6 if metrics.duration_us is not None else None


def _plain_name(name: str | None) -> str | None:
    resumed = _RESUMED.match(name or "")
    return resumed.group(1) if resumed else name


def _place(path: str | None, line: int | None) -> Place:
    """The line; nothing for one of torch's own, where the script only has its way through."""
    if is_torchs(path):
        return Place()
    code = linecache.getline(path, line).strip()[:200] if path and line else ""
    return Place(path=path, line=line, code=code or None)
