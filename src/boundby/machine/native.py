"""Raw ceilings: what the hardware does in loops of our own, beside what the stack reaches of it (stack ``native``).

``fma`` is the FLOP/s of multiply-adds on registers alone, FLOP = 2 x multiply-add: no matrix product of that dtype
through the same registers is faster. Units apart from these (matrix units such as AMX or SME) are not in it.

``read``, ``write``, ``copy``, ``inplace`` and ``triad`` stream fp32 vectors, and for n bytes a vector count n, n, 2n,
2n and 3n bytes, as the stack's own do (``bandwidth``): memory that a store first has to fetch is not counted.
``write_nt``, ``copy_nt`` and ``triad_nt`` are the same with non-temporal stores, which go past the caches and fetch
nothing; they are measured on working sets of 4 MiB and more, and where processor and compiler have none, left out.
Small working sets are passed over several times in one call, so that the first caches are seen without its cost. Each
loop has several forms (short and long vectors, one stretch of memory or several abreast), and for each working set the
one that is the fastest here, by short tries, is measured; from 4 MiB on, where a moment's tries may mislead, the best
two, and the better one is the ceiling. Sets past ``PIECE_BYTES`` have those that the largest of them is fastest with.

Several threads work each on its own part, from one start: on torch's own OpenMP threads where they can be had, which
sit on their cores already, else on threads started for each call.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import torch

from boundby.machine.bandwidth import LARGEST_BYTES, PIECE_BYTES, STEP, working_sets
from boundby.machine.data import DataSource
from boundby.machine.native_build import NativeUnavailableError, native_library, unloadable
from boundby.machine.probe import Probe, ProbeSet, Reading, rate_of
from boundby.machine.rounds import VALUE_QUANTILE
from boundby.results.machine import Finding
from boundby.timing.clock import Clock, monotonic_ns

STACK = "native"
# Below this a working set is in a core's own caches, where going past them only costs, and one form stays the fastest.
LEAST_STREAMED_BYTES = 4 << 20
# A hundred microseconds and more a call: by the tiny twin its cost is known only when the interpreter's own data is in
# the caches, and a stream has just turned it out of them.
FMA_ITERATIONS = 10_000
_LEAST_PASS_BYTES = 16 << 20
# How many times in a row each form of a pass is tried before the better half of them is tried on, on how many bytes a
# thread at the least, and for how long all trying may take (seconds).
_TRIES = 4
_TRIED_BYTES = 4 << 20
_TRYING_S = 1.5
# No working set has more than so many times its part of what is left of that time.
_SHARES = 4
# As in ``bandwidth``: what a pass touches untimed before its next piece.
_LEAD_BYTES = 64 << 20
_ITEM = 4
_LINE = 64 // _ITEM
# Vectors start on different cache sets, and on a cache line each.
_STAGGER = 17 * _LINE
# Between the parts of two threads, where one piece is gone over again and again: the prefetchers of a core go on past
# the end of its part, into lines that another core is writing, which took up to an eighth of two cores' speed.
_APART = 2048


@dataclass(frozen=True, slots=True)
class _Stream:
    """A loop over memory: its number in ``native_loops.c``, its vectors, and the vectors' sizes that it counts."""

    operation: int
    vectors: int
    counted: int
    streaming: bool = False


_FMA = {"fp32": 0, "fp64": 1}
STREAMS = {
    "read": _Stream(2, 1, 1),
    "write": _Stream(3, 1, 1),
    "copy": _Stream(4, 2, 2),
    "inplace": _Stream(5, 1, 2),
    "triad": _Stream(6, 3, 3),
    "write_nt": _Stream(7, 1, 1, streaming=True),
    "copy_nt": _Stream(8, 2, 2, streaming=True),
    "triad_nt": _Stream(9, 3, 3, streaming=True),
}


_Vectors = tuple[torch.Tensor, ...]


class _Job(ctypes.Structure):
    """``struct job`` of ``native_loops.c``."""

    _fields_ = (
        ("operation", ctypes.c_int32),
        ("form", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("first", ctypes.c_void_p),
        ("second", ctypes.c_void_p),
        ("third", ctypes.c_void_p),
        ("elements", ctypes.c_size_t),
        ("apart", ctypes.c_size_t),
        ("repeats", ctypes.c_size_t),
        ("factor", ctypes.c_double),
        ("results", ctypes.c_void_p),
        ("parallel", ctypes.c_void_p),
        ("thread_number", ctypes.c_void_p),
        ("thread_count", ctypes.c_void_p),
    )


class NativeLoops:
    """The loops as calls without arguments; each holds on to the memory that it works on."""

    def __init__(self, path: Path, *, threads: int, team: tuple[int, int, int] | None) -> None:
        """Loads the library.

        Args:
            path: the library.
            threads: how many threads a call works on.
            team: the addresses of ``GOMP_parallel``, ``omp_get_thread_num`` and ``omp_get_num_threads`` of the OpenMP
                library whose threads are to do it; threads of our own where None.

        Raises:
            OSError: it cannot be loaded.
        """
        self._library = ctypes.CDLL(str(path))
        self._threads = threads
        self._team = team

    @property
    def has_streaming_stores(self) -> bool:
        """Whether there are loops with non-temporal stores."""
        return bool(self._library.boundby_has_streaming_stores())

    @property
    def forms(self) -> int:
        """How many forms each loop over memory has: lengths of vectors times stretches gone through abreast."""
        return int(self._library.boundby_forms())

    def fma_flops(self, dtype: str) -> int:
        """FLOP of one iteration on all threads."""
        return int(self._library.boundby_flops(_FMA[dtype])) * self._threads

    def fma(self, dtype: str, *, iterations: int) -> Callable[[], list[float]]:
        """A call that runs multiply-adds of ``dtype`` on registers; returns what each thread computed."""
        return self._call(_FMA[dtype], [torch.zeros(1)], elements=0, repeats=iterations)

    def stream(
        self,
        name: str,
        vectors: Sequence[torch.Tensor],
        *,
        form: int = 0,
        repeats: int = 1,
        factor: float = 1.0,
        apart: int = 0,
    ) -> Callable[[], list[float]]:
        """A call that passes ``repeats`` times over ``vectors``; returns what each thread summed (``read``), or zeros.

        In order: what is read or written in place; for ``copy`` source, target; for ``triad`` a, b and the target of
        a + factor x b.

        Args:
            name: one of ``STREAMS``.
            vectors: fp32 vectors of one size (elements, a multiple of 16 for each thread and what lies between their
                parts), starting at multiples of 64 bytes.
            form: which of the ``forms`` of the loop; all do the same.
            repeats: how often a call passes over them.
            factor: what is written (``write``) or multiplied by (``inplace``, ``triad``).
            apart: how many elements are left out between the parts of two threads, a multiple of 16.
        """
        elements = vectors[0].numel() - apart * (self._threads - 1)
        whole = elements > 0 and elements % (_LINE * self._threads) == 0 and apart >= 0 and apart % _LINE == 0
        if not whole or any(vector.data_ptr() % 64 for vector in vectors):
            raise ValueError(
                f"vectors start at multiples of 64 bytes and have a multiple of {_LINE * self._threads} elements, with "
                f"multiples of {_LINE} between the threads' parts; got {elements} elements, {apart} apart, at "
                f"{[vector.data_ptr() for vector in vectors]}"
            )
        return self._call(
            STREAMS[name].operation,
            vectors,
            elements=elements,
            apart=apart,
            form=form,
            repeats=repeats,
            factor=factor,
        )

    def _call(
        self,
        operation: int,
        vectors: Sequence[torch.Tensor],
        *,
        elements: int,
        apart: int = 0,
        form: int = 0,
        repeats: int,
        factor: float = 1.0,
    ) -> Callable[[], list[float]]:
        places = [vector.data_ptr() for vector in vectors]
        results = (ctypes.c_double * self._threads)()
        job = _Job(
            operation,
            form,
            self._threads,
            *(places + places[:1] * 2)[:3],
            elements,
            apart,
            repeats,
            factor,
            ctypes.addressof(results),
            *(self._team or (None, None, None)),
        )
        run, given, kept = self._library.boundby_run, ctypes.byref(job), tuple(vectors)

        def call() -> list[float]:
            if run(given):
                raise RuntimeError(f"a thread for {kept[0].numel()} elements could not be started")
            return results[:]

        return call


def native_probes(
    data: DataSource,
    *,
    threads: int,
    memory_bytes: int,
    step: int = STEP,
    largest_bytes: int = LARGEST_BYTES,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    clock: Clock = monotonic_ns,
) -> tuple[ProbeSet, tuple[Finding, ...]]:
    """The FMA peaks in fp32 and fp64 and the sweep over working sets; nothing, with a finding, without a compiler.

    Args:
        data: where the numbers come from.
        threads: how many threads work, the stack's own number.
        memory_bytes: how much memory the sweep may take.
        step: the factor between neighbouring working sets, at least 2.
        largest_bytes: where the sweep ends if memory allows.
        environ: the environment: ``CC``, ``PATH`` and ``BOUNDBY_CACHE_DIR`` are looked at.
        folder: where the compiled loops are kept; the user's cache folder where None.
        clock: nanoseconds.

    Returns:
        The probes with their readings, and findings: ``no-compiler``, ``native-failed``, or none. Compiling takes
        about a second the first time, and never over 10.
    """
    try:
        path = native_library(environ=environ, folder=folder)
        try:
            loops = NativeLoops(path, threads=threads, team=torch_team() if threads > 1 else None)
        except OSError as error:
            raise unloadable(path, error) from error
    except NativeUnavailableError as unavailable:
        return ProbeSet(), (unavailable.finding,)
    probes: list[Probe] = []
    readings: list[Reading] = []
    for dtype in _FMA:
        keys = (f"native fma {dtype}", f"native fma {dtype} tiny")
        probes.append(Probe(key=keys[0], call=loops.fma(dtype, iterations=FMA_ITERATIONS)))
        probes.append(Probe(key=keys[1], call=loops.fma(dtype, iterations=1)))
        work = loops.fma_flops(dtype) * (FMA_ITERATIONS - 1)
        readings.append(
            Reading(
                kind="matmul", name="fma", keys=keys, formula=rate_of(work), unit="flop/s", dtype=dtype, stack=STACK
            )
        )
    kinds = {name: one for name, one in STREAMS.items() if loops.has_streaming_stores or not one.streaming}
    sweep = _sweep(
        loops,
        data,
        kinds,
        threads=threads,
        sizes=working_sets(memory_bytes, step=step, largest_bytes=largest_bytes),
        clock=clock,
    )
    return (
        ProbeSet(probes=(*probes, *sweep.probes), readings=(*readings, *sweep.readings)),
        (),
    )


def torch_team() -> tuple[int, int, int] | None:
    """The functions that run something on torch's own OpenMP threads, as ``NativeLoops`` takes them.

    None where torch has none, or they are not to be found through it (macOS). On Linux every OpenMP library has them:
    GCC's by nature, Intel's and LLVM's to serve code that GCC compiled.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        # Loaded already; a symbol is looked for in it and then in what it depends on.
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        functions = (library.GOMP_parallel, library.omp_get_thread_num, library.omp_get_num_threads)
    except (OSError, AttributeError):
        return None
    first, second, third = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in functions)
    return first, second, third


def _sweep(
    loops: NativeLoops,
    data: DataSource,
    kinds: Mapping[str, _Stream],
    *,
    threads: int,
    sizes: Sequence[int],
    clock: Clock,
) -> ProbeSet:
    unit, between = _LINE * threads, _APART * (threads - 1)
    # Hardly more than the stack's own sweep takes, so that they can share it.
    buffer = _aligned(data, max(sizes[-1] // _ITEM, 3 * unit) + 3 * between + 4 * _STAGGER)
    end_ns, sets_left = clock() + int(_TRYING_S * 1e9), len(kinds) * len(sizes)
    probes: list[Probe] = []
    readings: list[Reading] = []
    for name, stream in kinds.items():
        tiny = f"native {name} tiny"
        tiny_vectors = _parts(buffer, unit + between, stream.vectors)
        probes.append(Probe(key=tiny, call=loops.stream(name, tiny_vectors, apart=_APART)))
        far_forms: Sequence[int] = ()
        for size in reversed(sizes):
            # Sets past the caches take some times as long to try as the others; however slow they are, time is left.
            now_ns = clock()
            deadline_ns = min(end_ns, now_ns + int(_SHARES * max(0, end_ns - now_ns) / sets_left))
            sets_left -= 1
            pieces = max(1, size // (PIECE_BYTES * max(1, threads // 2)))
            elements = size // (_ITEM * stream.vectors * pieces) // unit * unit
            if elements == 0 or (stream.streaming and size < LEAST_STREAMED_BYTES):
                continue
            apart = _APART if pieces == 1 else 0
            vectors = _parts(buffer, elements * pieces + apart * (threads - 1), stream.vectors)
            each = list(zip(*(vector.split(vector.numel() // pieces) for vector in vectors), strict=True))
            forms = far_forms if pieces > 1 else ()
            if not forms:
                tried = max(1, _TRIED_BYTES * threads // size)
                choice = [
                    _calls(loops, name, each, form=number, repeats=tried, apart=apart) for number in range(loops.forms)
                ]
                count = 2 if size >= LEAST_STREAMED_BYTES else 1
                forms = fastest_forms(choice, clock, deadline_ns, count=count)
            if pieces > 1:
                # One choice for all that goes by pieces: it was made on the largest.
                far_forms = forms
            repeats = max(1, _LEAST_PASS_BYTES * threads // size)
            keys = [f"native {name} {size} form {form}" for form in forms]
            for key, form in zip(keys, forms, strict=True):
                calls = _calls(loops, name, each, form=form, repeats=repeats, apart=apart)
                probes.append(_pass(key, calls, piece_bytes=size // pieces))
            readings.append(
                Reading(
                    kind="bandwidth",
                    name=name,
                    keys=(keys[0], tiny),
                    other_ways=tuple(keys[1:]),
                    formula=rate_of(stream.counted * elements * _ITEM * repeats),
                    unit="byte/s",
                    dtype="fp32",
                    size_bytes=size,
                    stack=STACK,
                )
            )
    return ProbeSet(probes=tuple(probes), readings=tuple(readings))


def _calls(
    loops: NativeLoops, name: str, each: Sequence[_Vectors], *, form: int, repeats: int, apart: int
) -> list[Callable[[], object]]:
    return [loops.stream(name, piece, form=form, repeats=repeats, apart=apart) for piece in each]


def fastest_forms(
    forms: Sequence[Sequence[Callable[[], object]]], clock: Clock, deadline_ns: int, *, count: int = 1
) -> list[int]:
    """Of the forms of a pass, each with a call for every piece, the numbers of the fastest, the best first.

    They take turns of several calls, each on the next piece, the first of them untimed, which may find in a cache what
    another form has left there. The better half is tried on until ``count`` are left. Each is judged, as ceilings are,
    by a low quantile of all its tries; of the few at first that is the fastest.

    Args:
        forms: the calls.
        clock: nanoseconds.
        deadline_ns: when to stop trying, by ``clock``; the best so far are taken then, or one in the middle.
        count: how many are wanted.
    """
    pieces = cycle(range(len(forms[0])))
    taken: list[list[int]] = [[] for _ in forms]

    def typical_ns(number: int) -> float:
        tries = sorted(taken[number])
        return tries[int(VALUE_QUANTILE * len(tries))] if tries else math.inf

    left = list(range(len(forms)))
    while len(left) > count:
        for number in left:
            for turn in range(_TRIES + 1):
                before = clock()
                if before >= deadline_ns:
                    known = sorted((one for one in left if taken[one]), key=typical_ns)
                    return known[:count] or [len(forms) // 2]
                forms[number][next(pieces)]()
                if turn > 0:
                    taken[number].append(clock() - before)
        left = sorted(left, key=typical_ns)[: max(count, (len(left) + 1) // 2)]
    return sorted(left, key=typical_ns)


def _pass(key: str, calls: Sequence[Callable[[], object]], *, piece_bytes: int) -> Probe:
    """A pass over memory, one piece a call; each visit starts with pieces that are not timed.

    Probes share a buffer, and what the one before left in the last cache is none of this one's.
    """
    if len(calls) == 1:
        return Probe(key=key, call=calls[0])
    turns: Iterator[Callable[[], object]] = cycle(calls)
    lead = min(len(calls), -(-_LEAD_BYTES // piece_bytes))

    def call() -> None:
        next(turns)()

    def prepare() -> None:
        for _ in range(lead):
            call()

    return Probe(key=key, call=call, prepare=prepare)


def _aligned(data: DataSource, elements: int) -> torch.Tensor:
    """A vector of so many numbers, less up to 15, that starts at a multiple of 64 bytes."""
    whole = data.large(elements)
    return whole[-whole.data_ptr() // _ITEM % _LINE :]


def _parts(buffer: torch.Tensor, elements: int, vectors: int) -> list[torch.Tensor]:
    return [buffer[start : start + elements] for start in (index * (elements + _STAGGER) for index in range(vectors))]
