"""What the callbacks for trainers share: watch the steps that they tell of, and make a report of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boundby.results.errors import BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.capture.session import Session
    from boundby.results.report import Report
    from boundby.results.trace import Trace

# What is being trained now: whoever begins another training has left this one, perhaps by an exception.
_running: TrainingWatch | None = None


class TrainingWatch:
    """Watches one training: a step goes from the end of the one before to its own end, waiting for its batch included.

    The report is made as soon as enough steps were seen, and from then on nothing is watched. Where boundby is
    watching already (``boundby run``), this does nothing. What goes wrong is told on standard error and ends no
    training.

    Its arguments, and the errors that they raise, are those of the callbacks: see ``ReportingCallback``.
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
    ) -> None:
        from boundby.capture.schedule import checked_limits

        self.report: Report | None = None
        self._limits = checked_limits(warmup=warmup, timed=steps, watched=watch)
        self._output = None if output is None else Path(output).absolute()
        self._trace = None if trace is None else Path(trace).absolute()
        self._force = force
        self._show = show
        self._folder = os.getcwd()
        self._session: Session | None = None
        if self._output is not None:
            from boundby.report.report_file import check_report_file

            check_report_file(self._output, force=force)
        if self._trace is not None:
            from boundby.report.trace_export import TRACE_FORMATS
            from boundby.results.files import check_writable

            check_writable(self._trace, force, formats=TRACE_FORMATS)

    def training_begins(self) -> None:
        """Hook in; what was left of a training before is dropped."""
        global _running
        if _running is not None:
            _running.give_up()
        from boundby.capture.marks import is_listened_to

        if is_listened_to():
            return
        self.report = None
        if not self._guarded(self._ready_machine):
            return
        from boundby.api import speed_probes
        from boundby.capture.session import Session

        self._session = Session(limits=self._limits, probes=speed_probes)
        self._session.arm(modules=False)
        _running = self
        _when_cell_ends(self.give_up)

    def step_begins(self) -> None:
        """What comes from now on belongs to a step; one that had begun is dropped."""
        if self._session is not None:
            self._session.mark_dropped()
            self._session.mark_begin()

    def step_ends(self) -> bool:
        """A step has ended. Returns whether it was the last that had to be seen; the report is then made."""
        session = self._session
        if session is None:
            return False
        session.mark_end()
        if not session.ended:
            return False
        self._finish()
        return True

    def step_dropped(self) -> None:
        """Something else than a step begins: an evaluation, a checkpoint."""
        if self._session is not None:
            self._session.mark_dropped()

    def training_ends(self) -> None:
        """Make the report of the steps there were, if it was not made before."""
        if self._session is not None:
            self._session.mark_dropped()
            self._finish()

    def give_up(self) -> None:
        """Withdraw every hook without a report: the training was left by an exception."""
        global _running
        session, self._session = self._session, None
        if _running is self:
            _running = None
        if session is not None:
            session.disarm()

    def _finish(self) -> None:
        session = self._session
        assert session is not None

        def make() -> None:
            try:
                trace = session.trace()
            finally:
                self.give_up()
            if not session.foreign_process:
                self._explain(session, trace)

        self._guarded(make)

    def _explain(self, session: Session, trace: Trace | None) -> None:
        from dataclasses import replace

        import torch

        from boundby.bound.explain import explain_trace
        from boundby.machine.ensure import ensure_machine
        from boundby.remedies.ranking import with_predictions

        if trace is None or not trace.step_s:
            for finding in session.findings:
                raise BoundbyError(finding.code, finding.message, finding.advice)
            raise BoundbyError(
                "too-few-steps",
                tr("too few steps were seen to time one after warm-up: {steps}", steps=session.events_seen),
                tr("Let the training run some ten steps or more."),
            )
        trace = replace(trace, kind="training")
        machine = ensure_machine(threads=trace.threads)
        # The training may go on after this, and must draw the numbers that it would have drawn.
        with torch.random.fork_rng(devices=[]):
            self.report = with_predictions(explain_trace(trace, machine), session.facts())
        if self._show:
            _show(self.report)
        self._write(self.report, trace)

    def _write(self, report: Report, trace: Trace) -> None:
        if self._output is not None:
            from boundby.report.report_file import write_report_file

            write_report_file(report, self._output, force=self._force, folder=self._folder)
            _say(tr("Wrote {file}", file=self._output))
        if self._trace is not None:
            from boundby.report.trace_export import render_trace
            from boundby.results.files import write_new

            name = os.path.basename(sys.argv[0])
            write_new(self._trace, render_trace(trace, name=name, folder=self._folder), self._force)
            _say(tr("Wrote {file}", file=self._trace))

    def _ready_machine(self) -> None:
        """Ceilings measured before the first step, where none are kept, and not between steps."""
        import torch

        from boundby.machine.ensure import ensure_machine, measuring_notice

        told = False

        def tell(share: float, what: str) -> None:
            nonlocal told
            if not told:
                told = True
                _say(measuring_notice(20))

        ensure_machine(threads=torch.get_num_threads(), progress=tell)

    def _guarded(self, act: Callable[[], None]) -> bool:
        """``act``, whose error is told and does not end the user's training; whether it went well."""
        try:
            act()
        except BoundbyError as error:
            _say(str(error))
            return False
        except Exception as error:
            if os.environ.get("BOUNDBY_DEBUG"):
                raise
            _say(tr("failed to make a report: {error}", error=f"{type(error).__name__}: {error}"))
            return False
        return True


def _show(report: Report) -> None:
    """In a notebook below the cell, elsewhere on standard error."""
    if _running_ipython() is not None:
        from IPython.display import display

        display(report)  # type: ignore[no-untyped-call]  # IPython's own has no types
        return
    from boundby.report.shown import text

    told = text(report)
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    sys.stderr.write(told.encode(encoding, "backslashreplace").decode(encoding))
    sys.stderr.flush()


def _say(text: str) -> None:
    print(f"boundby: {text}", file=sys.stderr, flush=True)


def _when_cell_ends(act: Callable[[], None]) -> None:
    """In a notebook, calls ``act`` once the cell that runs now has ended, be it by an exception."""
    shell = _running_ipython()
    if shell is None:
        return

    def ended(*_: object) -> None:
        shell.events.unregister("post_run_cell", ended)
        act()

    shell.events.register("post_run_cell", ended)


def _running_ipython() -> Any:
    """The IPython that runs here, None where none does; looked up and not imported, as most have no use for it."""
    loaded = sys.modules.get("IPython.core.getipython")
    return loaded.get_ipython() if loaded is not None else None
