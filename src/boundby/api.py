"""The public functions. Importing this module loads neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from boundby.capture.marks import step
from boundby.results.errors import EXIT_USAGE, BoundbyError

if TYPE_CHECKING:
    from boundby.results.counts import Counts, OpCost
    from boundby.results.machine import Machine
    from boundby.results.report import Report

__all__ = ["cost_rule", "count", "explain", "measure_machine", "step"]


def explain(
    fn: Callable[..., Any] | Iterator[Any],
    *args: Any,
    batches: Iterable[Any] | None = None,
    warmup: int | None = None,
    steps: int | None = None,
    watch: int | None = None,
    machine: Machine | None = None,
    **kwargs: Any,
) -> Report:
    """Say what bounds a step given as a callable or a generator.

    The step is run as often as timing and watching need, some 20 to 90 times unless the options say otherwise.

    Args:
        fn: the step: a callable, called with ``args`` and ``kwargs``; or a generator or other iterator, each ``next``
            of which is a step.
        *args: positional arguments of the callable.
        batches: an iterable; the callable is then called as ``fn(batch, *args, **kwargs)`` for each item, and waiting
            for the item is the step's input time. Explaining ends with the iterable if that comes first.
        warmup: steps before the first timed one; None: until times settle.
        steps: steps to time; None: about two seconds' worth.
        watch: steps to watch, at least 2; None: about one second's worth.
        machine: the ceilings; None: this machine's, kept or measured now (up to 20 s).
        **kwargs: keyword arguments of the callable.

    Returns:
        The report, as ``boundby run`` makes it for a script.

    Raises:
        BoundbyError: ``no-steps`` where too few steps ran, ``bad-steps`` for a count too small, ``not-callable`` for
            what is no step, ``capture-failed`` where watching met an error of its own.
    """
    from boundby.bound.explain import explain_trace
    from boundby.capture.schedule import checked_limits
    from boundby.capture.session import Session

    if not callable(fn) and not hasattr(fn, "__next__"):
        raise BoundbyError(
            "not-callable",
            f"explain takes a callable or an iterator, not {type(fn).__name__}",
            "Wrap the step in a function: boundby.explain(lambda: model(x)).",
            status=EXIT_USAGE,
        )
    import torch  # noqa: F401  # loaded, so that what is to be watched is there before the first step

    session = Session(limits=checked_limits(warmup=warmup, timed=steps, watched=watch), probes=speed_probes)
    session.arm(modules=False)
    try:
        if callable(fn):
            _call_repeatedly(session, fn, args, kwargs, batches)
        else:
            _advance_repeatedly(session, fn)
    finally:
        session.disarm()
    trace = session.trace()
    if trace is None or not trace.step_s:
        for finding in session.findings:
            raise BoundbyError(finding.code, finding.message, finding.advice)
        raise BoundbyError(
            "no-steps", "too few steps ran to time one after warm-up", "Give more batches, or lower warmup."
        )
    if machine is None:
        from boundby.machine.ensure import ensure_machine

        machine = ensure_machine(threads=trace.threads)
    return explain_trace(trace, machine)


def speed_probes(threads: int) -> Any:
    """Short probes of this machine's speed, to be read between the user's steps; loads torch."""
    from boundby.machine.anchors import Anchors

    return Anchors(threads)


def _call_repeatedly(session: Any, fn: Callable[..., Any], args: Any, kwargs: Any, batches: Any) -> None:
    if batches is None:
        while not session.ended:
            session.mark_begin()
            fn(*args, **kwargs)
            session.mark_end()
        return
    for batch in step(batches):
        fn(batch, *args, **kwargs)
        if session.ended:
            return


def _advance_repeatedly(session: Any, steps: Iterator[Any]) -> None:
    while not session.ended:
        session.mark_begin()
        try:
            next(steps)
        except StopIteration:
            return
        session.mark_end()


def count(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Counts:
    """Count one call of ``fn(*args, **kwargs)``: ops, FLOPs, bytes and bytes saved for backward.

    Args:
        fn: any callable that runs torch ops; a forward, or a whole training step.
        *args: its positional arguments.
        **kwargs: its keyword arguments.

    Returns:
        The deterministic totals; ops without a cost rule are named in ``unmodelled``.
    """
    from boundby.capture.counter import count_callable

    return count_callable(fn, *args, **kwargs)


def measure_machine(*, threads: int | None = None, again: bool = False, quick: bool = False) -> Machine:
    """This machine's ceilings, kept from before or measured now in a process of its own.

    Args:
        threads: threads of torch to measure with; None: what torch takes by itself.
        again: measure even where ceilings are kept.
        quick: within about 8 s instead of 18, with fewer sizes.

    Returns:
        The machine, with ceilings in FLOP/s, byte/s and seconds per op or element.
    """
    from boundby.machine.ensure import DEFAULT_BUDGET_S, QUICK_BUDGET_S, ensure_machine

    return ensure_machine(threads=threads, again=again, budget_s=QUICK_BUDGET_S if quick else DEFAULT_BUDGET_S)


def cost_rule(
    op: Any, *, data_dependent: bool = False
) -> Callable[[Callable[..., int | OpCost]], Callable[..., int | OpCost]]:
    """Register the cost of a custom op, so that counts and verdicts know it.

    The decorated function gets the op's arguments and its result as ``out``, and returns the FLOPs of a matmul-class
    op (2 x multiply-accumulates; bytes are then taken from the tensors), or a whole ``OpCost``::

        @boundby.cost_rule(torch.ops.mylib.fused_mlp)
        def fused_mlp(x, w, *, out):
            return 2 * x.numel() * w.shape[1]

    Args:
        op: ``torch.ops.mylib.op``, one of its overloads, or a higher-order op.
        data_dependent: whether the cost depends on tensors' values; else it is worked out once for the same sizes.

    Raises:
        TypeError: ``op`` is none of these.
    """
    from boundby.capture.costs import cost_rule as register

    return register(op, data_dependent=data_dependent)
