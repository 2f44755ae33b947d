"""The progress of measuring a machine, on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from boundby.machine.ensure import measuring_notice
from boundby.results.language import tr
from boundby.results.machine import Finding


def say_damaged(finding: Finding) -> None:
    """Tell, on stderr, that the kept ceilings are damaged, and so why they are measured again."""
    _say(f"{finding.message} [{finding.code}]")


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(f"boundby: {text}", file=sys.stderr, flush=True)


@contextmanager
def measuring_progress(*, at_most_s: int = 20) -> Iterator[Callable[[float, str], None]]:
    """A callback for ``ensure_machine`` that draws a bar on stderr if that is a terminal, and else one line.

    Args:
        at_most_s: how long measuring takes at most, seconds.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        said = False

        def say(share: float, what: str) -> None:
            nonlocal said
            if not said:
                said = True
                _say(measuring_notice(at_most_s))

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(tr("Measuring this machine")), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1.0, visible=False)

        def draw(share: float, what: str) -> None:
            bar.update(task, completed=share, visible=True)

        yield draw
