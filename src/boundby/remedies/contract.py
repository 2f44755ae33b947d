"""What a remedy is: a module of this room with the names below. To add one is one file, one test, one page.

``NAME`` and ``title`` are what people type and read; ``CHANGES_NUMBERS`` whether results may differ in the last bits or
more; ``ENVIRONMENT`` variables that the script's process gets from its start. ``predict`` looks at a report and says
what the remedy would do, or why it does not apply. ``apply`` changes torch inside the process that is about to run the
unmodified script, before the script's first line that uses it, and tells its effects when they happen.

A remedy may have more names: ``WORK``, how many times as much a step does with it (2.0 for twice the batch), so that
trials compare the time of equal work; ``BURSTS``, that steps come in bursts, so that their mean is compared; ``GROUP``,
of whose remedies only one can hold at a time; ``TOUCHES``, the parts of a step (``input``, ``model``, ``optimizer``)
that it changes, where that is not all of them; ``ADVICE_ONLY``, that it cannot be applied from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from boundby.results.interval import Interval
from boundby.results.language import tr
from boundby.results.machine import Machine
from boundby.results.remedy import Predicted, ScriptFacts
from boundby.results.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a prediction may rest on: the report with its split and counts, the machine, facts about the script.

    ``probe`` times a short callable of the remedy's own in this process, in turns with another. It is None where
    nothing may be run (a saved report is looked at), and a remedy that needs it then says that it cannot tell.
    """

    report: Report
    machine: Machine
    facts: ScriptFacts
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two callables timed in turns: median seconds of a call of each, and of the ratio changed / base by turns.

    The band of ``ratio`` is the middle half of the turns: wide where the machine was not quiet.
    """

    base_s: float
    changed_s: float
    ratio: Interval


class Probe(Protocol):
    """Times two callables in turns, each a few milliseconds to a few tenths of a second altogether."""

    def __call__(
        self, base: Callable[[], object], changed: Callable[[], object], *, budget_s: float | None = None
    ) -> Compared:
        """Both warmed up first; what they raise is not caught. ``budget_s`` in place of the probe's own seconds."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """Why a remedy has nothing to change in this script; not shown unless asked for."""

    reason: str


@dataclass(frozen=True, slots=True)
class CannotTell:
    """Why nothing can be predicted although the remedy may apply; the way to know is to try.

    ``from_outside`` says whether a trial can make the change to the unmodified script.
    """

    reason: str
    change: str = ""
    from_outside: bool = True


Prediction = Predicted | NotApplicable | CannotTell


@dataclass(slots=True)
class Effects:
    """What a remedy saw of itself in the running script, told by ``saw``; and what it could not do."""

    seen: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def saw(self, what: str) -> None:
        """The change took place once more (``"fused AdamW"``)."""
        self.seen[what] = self.seen.get(what, 0) + 1

    def cannot(self, why: str) -> None:
        """A place where the change was wanted and is not possible."""
        if why not in self.refused:
            self.refused.append(why)

    @property
    def took_effect(self) -> bool:
        """Whether the change took place at all."""
        return bool(self.seen)

    def text(self) -> str:
        """Both in words, the commonest first."""
        seen = tr(", ").join(
            tr("{what} ({number} times)", what=what, number=str(number))
            for what, number in sorted(self.seen.items(), key=lambda one: -one[1])
        )
        refused = tr("; ").join(self.refused[:3])
        if seen and refused:
            return tr("{seen}; not possible: {refused}", seen=seen, refused=refused)
        return seen or refused


class RemedyModule(Protocol):
    """The shape of a remedy's file."""

    NAME: str
    CHANGES_NUMBERS: bool
    ENVIRONMENT: Mapping[str, str]

    def title(self) -> str:
        """What it does, for people: a few words in the language in use."""

    def predict(self, evidence: Evidence) -> Prediction:
        """What the remedy would do to the step, as an interval with its reason."""

    def apply(self, effects: Effects) -> None:
        """Change torch in this process; it is imported already, the script is not yet past its import."""

    def wrap(self, step: Callable[[], Any], effects: Effects) -> Callable[[], Any] | None:
        """The step with the remedy, for callables; None where it can only be applied to a whole process."""
