"""A callback for Lightning's Trainer: what bounds its training step."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback

from boundby.integrations.reporting_callback import ReportingCallback


class BoundbyCallback(ReportingCallback, Callback):
    """Says what bounds the Trainer's step: ``Trainer(..., callbacks=[BoundbyCallback()])``.

    A step is a batch with what the module and the optimizers do with it, and waiting for it; where gradients are
    accumulated, all batches up to the optimizer's step. Validation belongs to none. As soon as enough steps were seen,
    some 20 to 90, the report is made and watching ends; the training goes on as without it, and its results do not
    change. In training on several processes the first alone is watched.

    Its arguments and its ``report`` are those of each callback of boundby's: see ``ReportingCallback``.
    """

    # Of the Trainer, when the last step ended.
    _optimizer_steps = 0

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
            trainer.should_stop |= self._ends_training()
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
