"""Remedies as plain data: what a change should do, what it did, and what to make of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Advice = Literal["do", "skip", "unknown"]

# A gain below this is not worth a change of the script; stated wherever advice is given.
WORTH = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What a remedy should do to the step's time: times as fast, with the band and the reason.

    ``change`` says in a few words what the user would change; ``changes_numbers`` whether results are no longer equal
    to the last bit. ``from_outside`` says whether a trial can make the change to the unmodified script.
    """

    speedup: float
    low: float
    high: float
    reason: str
    change: str = ""
    changes_numbers: bool = False
    from_outside: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """How results differed over the same steps of the script as it is and with the remedy.

    ``of`` says what was compared: the losses (relative difference), or the first output tensor of the outermost module
    (largest difference over its largest value). ``largest`` over all steps compared, ``first`` and ``last`` in the
    first and last of them: training carries what was a rounding in the first step far apart by the last.
    """

    of: Literal["loss", "output"]
    steps: int
    largest: float
    last: float
    base_last: float | None = None
    remedy_last: float | None = None
    first: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a remedy did, from two live processes that took turns of a few steps.

    ``speedup`` is the median over turns of the ratio of step times, ``low`` and ``high`` its interval, never narrower
    than ``floor``: by how much a run beside itself appeared to differ. Times of a step are medians in seconds.
    ``start_s`` and ``base_start_s`` are the seconds from the process's begin until steps ran at full speed, beyond what
    those steps take at that speed: imports, set-up, compilation. ``break_even_steps`` are the steps after which a
    longer start is paid back, None where it never is. ``waited`` is the share of a step that may be waiting for a core
    which another process had; the interval is as much wider.
    """

    speedup: float
    low: float
    high: float
    floor: float
    turns: int
    steps_per_turn: int
    base_step_s: float
    step_s: float
    base_start_s: float
    start_s: float
    break_even_steps: int | None = None
    base_peak_bytes: int | None = None
    peak_bytes: int | None = None
    waited: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change that may help: predicted, and where it was tried, measured.

    ``took_effect`` is what the trial saw of the change itself (the fused kernel ran, the dtype changed), with
    ``effect`` in words; None where it was not tried or cannot be told. ``failed`` is why a trial gave no result.
    ``held`` says whether the measured speed-up lies in the predicted interval; None where the trial cannot tell.
    ``from_outside`` says whether a trial can make the change to the unmodified script, as far as is known before it.
    """

    name: str
    predicted: Predicted | None = None
    measured: Measured | None = None
    numerics: Numerics | None = None
    advice: Advice = "unknown"
    title: str = ""
    why: str = ""
    took_effect: bool | None = None
    effect: str = ""
    failed: str | None = None
    held: bool | None = None
    from_outside: bool = True


def is_worth_a_trial(remedy: Remedy) -> bool:
    """Whether a remedy is tried where none is named: it may be worth it, and is not expected to slow the step."""
    return remedy.advice != "skip" and (remedy.predicted is None or remedy.predicted.speedup >= 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTrials:
    """The user's own trials on this machine so far: how many put a prediction to the test, and how many it held in."""

    trials: int
    held: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerFacts:
    """An optimizer of the script: its class, its choice of kernels, and the shapes it steps over.

    ``fused`` and ``foreach`` are as the script left them; None is torch's own choice. ``shapes`` of all parameters that
    have a gradient, ``sparse`` how many gradients are sparse.
    """

    name: str
    fused: bool | None
    foreach: bool | None
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    sparse: int = 0
    options: dict[str, float | bool | str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderFacts:
    """A DataLoader whose batches the step waited for.

    ``worker_cpu_s`` is the processor time (seconds) that a batch takes its worker processes. ``item_shapes`` and
    ``item_dtypes`` are those of one item's tensors, of a dataset that holds them in memory (a ``TensorDataset``);
    ``plain_collate`` whether torch's own function makes batches of items. ``path`` and ``line`` are of the loop that
    fetches.
    """

    workers: int
    batch_size: int | None
    pinned: bool
    prefetch: int | None
    dataset: str
    items: int | None
    worker_cpu_s: float | None = None
    item_shapes: tuple[tuple[int, ...], ...] = ()
    item_dtypes: tuple[str, ...] = ()
    plain_collate: bool | None = None
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFacts:
    """What was seen of the script's own objects and settings while a step was watched; None is unknown.

    ``parameter_dtypes`` are torch's names of the dtypes of what is trained, or of the outermost module's parameters.
    ``forward_path`` and ``forward_line`` are of the line that calls it first. ``linear_shapes`` are (outputs,
    inputs) of the weights of linear layers in outermost modules.
    """

    optimizers: tuple[OptimizerFacts, ...] = ()
    loaders: tuple[LoaderFacts, ...] = ()
    autocast: bool | None = None
    grad_in_inference: bool | None = None
    anomaly_mode: bool | None = None
    deterministic: bool | None = None
    matmul_precision: str | None = None
    threads: int | None = None
    interop_threads: int | None = None
    compiled: bool | None = None
    parameter_dtypes: tuple[str, ...] = ()
    forward_path: str | None = None
    forward_line: int | None = None
    linear_shapes: tuple[tuple[int, ...], ...] | None = None
