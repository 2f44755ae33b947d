"""The frame of the labs: what a lab and a demonstration are, where they are, and how they are run.

A lab is a file with a ``LAB``; each of its demonstrations is a file with ``show(settings)``, loaded when it is run, so
that listing the labs loads neither torch nor numpy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from boundby.machine.describe import torch_version
from boundby.report.demonstration import Demonstration, Shown
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

# Where each lab is, in the order of the lectures.
LABS = {
    "measure": "boundby.labs.measure",
    "fusion": "boundby.labs.fusion",
    "launch": "boundby.labs.launch",
}


def _unwatched(share: float) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a demonstration is to run.

    ``device`` is the type that torch knows the device by: ``cpu``, ``cuda``, ``mps``. ``launch_us`` are costs of a
    launch in microseconds that take the place of the lab's own assumptions (empty: they stand); ``launch_measured``
    puts the overhead measured on this machine among them. ``progress`` is called with the share of the demonstration
    that is done, from 0 to 1. ``earlier`` is the ``data`` of the demonstrations that were run before, by their names.
    """

    quick: bool = False
    device: str = "cpu"
    launch_us: tuple[float, ...] = ()
    launch_measured: bool = False
    progress: Callable[[float], None] = _unwatched
    earlier: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def round_s(self) -> float:
        """How long a round of timing is to last, seconds."""
        return 0.002 if self.quick else 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A demonstration before it is run: its name in JSON, its title, and the module whose ``show`` runs it.

    ``is_timed`` is False of one that times nothing by itself; of one with ``quick_sizes`` a quick run leaves the
    largest sizes out. One with ``launch_costs`` goes by the costs of a launch in the settings.
    """

    name: str
    title: Callable[[], str]
    module: str
    is_timed: bool = True
    quick_sizes: bool = False
    launch_costs: bool = False

    def show(self, settings: Settings) -> Shown:
        """Loads and runs it."""
        shown: Shown = importlib.import_module(self.module).show(settings)
        return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab: its name on the command line, its title, its demonstrations in order.

    ``accelerated``: it runs on an accelerator where there is one; else on the CPU alone. ``one_thread``: torch has one
    thread while it runs.
    """

    name: str
    title: Callable[[], str]
    entries: tuple[Entry, ...]
    accelerated: bool = False
    one_thread: bool = False


def lab_named(name: str) -> Lab:
    """The lab of that name.

    Raises:
        BoundbyError: ``unknown-lab``.
    """
    if name not in LABS:
        raise BoundbyError(
            "unknown-lab",
            tr("There is no lab {name}.", name=repr(name)),
            tr("The labs: {names}.", names=", ".join(LABS)),
            status=EXIT_USAGE,
        )
    lab: Lab = importlib.import_module(LABS[name]).LAB
    return lab


def chosen_entries(lab: Lab, numbers: Sequence[int]) -> tuple[tuple[int, Entry], ...]:
    """The demonstrations of those numbers (from 1), in the lab's order; all of them where none is named.

    Raises:
        BoundbyError: ``no-demonstration`` for a number that the lab does not have.
    """
    entries = tuple(enumerate(lab.entries, start=1))
    for number in numbers:
        if not 1 <= number <= len(entries):
            raise BoundbyError(
                "no-demonstration",
                tr("Lab {lab} has no demonstration {number}.", lab=lab.name, number=str(number)),
                tr("It has 1 to {last}; `boundby lab` lists them.", last=str(len(entries))),
                status=EXIT_USAGE,
            )
    return tuple((number, entry) for number, entry in entries if not numbers or number in numbers)


def lab_device(lab: Lab, asked: str | None) -> str:
    """The device a lab runs on: the one asked for, or CUDA, else Apple's MPS, else the CPU, as far as the lab can.

    Args:
        lab: the lab.
        asked: the name of a device; None: the lab's choice.

    Raises:
        BoundbyError: ``lab-device`` where the lab runs on the CPU alone, ``no-device`` where torch cannot use it here,
            ``no-torch`` where the lab needs torch and there is none.
    """
    if (lab.accelerated or lab.one_thread) and torch_version() is None:
        raise BoundbyError(
            "no-torch",
            tr("There is no torch in this Python environment."),
            tr("Install it: pip install torch"),
        )
    if not lab.accelerated:
        if asked not in (None, "cpu"):
            raise BoundbyError(
                "lab-device",
                tr("Lab {lab} runs on the CPU, not on {device}.", lab=lab.name, device=repr(asked)),
                tr("Leave --device out."),
                status=EXIT_USAGE,
            )
        return "cpu"
    from boundby.timing.device import default_device, device_of

    return default_device() if asked is None else device_of(asked).kind


def cpu_threads(settings: Settings) -> int | None:
    """Over how many threads torch divides an op on the CPU; None where the work is on another device."""
    if settings.device != "cpu":
        return None
    import torch

    return torch.get_num_threads()


def run_demonstrations(
    lab: Lab,
    settings: Settings,
    numbers: Sequence[int] = (),
    *,
    progress: Callable[[int, float], None] | None = None,
) -> Iterator[Demonstration]:
    """Runs demonstrations one after the other and gives each as soon as it is done.

    Args:
        lab: the lab.
        settings: for all of them; its ``device`` as ``lab_device`` gives it.
        numbers: those to run, from 1; all where empty.
        progress: called with a demonstration's number and the share of it that is done.

    Raises:
        BoundbyError: ``no-demonstration``.
    """
    earlier: dict[str, Mapping[str, Any]] = {}
    for number, entry in chosen_entries(lab, numbers):
        told = settings.progress if progress is None else _numbered(progress, number)
        with ExitStack() as stack:
            if lab.one_thread:
                from boundby.timing.one_thread import in_one_thread

                stack.enter_context(in_one_thread())
            shown = entry.show(replace(settings, progress=told, earlier=dict(earlier)))
        earlier[entry.name] = shown.data
        yield Demonstration(number=number, name=entry.name, title=entry.title(), shown=shown)


def _numbered(progress: Callable[[int, float], None], number: int) -> Callable[[float], None]:
    return lambda share: progress(number, share)
