"""Watch code that runs in this process: hook in when torch appears, record steps, hook out, hand over the trace."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from boundby.capture import finder as steps
from boundby.capture import marks
from boundby.capture.finder import StepFinder
from boundby.capture.imports import after_import
from boundby.capture.schedule import Limits
from boundby.results.machine import Finding
from boundby.results.trace import StepKind, Trace

if TYPE_CHECKING:
    from boundby.capture.recorder import Probes, Recorder


class StopRun(SystemExit):
    """Ends the script when everything planned was seen (``--stop``)."""


class _HeldArgs(tuple[Any, ...]):
    """The arguments of an outermost module call; when the call has returned, nobody holds them any more."""

    on_release: Callable[[], None] | None = None

    def __del__(self) -> None:
        if self.on_release is not None:
            self.on_release()


class Session:
    """One watching of one process.

    Hooks are global (optimizer steps, outermost module calls, DataLoader iterators) and are installed right after
    torch is imported, and withdrawn once the last planned step was seen. No module, tensor or random generator of the
    user's is touched. An error inside a hook ends the watching with a finding, never the script.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        stop: bool = False,
        probes: Callable[[int], Probes] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.limits = limits
        self.probes = probes
        self.stop = stop
        self.clock = clock
        self.findings: list[Finding] = []
        self.torch_seen = False
        self.process = os.getpid()
        self._recorder: Recorder | None = None
        self._finder: StepFinder | None = None
        self._thread = threading.get_ident()
        self._undo: list[Callable[[], None]] = []
        self._undo_module_hook: Callable[[], None] | None = None
        self._in_module = False
        self._ended = False

    def arm(self, *, modules: bool = True, optimizers: bool = True) -> None:
        """Hook in as soon as torch is there."""
        self._want = (modules, optimizers)
        marks.listen(self)
        os.register_at_fork(after_in_child=self._abandon)
        self._undo.append(after_import("torch", self._guarded(self._torch_imported)))

    def disarm(self) -> None:
        """Withdraw every hook; what was recorded stays."""
        marks.listen(None)
        undo, self._undo = self._undo, []
        for one in undo:
            one()
        self._drop_module_hook()
        if self._recorder is not None:
            self._recorder.discard()

    @property
    def foreign_process(self) -> bool:
        """Whether this is a forked child of the process that was to be watched."""
        return os.getpid() != self.process

    def trace(self) -> Trace | None:
        """What was seen, after the end; None where torch was not imported or no step ended."""
        self.disarm()
        recorder, finder = self._recorder, self._finder
        if recorder is None or finder is None:
            return None
        if not self._ended:
            self._guarded(recorder.finish)()
        from boundby.capture.join import build_trace

        kinds: dict[str | None, StepKind] = {steps.TRAINING: "training", steps.INFERENCE: "inference"}
        return build_trace(
            recorder,
            kind=kinds.get(finder.kind, "callable"),
            events_per_step=finder.period,
            irregular=finder.irregular,
            findings=tuple(self.findings),
        )

    @property
    def ended(self) -> bool:
        """Whether all that was planned was seen, or watching had to stop."""
        return self._ended

    @property
    def events_seen(self) -> int:
        """How many step events there were (optimizer steps, outermost module calls, marks)."""
        return self._finder.events_seen if self._finder is not None else 0

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
        if self._ended or self._finder is None or threading.get_ident() != self._thread:
            return
        finder = self._finder
        self._guarded(lambda: finder.mark(begin=begin, now=now))()
        self._after_event()

    # Hooks.

    def _torch_imported(self) -> None:
        from boundby.capture.inputs import bracket_dataloaders
        from boundby.capture.recorder import Recorder

        self.torch_seen = True
        self._recorder = Recorder(self.limits, probes=self.probes, clock=self.clock)
        self._finder = StepFinder(self._recorder, self._kind_found)
        modules, optimizers = self._want
        self._undo.append(bracket_dataloaders(self._input_begins, self._input_ends))
        if optimizers:
            self._hook_optimizers()
        if modules:
            self._hook_modules()

    def _hook_optimizers(self) -> None:
        from torch.optim import optimizer as torch_optimizer

        inside: list[int] = []  # optimizers in their step; one that wraps another steps once, not twice

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            if _compiling() or threading.get_ident() != self._thread:
                return
            leave(optimizer)  # its last step may have been left by an exception
            inside.append(id(optimizer))
            if self._recorder is not None:
                self._recorder.in_optimizer = True

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if _compiling() or threading.get_ident() != self._thread:
                return
            now = self.clock()
            leave(optimizer)
            if not inside:
                if self._recorder is not None:
                    self._recorder.in_optimizer = False
                self._event(steps.TRAINING, id(optimizer), now)

        def leave(optimizer: Any) -> None:
            if id(optimizer) in inside:
                del inside[inside.index(id(optimizer)) :]

        self._undo.append(torch_optimizer.register_optimizer_step_pre_hook(before).remove)
        self._undo.append(torch_optimizer.register_optimizer_step_post_hook(after).remove)

    def _hook_modules(self) -> None:
        """Hear of outermost module calls only: the hook takes itself away for as long as such a call lasts."""
        import warnings

        from torch.nn.modules import module as torch_module

        hooks = torch_module._global_forward_pre_hooks
        # Written where a compiled module is called under global hooks; ours never runs inside compiled code.
        quiet = ("ignore", r"Using `torch\.compile\(module\)` when there are global hooks")
        warnings.filterwarnings(quiet[0], message=quiet[1])  # type: ignore[arg-type]  # a literal it is
        added = warnings.filters[0]

        def called(module: Any, args: Any) -> Any:
            if _compiling() or threading.get_ident() != self._thread or self._in_module:
                return None
            recorder = self._recorder
            if recorder is None or recorder.in_input or recorder.in_optimizer:
                return None
            now = self.clock()
            self._in_module = True
            hooks.pop(key, None)
            held = _HeldArgs(args)
            held.on_release = returned
            self._event(steps.INFERENCE, id(module), now)
            return held

        def returned() -> None:
            self._in_module = False
            if self._undo_module_hook is not None:
                hooks[key] = called

        handle = torch_module.register_module_forward_pre_hook(called)
        key = handle.id

        def undo() -> None:
            hooks.pop(key, None)
            if added in warnings.filters:
                warnings.filters.remove(added)  # type: ignore[attr-defined]  # a list, whatever the stubs say

        self._undo_module_hook = undo

    def _drop_module_hook(self) -> None:
        undo, self._undo_module_hook = self._undo_module_hook, None
        if undo is not None:
            undo()

    def _kind_found(self, kind: str) -> None:
        if kind != steps.INFERENCE:
            self._drop_module_hook()

    def _event(self, kind: str, ident: int, now: int) -> None:
        finder, recorder = self._finder, self._recorder
        if finder is None or recorder is None:
            return
        if self._ended:
            # Steps by a weaker sign were all seen before the first sign of training came: begin again.
            if kind == finder.kind or kind == steps.INFERENCE:
                return
            self._ended = False
            recorder.restart()
        self._guarded(lambda: finder.event(kind, ident, now))()
        self._after_event()

    def _after_event(self) -> None:
        recorder, finder = self._recorder, self._finder
        if recorder is None or finder is None or self._ended or not recorder.done:
            return
        self._ended = True
        self._guarded(recorder.finish)()
        if finder.kind == steps.INFERENCE:
            self._drop_module_hook()  # the optimizer hooks stay: training may yet begin
        else:
            self.disarm()
        if self.stop:
            raise StopRun(0)

    def _input_begins(self) -> None:
        if self._recorder is not None and not self._ended and threading.get_ident() == self._thread:
            self._recorder.input_begins()

    def _input_ends(self) -> None:
        if self._recorder is not None and not self._ended and threading.get_ident() == self._thread:
            self._recorder.input_ends()

    def _guarded(self, act: Callable[[], None]) -> Callable[[], None]:
        """``act``, but an error in it ends the watching instead of the user's script."""

        def run() -> None:
            try:
                act()
            except Exception as error:
                self.findings.append(
                    Finding(
                        code="capture-failed",
                        message=f"watching stopped early: {type(error).__name__}: {error}",
                        advice="The script itself went on. Please report this with the script's torch version.",
                    )
                )
                if os.environ.get("BOUNDBY_DEBUG"):
                    import traceback

                    traceback.print_exc(file=sys.__stderr__)
                self._ended = True
                self.disarm()

        return run

    def _abandon(self) -> None:
        """In a forked child: it is none of our business."""
        if not self.foreign_process:
            return
        self._ended = True
        self._guarded(self.disarm)()


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


def _compiling() -> bool:
    import torch

    return torch.compiler.is_compiling()
