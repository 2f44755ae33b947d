"""A callback for the Trainer of Hugging Face transformers: what bounds its training step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from boundby.integrations.training_watch import TrainingWatch

if TYPE_CHECKING:
    from boundby.results.report import Report


class BoundbyCallback(TrainerCallback):
    """Says what bounds the Trainer's step: ``Trainer(..., callbacks=[BoundbyCallback()])``.

    A step is one of the Trainer's: all batches whose gradients are accumulated, the optimizer's step, and waiting for
    the batches. Evaluation and checkpoints belong to none. As soon as enough steps were seen, some 20 to 90, the report
    is made and watching ends; the training goes on as without it, and its results do not change. In training on
    several processes the first alone is watched.

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
        self._watch = TrainingWatch(
            warmup=warmup, steps=steps, watch=watch, output=output, trace=trace, force=force, show=show
        )
        self._stop = stop

    @property
    def report(self) -> Report | None:
        """The report; None until enough steps were seen or the training has ended, and where there were too few."""
        return self._watch.report

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Hook in."""
        if state.is_world_process_zero:
            self._watch.training_begins()

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The first batch is about to be fetched."""
        self._watch.step_begins()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The next batch is fetched right after this, unless there is something else to do."""
        if self._watch.step_ends():
            control.should_training_stop |= self._stop and self.report is not None
        elif not (control.should_evaluate or control.should_save):
            self._watch.step_begins()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation runs that was not announced when the step ended."""
        self._watch.step_dropped()

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The evaluation is over."""
        self._watch.step_begins()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The checkpoint is written."""
        self._watch.step_begins()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """No further batch comes."""
        self._watch.step_dropped()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Make the report of the steps there were."""
        self._watch.training_ends()
