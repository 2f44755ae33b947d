"""Time what a factory builds against one of its integer arguments, all sizes in turns."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from boundby.capture.factory import FactoryTarget, backward_of, work_from
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.interval import interval
from boundby.results.language import tr, trn
from boundby.results.sweep import SweepPoint
from boundby.timing.clock import Clock, monotonic_ns
from boundby.timing.sampling import interleave, time_window
from boundby.timing.statistics import median, quantile

FEWEST_WINDOWS, MOST_WINDOWS = 3, 25
FEWEST_VALUES = 3
WINDOW_S = 5e-3
WARMUP_WINDOWS = 5


def checked_values(values: Sequence[int]) -> tuple[int, ...]:
    """The values in order, each once.

    Raises:
        BoundbyError: ``bad-sweep`` where one is no positive whole number, or they are too few to fit.
    """
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 1 for one in values):
        raise BoundbyError(
            "bad-sweep",
            tr("a sweep takes positive whole numbers, not {values}", values=", ".join(map(str, values))),
            tr("Name sizes, such as 1, 2, 4, 8."),
            status=EXIT_USAGE,
        )
    ordered = tuple(sorted(set(values)))
    if len(ordered) < FEWEST_VALUES:
        raise BoundbyError(
            "bad-sweep",
            trn(
                "{count} size is too few: a fixed cost and a rate need at least {fewest} to be checked",
                "{count} sizes are too few: a fixed cost and a rate need at least {fewest} to be checked",
                len(ordered),
                fewest=str(FEWEST_VALUES),
            ),
            tr("Name more, over a range of at least 8 to 1."),
            status=EXIT_USAGE,
        )
    return ordered


def check_argument(make: Callable[..., Any], argument: str, target: FactoryTarget) -> None:
    """That ``make`` can be called with ``argument`` alone.

    Raises:
        BoundbyError: ``bad-target`` where it does not take it, or needs others too.
    """
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # some functions in C do not tell; calling them will
        return
    by_name = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters)
    if argument not in [one.name for one in by_name] and not anything:
        names = ", ".join(one.name for one in by_name) or tr("none")
        raise BoundbyError(
            "bad-target",
            tr("{target} has no argument {argument}", target=target, argument=repr(argument)),
            tr("Its arguments: {names}.", names=names),
            status=EXIT_USAGE,
        )
    needed = [one.name for one in by_name if one.default is one.empty and one.name != argument]
    if needed:
        raise BoundbyError(
            "bad-target",
            tr(
                "{target} needs arguments besides {argument}: {names}",
                target=target,
                argument=argument,
                names=", ".join(needed),
            ),
            tr("Name a function that needs no more than the one that is varied."),
            status=EXIT_USAGE,
        )


@contextmanager
def _told_size(argument: str, value: int) -> Iterator[None]:
    """Adds to what the user's code raises which size that was with."""
    try:
        yield
    except Exception as error:
        error.add_note(tr("That was with {argument}={value}.", argument=argument, value=str(value)))
        raise


def time_sizes(
    make: Callable[..., Any],
    argument: str,
    values: Sequence[int],
    *,
    target: FactoryTarget,
    backward: bool = False,
    budget_s: float = 5.0,
    clock: Clock = monotonic_ns,
) -> tuple[SweepPoint, ...]:
    """Seconds a call of what ``make(argument=value)`` builds, for each value.

    All are built first and timed in turns, so that a machine whose speed drifts hits all sizes alike.

    Args:
        make: returns a callable, or (module, inputs), as for ``boundby count``.
        argument: its integer argument.
        values: as ``checked_values`` gives them.
        target: what to call it in errors.
        backward: whether the backward pass of the loss is timed too.
        budget_s: about how long to time, in seconds; the windows' least number is taken all the same.
        clock: nanoseconds.
    """
    calls = []
    for value in values:
        with _told_size(argument, value):
            work = work_from(make(**{argument: value}), target)
            work = backward_of(work) if backward else work
            calls.append(functools.partial(work.fn, *work.args, **work.kwargs))
    for value, call in zip(values, calls, strict=True):
        with _told_size(argument, value):
            call()
    each = [max(WINDOW_S, time_window(call, 1, clock)) for call in calls]
    rounds = int(budget_s / sum(each))
    # Where time is short, the calls above were the warm-up.
    warming = WARMUP_WINDOWS if rounds >= WARMUP_WINDOWS + MOST_WINDOWS // 2 else 1
    windows = max(FEWEST_WINDOWS, min(MOST_WINDOWS, rounds - warming))
    taken = interleave(calls, windows=windows, window_s=WINDOW_S, clock=clock, max_warmup_windows=warming)
    return tuple(
        SweepPoint(
            at=value,
            time_s=interval(median(one.seconds), quantile(one.seconds, 0.25), quantile(one.seconds, 0.75)),
            samples_s=one.seconds,
        )
        for value, one in zip(values, taken, strict=True)
    )
