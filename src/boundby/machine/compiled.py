"""Function ceilings of ``torch.compile``: seconds per element of generated kernels, in cache, and the call itself.

Compiling is slow, so a graph computes three functions, each on tensors of a length of their own, which the compiler is
told may change. It makes one loop for each function, and one compilation serves them all: with one function on many
rows and the others on two, the call takes that function's time more than with all of them on two. More functions to a
graph would make fewer graphs, but with every tensor that a graph takes, the call itself touches more memory, which the
loops then miss in the cache: with nine to a graph, kernels came out up to a quarter too slow, with three a few percent.

Results go to existing tensors, so no memory is taken. The arguments are those of the eager functions, in rows of 128,
and begin at the same places within a page.
The ceiling ``compiled_call`` is a whole call of a compiled addition on 8 elements: what Python, the guards and the
generated wrapper cost.

A graph takes about 1 s to compile on one core, or 0.2 s where the compiler has kept it from an earlier time; the first
thing compiled in a process takes 4 s, and 10 s where the compiler's own files are not there yet. That makes 10 to 25 s
for all, too long for the usual measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType

import torch
import torch.nn.functional as F

from boundby.machine.data import DTYPES, DataSource, placed
from boundby.machine.functions import LARGEST, PIECE, ROW, STARTS, function_arguments
from boundby.machine.probe import Formula, Probe, ProbeSet, Reading, Window, seconds_of
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.timing.clock import Clock, monotonic_ns

STACK = "torch.compile"
CALL = "compiled_call"
# Two, since the compiler takes lengths of 0 and 1 for constants.
_FEW_ROWS = 2
# A call costs as much as the work of the cheapest functions three to six times. Turns and a low quantile leave less
# than a twentieth of it as noise.
_LEAST_NET_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Compiled:
    """One function of a graph, and which arguments it takes, by the names of ``Arguments``."""

    takes: tuple[str, ...]
    apply: Callable[..., torch.Tensor]


GRAPHS: tuple[dict[str, Compiled], ...] = (
    {
        "add": Compiled(("x", "y"), torch.add),
        "mul": Compiled(("x", "y"), torch.mul),
        "div": Compiled(("x", "positive"), torch.div),
    },
    {
        "sqrt": Compiled(("positive",), torch.sqrt),
        "rsqrt": Compiled(("positive",), torch.rsqrt),
        "relu": Compiled(("x",), F.relu),
    },
    {
        "exp": Compiled(("x",), torch.exp),
        "log": Compiled(("positive",), torch.log),
        "tanh": Compiled(("x",), torch.tanh),
    },
    {
        "sin": Compiled(("small",), torch.sin),
        "cos": Compiled(("small",), torch.cos),
        "erf": Compiled(("x",), torch.erf),
    },
    {
        "sigmoid": Compiled(("x",), torch.sigmoid),
        "silu": Compiled(("x",), F.silu),
        "gelu": Compiled(("x",), F.gelu),
    },
    {
        "gelu_tanh": Compiled(("x",), partial(F.gelu, approximate="tanh")),
        "softmax": Compiled(("x",), partial(torch.softmax, dim=-1)),
    },
)
COMPILED_DTYPES = ("fp32", "bf16")

# For each function of a graph its tensors, the last of them for the result.
_Tensors = list[tuple[torch.Tensor, ...]]
_Call = Callable[[_Tensors], None]
_Take = Callable[[int, str], torch.Tensor]
Compile = Callable[[Callable[..., None]], Callable[..., None]]


def compiled_elements(threads: int) -> int:
    """How many elements a compiled function is measured on: two pieces for each thread, still in its cache.

    Args:
        threads: how many threads the stack uses.
    """
    return min(LARGEST, 2 * PIECE * threads)


def compiled_probes(
    data: DataSource,
    *,
    threads: int,
    budget_s: float,
    clock: Clock = monotonic_ns,
    compile_function: Compile | None = None,
) -> tuple[ProbeSet, tuple[Finding, ...]]:
    """Compiles the graphs above and returns their probes; grad mode must be off here and when they are timed.

    Args:
        data: where the arguments come from.
        threads: how many threads the stack uses.
        budget_s: how long compiling may take, seconds. A graph is left out where one like the last would not fit; the
            first, which also starts the compiler, is tried with any budget above 0.
        clock: nanoseconds.
        compile_function: what compiles; ``torch.compile`` where None.

    Returns:
        The probes, and findings: ``no-compiler`` or ``compile-failed``, and ``compile-cut-short``. What could not be
        compiled has no probe.
    """
    compile_one = compile_function or _torch_compile
    deadline_ns = clock() + int(budget_s * 1e9)
    last_ns = 0
    sets: list[ProbeSet] = []
    left: list[str] = []
    failed: list[tuple[str, Exception]] = []
    for what, build in _builders(data, threads, compile_one):
        before_ns = clock()
        if before_ns + last_ns >= deadline_ns:
            left.append(what)
            continue
        try:
            sets.append(build())
        except Exception as error:  # The compiler and its backends raise what they like, and none of it is the user's.
            failed.append((what, error))
            if lacks_compiler(error):
                break
        last_ns = clock() - before_ns
    findings = [_failure(failed)] if failed else []
    if left:
        findings.append(
            Finding(
                code="compile-cut-short",
                message=tr(
                    "Not measured with torch.compile, since compiling took too long: {left}.", left="; ".join(left)
                ),
                advice=tr("Measure again: what the compiler keeps makes the next time quicker."),
            )
        )
    probes = tuple(probe for one in sets for probe in one.probes)
    return ProbeSet(probes=probes, readings=tuple(reading for one in sets for reading in one.readings)), tuple(findings)


def _builders(data: DataSource, threads: int, compile_one: Compile) -> Iterator[tuple[str, Callable[[], ProbeSet]]]:
    """What there is to compile, in words, and what compiles it."""
    yield tr("the cost of a call"), partial(_call_probe, compile_one)
    for dtype in COMPILED_DTYPES:
        many = _tensors(data, dtype, compiled_elements(threads))
        few = _tensors(data, dtype, _FEW_ROWS * ROW)
        for functions in GRAPHS:
            yield (
                tr("{functions} in {dtype}", functions=", ".join(functions), dtype=dtype),
                partial(_graph_probes, functions, dtype, many, few, compile_one),
            )


def _call_probe(compile_one: Compile) -> ProbeSet:
    def add_one(x: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(x + 1.0)

    call = partial(compile_one(_fresh(add_one)), torch.ones(8), torch.empty(8))
    call()
    key = f"{STACK} call"
    reading = Reading(kind="overhead", name=CALL, keys=(key,), formula=seconds_of, unit="s", stack=STACK)
    return ProbeSet(probes=(Probe(key=key, call=call),), readings=(reading,))


def _graph_probes(
    functions: dict[str, Compiled], dtype: str, tensors_many: _Take, tensors_few: _Take, compile_one: Compile
) -> ProbeSet:
    """Compiles one graph and calls it in each way once, which must not make it compile anew."""
    many, few = (
        [tuple(take(place, name) for name in (*one.takes, "out")) for place, one in enumerate(functions.values())]
        for take in (tensors_many, tensors_few)
    )
    for tensors in many:
        for tensor in tensors:
            torch._dynamo.mark_dynamic(tensor, 0)
    call = compile_one(_fresh(_graph(tuple(one.apply for one in functions.values()))))
    call(many)
    nothing = f"{STACK} {next(iter(functions))}... {dtype} tiny"
    probes = [Probe(key=nothing, call=partial(call, few))]
    readings = []
    for index, name in enumerate(functions):
        mixed = [*few[:index], many[index], *few[index + 1 :]]
        key, elements = f"{STACK} {name} {dtype}", many[index][-1].numel()
        probes.append(Probe(key=key, call=partial(call, mixed)))
        readings.append(
            Reading(
                kind="function",
                name=name,
                keys=(key, nothing),
                formula=_per_element(elements - few[index][-1].numel()),
                unit="s",
                dtype=dtype,
                size_bytes=elements * DTYPES[dtype].itemsize,
                stack=STACK,
            )
        )
    with torch._dynamo.config.patch(error_on_recompile=True):
        for probe in probes:
            probe.call()
    return ProbeSet(probes=tuple(probes), readings=tuple(readings))


def _graph(functions: Sequence[Callable[..., torch.Tensor]]) -> _Call:
    def graph(calls: _Tensors) -> None:
        for function, tensors in zip(functions, calls, strict=True):
            tensors[-1].copy_(function(*tensors[:-1]))

    return graph


def _tensors(data: DataSource, dtype: str, elements: int) -> _Take:
    """Gives a tensor by its place in a graph and its name among ``Arguments``, in rows; the same one to every graph.

    Two functions of a graph get two tensors, since one that came twice would be compiled for as one.
    """
    arguments = function_arguments(data, elements, dtype)
    made: dict[tuple[int, str], torch.Tensor] = {}

    def take(place: int, name: str) -> torch.Tensor:
        if (place, name) not in made:
            made[place, name] = placed(getattr(arguments, name).view(-1, ROW), STARTS[name])
        return made[place, name]

    return take


def _fresh(function: Callable[..., None]) -> Callable[..., None]:
    """The same with a code object of its own: the compiler keeps what it made by code object, and looks through all."""
    assert isinstance(function, FunctionType)
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


def _torch_compile(function: Callable[..., None]) -> Callable[..., None]:
    # In this process: a pool of compiler processes would still be starting while the first probes are timed.
    compiled: Callable[..., None] = torch.compile(function, fullgraph=True, options={"compile_threads": 1})
    return compiled


def _per_element(elements: int) -> Formula:
    def formula(windows: Sequence[Window]) -> float | None:
        net = windows[0].seconds - windows[1].seconds
        return net / elements if net >= _LEAST_NET_SHARE * windows[1].seconds else None

    return formula


def lacks_compiler(error: Exception) -> bool:
    """Whether torch.compile failed because it found no C++ compiler."""
    return any(type(one).__name__ == "InvalidCxxCompiler" for one in _causes(error))


def _failure(failed: Sequence[tuple[str, Exception]]) -> Finding:
    """One finding for all that failed, with what was behind the last of them."""
    error = failed[-1][1]
    if lacks_compiler(error):
        return Finding(
            code="no-compiler",
            message=tr("Nothing was measured with torch.compile, since it finds no C++ compiler here."),
            advice=tr("Install g++ or clang, or name one in CXX, if you mean to use torch.compile."),
        )
    what = failed[0][0]
    if len(failed) > 1:
        what = tr("{first} and {rest} more graphs", first=what, rest=len(failed) - 1)
    return Finding(
        code="compile-failed",
        message=tr("torch.compile failed here on {what}: {cause}", what=what, cause=first_cause(error)),
        advice=tr("See whether torch.compile works here at all; remedies that use it will not."),
    )


def first_cause(error: Exception) -> str:
    """What was behind a failure of torch.compile, in one line of its own words."""
    cause = list(_causes(error))[-1]
    return str(cause).strip().partition("\n")[0] or type(cause).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, the first cause last."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = getattr(current, "inner_exception", None) or current.__cause__
