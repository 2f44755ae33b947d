"""What the callbacks for trainers have in common for whoever uses them: their arguments, and the report."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from boundby.integrations.training_watch import TrainingWatch

if TYPE_CHECKING:
    from boundby.results.report import Report


class ReportingCallback:
    """The arguments and the report of each ``BoundbyCallback``.

    Args:
        warmup: steps before the first timed one; None: until times settle.
        steps: steps to time; None: about two seconds' worth.
        watch: steps to watch, at least 2; None: about one second's worth.
        output: a file for the report, ending in .json, .html or .md.
        trace: a file for the watched step's trace, ending in .json.
        force: whether these may replace files that exist.
        show: whether to show the report: below the cell in a notebook, on standard error elsewhere.
        stop: whether to end the training once the report is made.

    Raises:
        BoundbyError: ``bad-steps`` for a count too small; ``output-format``, ``output-exists``, ``output-unwritable``
            or ``no-plots`` for a file that cannot be written.
    """

    def __init__(
        self,
        *,
        warmup: int | None = None,
        steps: int | None = None,
        watch: int | None = None,
        output: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
        force: bool = False,
        show: bool = True,
        stop: bool = False,
    ) -> None:
        super().__init__()
        self._watch = TrainingWatch(
            warmup=warmup, steps=steps, watch=watch, output=output, trace=trace, force=force, show=show
        )
        self._stop = stop

    @property
    def report(self) -> Report | None:
        """The report; None until enough steps were seen or the training has ended, and where there were too few."""
        return self._watch.report

    def _ends_training(self) -> bool:
        """Whether the training is to end, now that the last step that had to be seen is over."""
        return self._stop and self.report is not None
