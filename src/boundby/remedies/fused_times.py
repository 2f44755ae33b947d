"""What a chain of elementwise ops takes as one kernel: by the passes that are left, and by the functions in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boundby.bound.floors import ARITHMETIC
from boundby.remedies.in_step import seconds_of
from boundby.remedies.pointwise_chains import Chain, plain_name
from boundby.results.interval import Interval, interval
from boundby.results.language import tr
from boundby.results.machine import Ceiling, Machine
from boundby.results.report import OpRow, Report

# Names of functions that one instruction a vector computes: inside a fused kernel they hide behind loads and stores.
HIDDEN = (
    ARITHMETIC
    | {"rsub", "square", "pow", "reciprocal", "amax", "amin", "max", "min", "eq", "ne", "lt", "le"}
    | {"gt", "ge"}
)
_DTYPES = {4: "fp32", 2: "bf16", 8: "fp64"}
# A kernel's loads hide behind its arithmetic, but for about this share of the smaller of both.
OVERLAP = 0.125
# Less than this share of its floors no op takes; a smaller one was taken too much off for starting and page faults.
LEAST_BESIDE = 0.6
# Where less of a step is seen, the rest is not spread over it.
LEAST_SEEN = 0.2
# Ceilings and the kernels that a compiler writes differ by this much.
CODE_BAND = 0.12


# Seconds an element in a compiled kernel over those of the eager op, both in cache, where the machine file has no
# compiled functions: as measured with AVX-512 and torch 2.13. Compiled code has other versions of these than eager ops.
GENERATED = {
    "sqrt": 0.36, "rsqrt": 1.4, "exp": 0.46, "log": 0.68, "tanh": 0.75, "sin": 0.31, "cos": 0.27, "erf": 0.46,
    "sigmoid": 1.5, "silu": 0.9, "gelu": 1.06, "gelu_tanh": 1.03, "softmax": 1.1, "div": 0.8,
}  # fmt: skip
GENERATED_BAND = (0.8, 1.3)
# Of other functions.
UNKNOWN_RATIO = interval(1.0, 0.5, 1.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedTime:
    """Seconds a step: what the chain takes now (``now_s``), and what it would take as one kernel.

    ``bound`` says whether the kernel would be bound by its functions or by memory.
    """

    now_s: float
    fused_s: Interval
    bound: str

    @property
    def saved(self) -> Interval:
        """Seconds a step that fusing saves; negative ones where it costs."""
        return Interval(
            value=self.now_s - self.fused_s.value,
            low=self.now_s - self.fused_s.high,
            high=self.now_s - self.fused_s.low,
        )


def fused_time(chain: Chain, report: Report, *, function: str | None = None) -> FusedTime:
    """The time of one kernel in place of the chain.

    One kernel takes the larger of the bytes that are left and the sum of all its functions, of which additions and
    products cost nothing beside loads and stores; and one start, and fresh memory for one result. How long a pass and
    how long the functions take is what they took in this step: the ops as they are that memory bounds say the one,
    those that a function bounds the other, each beside its floor. So what the ceilings do not know (the caches' state,
    the speed at that moment) is the same before and after.

    Args:
        chain: the ops.
        report: the report it is from, with the machine's ceilings.
        function: the name of a library function that would do it all, for its own ceiling (``gelu_tanh``).
    """
    faults = _seconds_a_fault(report)
    overhead_now = sum(row.floors.overhead_s for row in chain.rows)
    faulting = faults * sum(row.faults for row in chain.rows)
    unit = chain.runs * chain.elements * chain.element_bytes
    # The larger the chain, the less of it is still in a cache when the next op reads it: by bytes alike.
    pass_s = unit * sum(row.floors.memory_s for row in chain.rows) / max(1, chain.bytes_before)
    slow = [row for row in chain.rows if _function_s(row) > row.floors.memory_s]
    plain = [row for row in chain.rows if _function_s(row) <= row.floors.memory_s]
    pass_s *= _beside_floors(report, plain, faults) or _beside_floors(report, slow, faults) or 1.0
    function_scale = _beside_floors(report, slow, faults) or 1.0
    rest = overhead_now * chain.runs / chain.ops
    rest += faulting * min(1.0, unit / max(1, sum(row.bytes_written for row in chain.rows)))
    functions, passes = _functions(chain, report.machine, function).scaled(function_scale), chain.passes_after
    value = rest + _kernel_s(passes.value * pass_s, functions.value, OVERLAP)
    low = (rest + _kernel_s(passes.low * pass_s, functions.low, 0.0)) * (1 - CODE_BAND)
    high = (rest + _kernel_s(passes.high * pass_s, functions.high, 2 * OVERLAP)) * (1 + CODE_BAND)
    return FusedTime(
        now_s=seconds_of(report, chain.rows),
        fused_s=interval(value, low, high),
        bound=tr("its functions") if functions.value > passes.value * pass_s else tr("memory"),
    )


def _beside_floors(report: Report, rows: Sequence[OpRow], faults: float) -> float | None:
    """How many times their floors rows took, without starting ops and page faults; None without rows or floors."""
    floors = sum(_kernel_s(row.floors.memory_s, _function_s(row), OVERLAP) for row in rows)
    if not floors:
        return None
    taken = seconds_of(report, rows) - sum(row.floors.overhead_s + faults * row.faults for row in rows)
    return max(LEAST_BESIDE, taken / floors)


def _kernel_s(memory_s: float, functions_s: float, overlap: float) -> float:
    return max(memory_s, functions_s) + overlap * min(memory_s, functions_s)


def most_of(report: Report) -> float:
    """How many times longer than seen ops may really take: time of the step that nothing explains may be theirs.

    Args:
        report: its ops' shares, waiting for input and host code are what is seen of the step.
    """
    seen = sum(row.share for row in report.ops) + report.split.input.value + report.overhead_parts.host
    return 1.0 / min(1.0, max(LEAST_SEEN, seen))


def generated_ratio(name: str, machine: Machine) -> Interval | None:
    """Seconds an element of a function in a compiled kernel over those of the eager op; None where it is not known.

    Args:
        name: the function's name (``tanh``).
        machine: its ceilings; compiled ones are measured by ``boundby machine --full`` alone. Without them the ratio is
            that of another machine, in a wide band.
    """
    compiled, eager = _ceiling(name, machine, "torch.compile"), _ceiling(name, machine, "torch")
    if compiled is not None and eager is not None and eager.value > 0:
        ratio = compiled.value / eager.value
        return interval(ratio, compiled.low / eager.high, compiled.high / eager.low)
    elsewhere = GENERATED.get(name)
    if elsewhere is None:
        return None
    return interval(elsewhere, GENERATED_BAND[0] * elsewhere, GENERATED_BAND[1] * elsewhere)


def _functions(chain: Chain, machine: Machine, function: str | None) -> Interval:
    total = interval(0.0)
    for row in chain.rows:
        seconds = _function_s(row)
        if seconds:
            ratio = (generated_ratio(plain_name(row.op), machine) or UNKNOWN_RATIO).scaled(seconds)
            total = interval(total.value + ratio.value, total.low + ratio.low, total.high + ratio.high)
    one = None if function is None else _ceiling(function, machine, "torch", _DTYPES.get(chain.element_bytes, "fp32"))
    if one is None:
        return total
    each = chain.runs * chain.elements
    return interval(one.value * each, one.low * each, one.high * each)


def _function_s(row: OpRow) -> float:
    """Seconds of the row's function; 0 where it hides behind loads and stores."""
    return 0.0 if plain_name(row.op) in HIDDEN else row.floors.pointwise_s


def _ceiling(name: str, machine: Machine, stack: str, dtype: str = "fp32") -> Ceiling | None:
    return next(
        (
            one
            for one in machine.ceilings
            if one.kind == "function" and one.name == name and one.dtype == dtype and one.stack == stack
        ),
        None,
    )


def _seconds_a_fault(report: Report) -> float:
    found = report.page_faults
    return found.seconds_each if found is not None and found.seconds_each is not None else 0.0
