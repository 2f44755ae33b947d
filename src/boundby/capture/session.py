"""Watch code that runs in this process: hook in when torch appears, record steps, hook out, hand over the trace."""

from __future__ import annotations

import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from boundby.capture import finder as steps
from boundby.capture import marks
from boundby.capture.finder import StepFinder, StepRecorder
from boundby.capture.graph_breaks import breaks_before
from boundby.capture.imports import after_import
from boundby.capture.schedule import Limits, Role
from boundby.results.habits import Habits
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.remedy import ScriptFacts
from boundby.results.trace import StepKind, Trace

if TYPE_CHECKING:
    from boundby.capture.facts import FactsSeen
    from boundby.capture.habits import HabitsSeen
    from boundby.capture.outermost import OutermostCalls
    from boundby.capture.recorder import Probes, Recorder


class StopRun(SystemExit):
    """Ends the script when everything planned was seen (``--stop``)."""


# Sessions that a forked child must let go of; they live no longer for being here.
_armed: weakref.WeakSet[Session] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for one in list(_armed):
        one._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


class Session:
    """One watching of one process.

    Hooks are global (optimizer steps, outermost module calls, DataLoader iterators) and are installed right after
    torch is imported, and withdrawn once the last planned step was seen. No module, tensor or random generator of the
    user's is touched. An error inside a hook ends the watching with a finding, never the script.

    Something else than the usual recorder can be told where steps begin and end: ``recorder`` makes it from the clock.
    ``on_module`` hears of each outermost module as its call begins, as long as steps may be such calls.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        stop: bool = False,
        probes: Callable[[int], Probes] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        recorder: Callable[[Callable[[], int]], StepRecorder] | None = None,
        on_module: Callable[[Any], None] | None = None,
    ) -> None:
        self.limits = limits
        self._make_recorder = recorder
        self._on_module = on_module
        self.probes = probes
        self.stop = stop
        self.clock = clock
        self.findings: list[Finding] = []
        self.torch_seen = False
        self.process = os.getpid()
        self._recorder: StepRecorder | None = None
        self._finder: StepFinder | None = None
        self._facts: FactsSeen | None = None
        self._habits: HabitsSeen | None = None
        self._armed_us = 0
        self._breaks_before = breaks_before()
        self._home = self._thread = threading.get_ident()
        self._undo: list[Callable[[], None]] = []
        self._undo_steps: list[Callable[[], None]] = []  # hooks that are withdrawn as soon as all was seen
        self._outermost: OutermostCalls | None = None
        self._ended = False
        self._failed = False
        self._events_seen = 0
        self._kind: str | None = None

    def arm(self, *, modules: bool = True, optimizers: bool = True) -> None:
        """Hook in as soon as torch is there."""
        self._want = (modules, optimizers)
        self._armed_us = time.time_ns() // 1000
        self._breaks_before = breaks_before()
        marks.listen(self)
        _armed.add(self)
        self._undo.append(after_import("torch", self._guarded(self._torch_imported)))

    def disarm(self) -> None:
        """Withdraw every hook, whatever goes wrong in it; what was recorded stays."""
        marks.stop_listening(self)
        _armed.discard(self)
        self._withdraw_steps()
        undo, self._undo = self._undo, []
        for one in undo:
            self._try(one)
        if self._recorder is not None:
            self._try(self._recorder.discard)

    def _withdraw_steps(self) -> None:
        undo, self._undo_steps = self._undo_steps, []
        for one in undo:
            self._try(one)
        self._drop_module_hook()

    @property
    def foreign_process(self) -> bool:
        """Whether this is a forked child of the process that was to be watched."""
        return os.getpid() != self.process

    def trace(self) -> Trace | None:
        """What was seen, after the end; None without torch or a whole step, or where another recorder was told."""
        self.disarm()
        recorder, finder = self._recorder, self._finder
        if recorder is None or finder is None:
            return None
        if not self._ended:
            self._guarded(recorder.finish)()
        self._events_seen = finder.events_seen
        self._recorder = self._finder = None  # they hold all that was seen
        from boundby.capture.join import build_trace
        from boundby.capture.recorder import Recorder

        if not isinstance(recorder, Recorder):
            return None
        kinds: dict[str | None, StepKind] = {steps.TRAINING: "training", steps.INFERENCE: "inference"}
        trace = build_trace(
            recorder,
            kind=kinds.get(finder.kind, "callable"),
            events_per_step=finder.period,
            irregular=finder.irregular,
            findings=tuple(self.findings),
            graph_breaks=self._breaks_before.since(),
        )
        if trace is None:
            return None
        told = len(self.findings)
        habits = self._habits_of(recorder)
        return replace(trace, habits=habits, findings=(*trace.findings, *self.findings[told:]))

    def _habits_of(self, recorder: Recorder) -> Habits:
        if self._habits is None:
            return Habits()
        try:
            seen = self._habits.found(
                recorder.kept,
                recorder.site_keys,
                since_us=self._armed_us,
                reasons_before=self._breaks_before.reasons,
            )
            return replace(seen, parameter_dtypes=self.facts().parameter_dtypes)
        except Exception as error:  # they are looked up in places that torch may move: the times stand without them
            self._note(error, tr("what the script does besides its ops could not be told: {error}", error=_told(error)))
            return Habits()

    def facts(self) -> ScriptFacts:
        """What was seen of the script's own objects and settings."""
        if self._facts is None:
            return ScriptFacts()
        return self._facts.facts(inference=self._kind == steps.INFERENCE)

    @property
    def ended(self) -> bool:
        """Whether all that was planned was seen, or watching had to stop."""
        return self._ended

    @property
    def events_seen(self) -> int:
        """How many step events there were (optimizer steps, outermost module calls, marks)."""
        return self._finder.events_seen if self._finder is not None else self._events_seen

    # Marks made by hand.

    def mark_begin(self) -> None:
        """``boundby.step()`` begins."""
        self._mark(begin=True)

    def mark_end(self) -> None:
        """``boundby.step()`` ends."""
        self._mark(begin=False)

    def mark_dropped(self) -> None:
        """What began is no step: the loop had come to its end."""
        if self._finder is not None and not self._ended:
            self._guarded(self._finder.drop_mark)()

    def marked_input(self) -> AbstractContextManager[None]:
        """Around the fetching of an item in ``boundby.step(iterable)``."""
        return _Input(self)

    def _mark(self, *, begin: bool) -> None:
        now = self.clock()
        finder, recorder = self._finder, self._recorder
        if finder is None or recorder is None or self._failed or not self._hears(steps.MARKED):
            return
        if self._ended:
            if not begin or not finder.outranked_by(steps.MARKED):
                return
            self._begin_again(recorder)
        self._guarded(lambda: finder.mark(begin=begin, now=now))()
        self._after_event()

    # Hooks.

    def _torch_imported(self) -> None:
        from boundby.capture.facts import FactsSeen
        from boundby.capture.habits import HabitsSeen
        from boundby.capture.recorder import Recorder

        self.torch_seen = True
        self._facts = FactsSeen()
        make = self._make_recorder
        if make is None:
            self._habits = HabitsSeen()
            self._recorder = Recorder(self.limits, probes=self.probes, clock=self.clock, habits=self._habits)
        else:
            self._recorder = make(self.clock)
        self._finder = StepFinder(self._recorder, self._kind_found)
        self._hook_steps()
        if self._want[0]:
            from boundby.capture.outermost import OutermostCalls

            self._outermost = OutermostCalls(self._module_called, self._hears_modules)

    def _hook_steps(self) -> None:
        from boundby.capture.inputs import bracket_dataloaders

        self._undo_steps.append(bracket_dataloaders(self._input_begins, self._input_ends))
        if self._want[1]:
            self._hook_optimizers()

    def _hook_optimizers(self) -> None:
        from torch.optim import optimizer as torch_optimizer

        inside: list[
            tuple[int, types.FrameType]
        ] = []  # optimizers in their step, and its frame; one that wraps another steps once

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            try:
                if _compiling() or not self._hears(steps.TRAINING, adopt=False):
                    return
                # Steps that an exception ended were never told of.
                running = _running_frames() if inside else ()
                inside[:] = [one for one in inside if one[0] != id(optimizer) and id(one[1]) in running]
                inside.append((id(optimizer), sys._getframe(1)))
                self._note_fact(lambda facts: facts.optimizer(optimizer))
                if self._recorder is not None:
                    self._recorder.in_optimizer = True
            except Exception as error:
                self._fail(error)

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if _compiling() or not self._hears(steps.TRAINING):
                return
            now = self.clock()
            known = [one for one, _ in inside]
            if id(optimizer) in known:
                del inside[known.index(id(optimizer)) :]
            if not inside:
                if self._recorder is not None:
                    self._recorder.in_optimizer = False
                self._event(steps.TRAINING, id(optimizer), now)

        self._undo_steps.append(torch_optimizer.register_optimizer_step_pre_hook(before).remove)
        self._undo_steps.append(torch_optimizer.register_optimizer_step_post_hook(after).remove)

    def _hears_modules(self) -> bool:
        recorder = self._recorder
        if recorder is None or recorder.in_input or recorder.in_optimizer or _compiling():
            return False
        return self._hears(steps.INFERENCE)

    def _module_called(self, module: Any) -> None:
        self._note_fact(lambda facts: facts.module(module))
        if self._on_module is not None:
            on_module = self._on_module
            self._guarded(lambda: on_module(module))()
        self._event(steps.INFERENCE, id(module), self.clock())

    def _drop_module_hook(self) -> None:
        outermost, self._outermost = self._outermost, None
        if outermost is not None:
            self._try(outermost.remove)

    def _hears(self, kind: str, *, adopt: bool = True) -> bool:
        """Whether events of this thread count.

        Those of the thread with the first event do; before anything is recorded, another one takes over by a stronger
        kind of event, and the one that watching began in by an equal one too.
        """
        here = threading.get_ident()
        if here == self._thread:
            return True
        finder, recorder = self._finder, self._recorder
        if finder is None or recorder is None or self._ended:
            return False
        if finder.kind is not None and (
            recorder.schedule.role is not Role.WARMUP
            or not (finder.outranked_by(kind) or (here == self._home and kind == finder.kind))
        ):
            return False
        if adopt:
            while recorder.in_input:  # that was the other thread's
                recorder.input_ends()
            recorder.in_optimizer = False
            if finder.kind is not None:
                recorder.restart()
            self._thread = here
        return True

    def _kind_found(self, kind: str) -> None:
        self._kind = kind
        if kind != steps.INFERENCE:
            self._drop_module_hook()

    def _event(self, kind: str, ident: int, now: int) -> None:
        finder, recorder = self._finder, self._recorder
        if finder is None or recorder is None:
            return
        if self._ended:
            if self._failed or not finder.outranked_by(kind):
                return
            self._begin_again(recorder)
        self._guarded(lambda: finder.event(kind, ident, now))()
        self._after_event()

    def _begin_again(self, recorder: StepRecorder) -> None:
        """Steps by a weaker sign were all seen before the first stronger one came."""
        self._ended = False
        self._guarded(recorder.restart)()
        if not self._undo_steps and not self._failed:
            self._guarded(self._hook_steps)()

    def _after_event(self) -> None:
        recorder, finder = self._recorder, self._finder
        if recorder is None or finder is None or self._ended or not recorder.done:
            return
        self._ended = True
        self._guarded(recorder.finish)()
        # What is stronger may yet begin: optimizer steps after module calls, and marks, which cost nothing to hear of.
        if finder.kind == steps.INFERENCE:
            self._drop_module_hook()
        elif finder.kind == steps.TRAINING:
            self._withdraw_steps()
        else:
            self.disarm()
        if self.stop:
            self._stop()

    def _stop(self) -> None:
        """End the script; in another thread than the main one that would end the thread alone, so it goes on."""
        if threading.current_thread() is threading.main_thread():
            raise StopRun(0)
        if not any(one.code == "not-stopped" for one in self.findings):
            self.findings.append(
                Finding(
                    code="not-stopped",
                    message=tr("the steps ran in a thread of the script, from which --stop cannot end it"),
                    advice=tr("It went on unwatched to its own end."),
                )
            )

    def _input_begins(self, iterator: Any = None) -> None:
        if self._recorder is not None and not self._ended and threading.get_ident() == self._thread:
            try:
                self._recorder.input_begins()
                if iterator is not None:
                    self._note_fact(lambda facts: facts.loader(iterator))
            except Exception as error:
                self._fail(error)

    def _input_ends(self) -> None:
        if self._recorder is not None and not self._ended and threading.get_ident() == self._thread:
            try:
                if self._recorder.in_input:  # not where watching began in the middle of it
                    self._recorder.input_ends()
            except Exception as error:
                self._fail(error)

    def _note_fact(self, note: Callable[[FactsSeen], None]) -> None:
        """Look at an object of the script's; one that will not be looked at costs its facts, and nothing else."""
        if self._facts is None:
            return
        try:
            note(self._facts)
        except Exception:  # the script's own classes may raise anything where they are asked anything
            self._facts = None

    def _guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        """``act``, but an error in it ends the watching instead of the user's script."""

        def run() -> None:
            try:
                act()
            except Exception as error:
                self._fail(error)

        return run

    def _fail(self, error: Exception) -> None:
        """Watching has met an error of its own: say so, and withdraw."""
        self._ended = self._failed = True
        self._note(error)
        self.disarm()

    def _try(self, act: Callable[[], None]) -> None:
        """``act``, for tidying up: an error is told of, and keeps nothing else from being tidied up."""
        try:
            act()
        except Exception as error:
            self._failed = True
            self._note(error)

    def _note(self, error: Exception, message: str | None = None) -> None:
        self.findings.append(
            Finding(
                code="capture-failed",
                message=message or tr("watching stopped early: {error}", error=_told(error)),
                advice=tr("The script itself went on. Please report this with the script's torch version."),
            )
        )
        if os.environ.get("BOUNDBY_DEBUG"):
            import traceback

            traceback.print_exception(error, file=sys.__stderr__)

    def _abandon(self) -> None:
        """In a forked child: it is none of our business."""
        if not self.foreign_process:
            return
        self._ended = True
        self.disarm()


class _Input:
    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> None:
        self.session._input_begins()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        self.session._input_ends()
        return False


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _compiling() -> bool:
    import torch

    return torch.compiler.is_compiling()


def _running_frames() -> set[int]:
    """The identities of this thread's frames."""
    frame: types.FrameType | None = sys._getframe(1)
    found = set()
    while frame is not None:
        found.add(id(frame))
        frame = frame.f_back
    return found
