"""A callback for the Trainer of Hugging Face transformers: what bounds its training step."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from boundby.integrations.reporting_callback import ReportingCallback


class BoundbyCallback(ReportingCallback, TrainerCallback):
    """Says what bounds the Trainer's step: ``Trainer(..., callbacks=[BoundbyCallback()])``.

    A step is one of the Trainer's: all batches whose gradients are accumulated, the optimizer's step, and waiting for
    the batches. Evaluation and checkpoints belong to none. As soon as enough steps were seen, some 20 to 90, the report
    is made and watching ends; the training goes on as without it, and its results do not change. In training on
    several processes the first alone is watched.

    Its arguments and its ``report`` are those of each callback of boundby's: see ``ReportingCallback``.
    """

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
            control.should_training_stop |= self._ends_training()
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
