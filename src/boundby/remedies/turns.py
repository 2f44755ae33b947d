"""The process a trial runs the unmodified script in: ``main`` of this module, started by ``trial``.

It runs the script as ``boundby run`` does, with remedies applied, and holds it at the end of every few steps until the
trial says to go on. It writes one JSON object a line:

- ``{"event": "ready", ...}`` once steps have settled: the seconds of the steps so far, and since the process began;
- ``{"event": "slice", ...}`` after each turn: its steps' seconds, and those that threads waited for a core;
- both with ``losses`` and ``outputs`` by step number since the last line, peak memory, and what the remedies saw;
- ``{"event": "end", "status": ..., "steps": ...}`` where the script ends by itself, after so many steps.

It reads one a line: ``{"steps": 20}`` lets it go on for so many steps.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from boundby.capture.imports import after_import
from boundby.capture.recorder import synchronize_accelerator
from boundby.capture.schedule import Limits, Role, Schedule
from boundby.capture.script import Target, run_target
from boundby.capture.session import Session
from boundby.remedies.aside import Guard, guard_torch_save
from boundby.remedies.contract import Effects
from boundby.remedies.foreign_load import waiting_s
from boundby.remedies.registry import remedy_named
from boundby.remedies.results_compared import COMPARED_STEPS, OUTPUT_ELEMENTS, first_tensor, torch_seed
from boundby.remedies.thread_counts import use_threads
from boundby.results.language import LANGUAGES, choose_language

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(slots=True)
class Line:
    """The two ends of the trial's channel in this process."""

    to_trial: IO[str]
    from_trial: IO[str]

    def tell(self, message: dict[str, Any]) -> None:
        """One message to the trial."""
        self.to_trial.write(json.dumps(message) + "\n")
        self.to_trial.flush()

    def ask(self) -> dict[str, Any] | None:
        """The trial's next word; None where it has gone."""
        line = self.from_trial.readline()
        return json.loads(line) if line else None


class Results:
    """Losses of training steps and outputs of the outermost module, by step number, until they are told."""

    def __init__(self) -> None:
        self.step = 0
        self._losses: dict[int, Any] = {}
        self._outputs: dict[int, Any] = {}
        self._hooked: set[int] = set()

    def watch_losses(self) -> None:
        """Note what ``backward`` is called on; with several calls a step (accumulation, a GAN) the last."""
        import torch

        plain = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            first = tensors if torch.is_tensor(tensors) else next(iter(tensors), None)
            if self.step < COMPARED_STEPS and torch.is_tensor(first) and first.numel() == 1:
                self._losses[self.step] = first.detach().clone()
            return plain(tensors, *args, **kwargs)

        vars(torch.autograd)["backward"] = backward

    def watch_output(self, module: Any) -> None:
        """Note the first tensor that the module returns, from its next call on."""
        if id(module) in self._hooked or self.step >= COMPARED_STEPS:
            return
        self._hooked.add(id(module))

        def note(_module: Any, _inputs: Any, output: Any) -> None:
            tensor = first_tensor(output)
            if tensor is not None and self.step < COMPARED_STEPS:
                self._outputs[self.step] = tensor.detach().reshape(-1)[:OUTPUT_ELEMENTS].clone()

        module.register_forward_hook(note)

    def take(self) -> dict[str, Any]:
        """What was noted since the last time, as plain numbers."""
        told = {
            "losses": {str(step): float(loss) for step, loss in self._losses.items()},
            "outputs": {str(step): output.double().tolist() for step, output in self._outputs.items()},
        }
        self._losses, self._outputs = {}, {}
        return told


class Turns:
    """Takes step boundaries; times the steps, and holds the script after each turn's last."""

    def __init__(self, line: Line, results: Results, effects: Effects, clock: Callable[[], int], began_ns: int) -> None:
        self.schedule = Schedule(Limits())
        self.in_optimizer = False
        self.done = False
        self._line, self._results, self._effects, self._clock = line, results, effects, clock
        self._began_ns = began_ns
        self._left = 0
        self._seconds: list[float] = []
        self._begin_ns = 0
        self._active = False
        self._input_depth = 0
        self._waited_s: float | None = None

    @property
    def enough(self) -> bool:
        """Whether what was found to be a step may not be given up any more."""
        return self.schedule.role is not Role.WARMUP

    @property
    def in_input(self) -> bool:
        """Whether the script waits for input right now."""
        return self._input_depth > 0

    def input_begins(self) -> None:
        """The step waits for its input, which is part of it."""
        self._input_depth += 1

    def input_ends(self) -> None:
        """The input is there."""
        self._input_depth -= 1

    def begin(self) -> None:
        """A step begins."""
        self._active = True
        self._wait_for_device()
        self._begin_ns = self._clock()

    def end(self, now: int, *, cycle_known: bool) -> None:
        """The step that began has ended at ``now`` (ns)."""
        if not self._active:
            return
        self._active = False
        self._results.step += 1
        warming = self.schedule.role is Role.WARMUP
        if not cycle_known and not warming:
            return
        if self._wait_for_device():
            now = self._clock()
        seconds = (now - self._begin_ns) / 1e9
        self._seconds.append(seconds)
        if warming:
            if self.schedule.finish_step(seconds, cycle_known=cycle_known) is not Role.WARMUP:
                self._hand_over("ready", settled_s=(now - self._began_ns) / 1e9)
            return
        self._left -= 1
        if self._left <= 0:
            self._hand_over("slice")

    def discard(self) -> None:
        """What runs now is no whole step."""
        self._active = False

    def restart(self) -> None:
        """Steps turned out to be something else."""
        self._active = False
        if not self.enough:
            self._seconds = []
            self.schedule.restart()

    def finish(self) -> None:
        """Nothing to give back."""

    def _wait_for_device(self) -> bool:
        """Let an accelerator finish what was queued, so that a step ends when its work does; whether there is one."""
        synchronize = synchronize_accelerator("cpu")
        if synchronize is None:
            return False
        synchronize()
        return True

    def _hand_over(self, event: str, **more: Any) -> None:
        waited = waiting_s()
        before, self._waited_s = self._waited_s, waited
        message = {
            "event": event,
            # Threads that have ended have taken theirs with them.
            "waited_s": None if waited is None or before is None else max(0.0, waited - before),
            "seconds": self._seconds,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "took_effect": self._effects.took_effect,
            "effect": self._effects.text(),
            "seed": torch_seed(),
        }
        self._line.tell(message | more | self._results.take())
        self._seconds = []
        word = self._line.ask()
        if word is None:
            os._exit(0)  # nobody is left to tell
        self._left = int(word["steps"])
        self._waited_s = waiting_s()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script in turns; returns its status."""
    parser = argparse.ArgumentParser(prog="boundby.remedies.turns")
    parser.add_argument("--to-trial", type=int, required=True)
    parser.add_argument("--from-trial", type=int, required=True)
    parser.add_argument("--remedy", action="append", default=[])
    parser.add_argument("--threads", type=int, help="torch's threads, unless the script chooses for itself")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of what the remedies saw")
    parser.add_argument("--module", action="store_true")
    parser.add_argument("--root", type=Path, required=True, help="what stands for the root of the file system")
    parser.add_argument(
        "--folder", type=Path, action="append", required=True, help="a folder of the user's that is not written into"
    )
    parser.add_argument("name")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    choose_language(options.language)
    began_ns = time.perf_counter_ns()
    _end_with_the_trial()
    line = Line(os.fdopen(options.to_trial, "w"), os.fdopen(options.from_trial, "r"))
    effects, results = Effects(), Results()
    remedies = [remedy_named(name) for name in options.remedy]
    guard = Guard(options.folder, options.root)
    guard.install()

    def prepare() -> None:
        guard_torch_save(guard)
        for remedy in remedies:
            remedy.apply(effects)
        if options.threads is not None:
            use_threads(options.threads, effects)
        results.watch_losses()

    withdraw = after_import("torch", prepare)
    session = Session(
        limits=Limits(),
        recorder=lambda clock: Turns(line, results, effects, clock, began_ns),
        on_module=results.watch_output,
    )
    session.arm()
    args = tuple(options.args[1:] if options.args[:1] == ["--"] else options.args)
    outcome = run_target(Target(name=options.name, is_module=options.module, args=args))
    session.disarm()
    withdraw()
    line.tell(
        {
            "event": "end",
            "steps": results.step,
            "status": outcome.status,
            "error": None if outcome.error is None else f"{type(outcome.error).__name__}: {outcome.error}",
            "watching": [finding.message for finding in session.findings],
            "took_effect": effects.took_effect,
            "effect": effects.text(),
        }
    )
    return abs(outcome.status)


def _end_with_the_trial() -> None:
    """Ask Linux to end this process with its parent, however that ends; a stopped one could not notice by itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
