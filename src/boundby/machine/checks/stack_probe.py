"""The process that asks torch: ``python -m boundby.machine.checks.stack_probe``. Its last line is the facts as JSON."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

import msgspec
import torch
from threadpoolctl import threadpool_info

from boundby.machine.checks.stack_facts import Pool, StackFacts
from boundby.timing.clock import monotonic_ns
from boundby.timing.one_thread import in_one_thread

# 16 KiB of fp32: small enough for a first-level cache, large enough for a call's overhead not to hide the difference.
_ELEMENTS = 4096
_REPEATS = 50
_DENORMAL = 1e-40


def main() -> int:
    """Prints the facts; returns the exit status."""
    numpy = _numpy_version()
    threads = torch.get_num_threads()
    # A second thread that waits for a busy core would hide what denormal numbers cost.
    with in_one_thread():
        slow_op, slowdown = _denormal_slowdown()
    facts = StackFacts(
        torch=str(torch.__version__),
        numpy=numpy,
        debug=bool(torch.version.debug),
        build=torch.__config__.show(),
        capability=torch.backends.cpu.get_cpu_capability(),
        accelerator=_accelerator(),
        threads=threads,
        pools=tuple(
            Pool(
                purpose=pool["user_api"],
                name=pool["prefix"] or pool["internal_api"],
                threads=pool["num_threads"],
                path=pool["filepath"],
            )
            for pool in threadpool_info()
        ),
        denormals_kept=bool((torch.full((16,), _DENORMAL) * 1.0 != 0).all()),
        slow_denormals=slow_op,
        denormal_slowdown=slowdown,
    )
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(facts) + b"\n")
    return 0


def _numpy_version() -> str | None:
    try:
        return str(importlib.import_module("numpy").__version__)
    except ImportError:
        return None


def _accelerator() -> str | None:
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return None if device is None else device.type


def _denormal_slowdown() -> tuple[str, float]:
    """The op that denormal numbers slow most, and how many times, by the quickest of some calls."""
    plain = torch.full((_ELEMENTS,), 0.5)
    tiny = torch.full((_ELEMENTS,), _DENORMAL)
    # exp(-95) is 5.5e-42: an ordinary input whose result is denormal.
    falling = torch.full((_ELEMENTS,), -95.0)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "mul": (lambda: plain * plain, lambda: tiny * plain),
        "sqrt": (plain.sqrt, tiny.sqrt),
        "exp": (plain.exp, falling.exp),
    }
    ratios = {name: _quickest_ns(slow) / _quickest_ns(usual) for name, (usual, slow) in pairs.items()}
    worst = max(ratios, key=lambda name: ratios[name])
    return worst, ratios[worst]


def _quickest_ns(call: Callable[[], object]) -> int:
    times = []
    for _ in range(_REPEATS):
        begin = monotonic_ns()
        call()
        times.append(monotonic_ns() - begin)
    return max(1, min(times))


if __name__ == "__main__":
    sys.exit(main())
