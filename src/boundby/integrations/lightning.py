"""A callback for Lightning's Trainer: what bounds its training step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback

from boundby.integrations.training_watch import TrainingWatch

if TYPE_CHECKING:
    from boundby.results.report import Report


class BoundbyCallback(Callback):
    """Says what bounds the Trainer's step: ``Trainer(..., callbacks=[BoundbyCallback()])``.

    A step is a batch with what the module and the optimizers do with it, and waiting for it; where gradients are
    accumulated, all batches up to the optimizer's step. Validation belongs to none. As soon as enough steps were seen,
    some 20 to 90, the report is made and watching ends; the training goes on as without it, and its results do not
    change. In training on several processes the first alone is watched.

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
        self._optimizer_steps = 0

    @property
    def report(self) -> Report | None:
        """The report; None until enough steps were seen or the training has ended, and where there were too few."""
        return self._watch.report

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Hook in."""
        if trainer.is_global_zero:
            self._optimizer_steps = trainer.global_step
            self._watch.training_begins()

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """The first batch is about to be fetched."""
        self._watch.step_begins()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """The next batch is fetched right after this, unless there is something else to do."""
        if trainer.accumulate_grad_batches > 1 and trainer.global_step == self._optimizer_steps:
            return
        self._optimizer_steps = trainer.global_step
        if self._watch.step_ends():
            trainer.should_stop |= self._stop and self.report is not None
        else:
            self._watch.step_begins()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """A validation is about to run."""
        self._watch.step_dropped()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """The validation is over."""
        self._watch.step_begins()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """No further batch comes."""
        self._watch.step_dropped()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Make the report of the steps there were."""
        self._watch.training_ends()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """The training is left: make no report, and leave nothing behind."""
        self._watch.give_up()
