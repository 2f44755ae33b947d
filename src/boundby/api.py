"""The public functions. Importing this module loads neither torch nor numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from boundby.capture.marks import step
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.results.call_time import CallTime
    from boundby.results.counts import OpCost
    from boundby.results.machine import Machine
    from boundby.results.module_tree import CallCounts
    from boundby.results.passes import Passes
    from boundby.results.report import Report
    from boundby.results.scaling import Scaling
    from boundby.results.sweep import Sweep

__all__ = [
    "cost_rule",
    "count",
    "explain",
    "measure_machine",
    "passes",
    "step",
    "sweep",
    "thread_scaling",
    "time_calls",
    "try_remedies",
]


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
        The report, as ``boundby run`` makes it for a script, with what each remedy should do.

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
            tr("explain takes a callable or an iterator, not {kind}", kind=type(fn).__name__),
            tr("Wrap the step in a function: {code}.", code="boundby.explain(lambda: model(x))"),
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
            "no-steps", tr("too few steps ran to time one after warm-up"), tr("Give more batches, or lower warmup.")
        )
    if machine is None:
        from boundby.machine.ensure import ensure_machine

        machine = ensure_machine(threads=trace.threads)
    from boundby.remedies.ranking import with_predictions

    return with_predictions(explain_trace(trace, machine), session.facts())


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


def try_remedies(
    fn: Callable[..., Any],
    *args: Any,
    remedies: Iterable[str] | None = None,
    budget_s: float = 6.0,
    machine: Machine | None = None,
    **kwargs: Any,
) -> Report:
    """Explain a step, predict what each remedy would do to it, and measure those that a callable can be wrapped in.

    The step runs some hundred times. A remedy that needs a whole process (an allocator, other kernels of an optimizer
    that exists already) is predicted and not measured: ``boundby try`` does it for scripts.

    Args:
        fn: the step, called as ``fn(*args, **kwargs)``; what it returns is compared where it holds a tensor.
        *args: its positional arguments.
        remedies: names of those to try; None: all that may be worth it and are not expected to slow the step.
        budget_s: seconds for each trial's turns.
        machine: the ceilings; None: this machine's, kept or measured now.
        **kwargs: its keyword arguments.

    Returns:
        The report of ``explain`` with its ``remedies`` filled in.

    Raises:
        BoundbyError: as ``explain``; ``unknown-remedy`` for a name that is none.
    """
    from dataclasses import replace

    from boundby.remedies.callables import try_callable
    from boundby.remedies.past_trials import keep_trials, past_trials
    from boundby.remedies.registry import remedy_named
    from boundby.results.remedy import Remedy, is_worth_a_trial

    wanted = None if remedies is None else [remedy_named(name).NAME for name in remedies]
    report = explain(fn, *args, machine=machine, **kwargs)
    known = {one.name: one for one in report.remedies}
    if wanted is None:
        chosen = [one for one in report.remedies if is_worth_a_trial(one)]
    else:
        chosen = [known.get(name) or Remedy(name=name, title=remedy_named(name).title()) for name in wanted]
    tried = try_callable(lambda: fn(*args, **kwargs), chosen, budget_s=budget_s)
    rest = [one for one in report.remedies if one.name not in {one.name for one in tried}]
    findings = (*report.findings, *keep_trials(tried))
    return replace(report, remedies=(*tried, *rest), findings=findings, past_trials=past_trials())


def count(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> CallCounts:
    """Count one call of ``fn(*args, **kwargs)``: ops, FLOPs, bytes and bytes saved for backward.

    Args:
        fn: any callable that runs torch ops; a forward, or a whole training step.
        *args: its positional arguments.
        **kwargs: its keyword arguments.

    Returns:
        The deterministic totals, by op, phase, module and source line, and in ``tree`` by called module; ops without a
        cost rule are named in ``unmodelled``. On meta and fake tensors ``findings`` say what the counts cannot hold.
    """
    from boundby.capture.counter import count_callable

    return count_callable(fn, *args, **kwargs)


def passes(fn: Callable[..., Any], *args: Any, size_bytes: int | None = None, **kwargs: Any) -> Passes:
    """Count how often one call of ``fn(*args, **kwargs)`` passes over memory, and how often one kernel would.

    Unfused, each op reads what it takes and writes what it gives. One kernel for everything reads once each tensor
    that the call is given (among the arguments, enclosed by the function, or a module's own) and writes once each
    that it returns or changes; where memory binds, that ratio is what fusing can gain at most.

    Args:
        fn: any callable that runs torch ops; compiled code is counted as the kernels it runs.
        *args: its positional arguments.
        size_bytes: how many bytes one pass is; None: the largest tensor given or returned.
        **kwargs: its keyword arguments; one named ``out`` is where the result goes, and is not read.

    Returns:
        Passes read and written, by the ops and by one kernel. They need not be whole numbers.

    Raises:
        BoundbyError: ``no-tensors`` where the call takes and returns none and no size is given.
    """
    from boundby.capture.passes import count_passes

    return count_passes(fn, args, kwargs, size_bytes=size_bytes)


def time_calls(
    *calls: Callable[[], object],
    rounds: int = 5,
    round_s: float = 0.02,
    device: str = "cpu",
    progress: Callable[[float], None] | None = None,
) -> tuple[CallTime, ...]:
    """Time calls in turns, so that a machine whose speed drifts hits all of them alike.

    Each is warmed up, and a loop count found with which a round lasts long enough; then rounds are taken of each in
    turn. What the calls return is dropped.

    Args:
        *calls: callables without arguments.
        rounds: how many rounds to take of each.
        round_s: how long a round is to last, seconds; one call where a call takes longer.
        device: the type of the device they run on, which each round waits for: ``cpu``, ``cuda``, ``mps``...
        progress: called with the share of the work that is done, from 0 to 1, between what is timed.

    Returns:
        Of each call, in their order, the seconds per call of the fastest, the median and the slowest round.

    Raises:
        BoundbyError: ``no-device`` for a device that torch cannot use here.
    """
    from boundby.timing.rounds import time_rounds

    if device == "cpu":
        return time_rounds(calls, rounds=rounds, round_s=round_s, progress=progress)
    from boundby.timing.device import device_of

    wait = device_of(device).synchronize
    return time_rounds(calls, rounds=rounds, round_s=round_s, synchronize=wait, progress=progress)


def sweep(
    make: Callable[..., Any],
    argument: str,
    values: Iterable[int],
    *,
    backward: bool = False,
    power: int | None = None,
    budget_s: float = 5.0,
) -> Sweep:
    """Time what a factory builds against one of its integer arguments, and fit a fixed cost and a rate.

    Args:
        make: called as ``make(argument=value)``; returns a callable without arguments, or (module, inputs).
        argument: the name of its argument: a batch, a width, a length.
        values: at least three different ones; all are built before the first is timed.
        backward: time the backward pass of the result's loss too.
        power: the power of the argument that time grows with; None: 1, unless 2 or 3 fits clearly better.
        budget_s: about how long to time, in seconds.

    Returns:
        The times, and as ``fit`` the seconds that a call takes whatever the argument, the rate that is approached, and
        ``half_at``, the argument at which half of it is reached.

    Raises:
        BoundbyError: ``bad-target`` for what is no such factory, ``bad-sweep`` for values that cannot be fitted.
    """
    import torch

    from boundby.capture.factory import FactoryTarget
    from boundby.capture.sweeping import check_argument, checked_values, time_sizes
    from boundby.results.sweep import swept
    from boundby.scaling.fits import fit_growth

    target = FactoryTarget(
        home=getattr(make, "__module__", None) or "", name=getattr(make, "__qualname__", repr(make)), is_module=True
    )
    sizes = checked_values(tuple(values))
    check_argument(make, argument, target)
    points = time_sizes(make, argument, sizes, target=target, backward=backward, budget_s=budget_s)
    fit = fit_growth([(one.at, one.time_s.value) for one in points], power=power)
    return swept(
        target=str(target),
        argument=argument,
        backward=backward,
        threads=torch.get_num_threads(),
        points=points,
        fit=fit,
    )


def thread_scaling(
    fn: Callable[..., Any],
    *args: Any,
    threads: Iterable[int] | None = None,
    more: Iterable[int] = (),
    budget_s: float = 6.0,
    **kwargs: Any,
) -> Scaling:
    """Measure how a call scales with the number of threads, and what more of them would bring.

    The call is timed at each number of threads in turns, in this process; torch's own threads and those of loaded BLAS
    and OpenMP libraries are set. ``boundby scaling SCRIPT`` does it for whole scripts.

    Args:
        fn: the callable, called as ``fn(*args, **kwargs)``.
        *args: its positional arguments.
        threads: numbers of threads; None: 1, 2, 4 and so on up to the usable cores. One is always measured.
        more: numbers of threads to say something of by the laws; none: 2, 4 and 8 times the most measured.
        budget_s: about how long to time, in seconds.
        **kwargs: its keyword arguments.

    Returns:
        The speed-ups with their bands, the serial share by Amdahl's law, and as ``projections`` what the laws say of
        more threads.

    Raises:
        BoundbyError: ``bad-threads`` for numbers of threads that are none, or far more than the usable cores;
            ``not-callable`` for what cannot be called.
    """
    from boundby.remedies.thread_scaling import callable_scaling, cores_here, thread_counts
    from boundby.scaling.summary import scaling_of

    if not callable(fn):
        raise BoundbyError(
            "not-callable",
            tr("thread_scaling takes a callable, not {kind}", kind=type(fn).__name__),
            tr("Wrap the call in a function: {code}.", code="boundby.thread_scaling(lambda: model(x))"),
            status=EXIT_USAGE,
        )
    cores = cores_here()
    counts = thread_counts(None if threads is None else tuple(threads), cores)
    timed = callable_scaling(lambda: fn(*args, **kwargs), counts, cores=cores, budget_s=budget_s)
    return scaling_of(
        timed.points,
        origin="measured",
        target=getattr(fn, "__qualname__", type(fn).__name__),
        unit="threads",
        usable_cores=cores,
        more=tuple(more),
        findings=timed.findings,
    )


def measure_machine(
    *, threads: int | None = None, again: bool = False, quick: bool = False, full: bool = False
) -> Machine:
    """This machine's ceilings, kept from before or measured now in a process of its own.

    Args:
        threads: threads of torch to measure with; None: what torch takes by itself.
        again: measure even where ceilings are kept.
        quick: within 10 s instead of 20, with wider bands.
        full: within 3 minutes, with more sizes, more dtypes, compiled code and slow ranges; a kept full measuring
            also serves where less is asked for.

    Returns:
        The machine, with ceilings in FLOP/s, byte/s and seconds per op or element.

    Raises:
        BoundbyError: ``quick-and-full`` where both are asked for, ``bad-threads`` for threads below 1,
            ``machine-failed`` where measuring failed.
    """
    from boundby.machine.ensure import ensure_machine

    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise BoundbyError(
            "bad-threads",
            tr("{numbers} are no numbers of threads", numbers=repr(threads)),
            tr("Name whole numbers from 1: {option}.", option="threads=1"),
            status=EXIT_USAGE,
        )
    if quick and full:
        raise BoundbyError(
            "quick-and-full",
            tr("quick and full were both asked for"),
            tr("Ask for one of them."),
            status=EXIT_USAGE,
        )
    return ensure_machine(threads=threads, again=again, mode="quick" if quick else "full" if full else "default")


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
