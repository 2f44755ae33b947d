"""Checks of Python, torch and what surrounds them: debug builds, switches, preloaded libraries, the compiler."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable

from boundby.machine.checks.stack_facts import needs_torch
from boundby.machine.checks.surroundings import Surroundings
from boundby.machine.checks.wording import joined
from boundby.results.doctor import Diagnosis, fine, problem, unread
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.units import format_ratio

# From here on, denormal numbers can be what makes a step slow.
_SLOW_DENORMALS = 3.0


def _is_set(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "off", "no", "none")


def _any(value: str) -> bool:
    return value.strip() != ""


def _is_off(value: str) -> bool:
    return value.strip().lower() in ("0", "false", "off", "no")


def _slow_malloc(value: str) -> bool:
    return "debug" in value or value.strip() == "malloc"


def _switches() -> dict[str, tuple[Callable[[str], bool], str]]:
    """Variables left over from a search for a fault, with what makes them active and what they do to times."""
    return {
        "CUDA_LAUNCH_BLOCKING": (_is_set, tr("each kernel is waited for, so that launches cost their whole time")),
        "PYTORCH_NO_CUDA_MEMORY_CACHING": (_is_set, tr("each tensor on a GPU is allocated by the driver")),
        "PYTORCH_NO_HIP_MEMORY_CACHING": (_is_set, tr("each tensor on a GPU is allocated by the driver")),
        "PYTORCH_ENABLE_MPS_FALLBACK": (_is_set, tr("ops that the GPU lacks run on the CPU, unseen")),
        "TORCH_USE_CUDA_DSA": (_is_set, tr("kernels check themselves")),
        "TORCH_DISTRIBUTED_DEBUG": (
            lambda value: value.strip().upper() in ("INFO", "DETAIL"),
            tr("collectives check and log"),
        ),
        "TORCH_LOGS": (_any, tr("torch.compile writes logs")),
        "TORCH_TRACE": (_any, tr("torch.compile writes traces")),
        "TORCH_COMPILE_DEBUG": (_is_set, tr("torch.compile writes everything it makes")),
        "TORCH_COMPILE_DISABLE": (_is_set, tr("torch.compile does nothing")),
        "TORCHDYNAMO_DISABLE": (_is_set, tr("torch.compile does nothing")),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": (_is_set, tr("torch.compile starts from nothing each time")),
        "PYTORCH_JIT": (_is_off, tr("TorchScript runs as Python")),
        "ONEDNN_VERBOSE": (_is_set, tr("a line is printed for each product or convolution")),
        "DNNL_VERBOSE": (_is_set, tr("a line is printed for each product or convolution")),
        "MKL_VERBOSE": (_is_set, tr("a line is printed for each product")),
        "MALLOC_CHECK_": (_is_set, tr("the allocator checks itself")),
        "MALLOC_PERTURB_": (_is_set, tr("fresh memory is written over")),
        "PYTHONMALLOC": (_slow_malloc, tr("Python's own allocator is checked or left out")),
        "PYTHONTRACEMALLOC": (_is_set, tr("each of Python's allocations is recorded")),
        "PYTHONASYNCIODEBUG": (_is_set, tr("asyncio checks itself")),
        "PYTHONPROFILEIMPORTTIME": (_is_set, tr("imports are timed and printed")),
        "COVERAGE_PROCESS_START": (_any, tr("each line of Python is counted")),
    }


# Variables that keep libraries from the instructions this processor has.
_LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
# What torch calls its sets of kernels, with the flags in /proc/cpuinfo that they need, the fastest first.
_INSTRUCTIONS = (
    ("AVX512", frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"})),
    ("AVX2", frozenset({"avx2", "fma"})),
)
_PLAIN = ("DEFAULT", "NO AVX")
_SANITIZERS = ("libasan", "libtsan", "libubsan", "libmsan", "liblsan", "clang_rt.", "valgrind", "libefence", "libduma")
_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc", "tbbmalloc")


def check_python(here: Surroundings) -> Diagnosis:
    """Whether this Python was built, or started, to check itself."""
    name = "Python"
    found = []
    if here.interpreter.debug_build:
        found.append(tr("is a debug build"))
    if here.interpreter.unoptimized:
        found.append(tr("was compiled without optimisation"))
    if here.interpreter.dev_mode:
        found.append(tr("runs in development mode (-X dev)"))
    if not found:
        return fine(name, tr("a release build"))
    return problem(
        name,
        Finding(
            code="python-debug",
            message=tr("This Python {found}.", found=joined(found)),
            advice=tr("Use a release build of Python, without -X dev and PYTHONDEVMODE."),
        ),
        tr("Python itself is several times slower, which looks like overhead of ops."),
    )


def check_torch_build(here: Surroundings) -> Diagnosis:
    """Whether torch was built for debugging."""
    name = "torch"
    if isinstance(here.stack, str):
        return unread(name, here.stack)
    kind = re.search(r"\bBUILD_TYPE=(\w+)", here.stack.build)
    flags = re.search(r"\bCXX_FLAGS=([^,]*)", here.stack.build)
    # The last level that a compiler is given holds.
    levels = re.findall(r"(?:^|\s)-O(\S*)", flags.group(1) if flags else "")
    found = []
    if here.stack.debug or (kind is not None and kind.group(1).lower() == "debug"):
        found.append(tr("is a debug build"))
    if (levels and levels[-1] == "0") or (kind is not None and kind.group(1) == "None" and not levels):
        found.append(tr("was compiled without optimisation"))
    if flags is not None and "-fsanitize" in flags.group(1):
        found.append(tr("was compiled with a sanitizer"))
    if not found:
        return fine(
            name,
            tr("{version}, {kind} build", version=here.stack.torch, kind=kind.group(1))
            if kind
            else tr("{version}, not a debug build", version=here.stack.torch),
        )
    return problem(
        name,
        Finding(
            code="torch-debug",
            message=tr("torch {version} {found}.", version=here.stack.torch, found=joined(found)),
            advice=tr("Install a release build: pip install --force-reinstall torch"),
        ),
        tr(
            "Dispatching an op and its own kernels are several times slower, and the libraries it calls are "
            "not: overhead looks larger than it is."
        ),
    )


def check_accelerator(here: Surroundings) -> Diagnosis:
    """Whether there is a device whose state is not looked at."""
    name = tr("accelerator")
    if isinstance(here.stack, str):
        return unread(name, needs_torch())
    if here.stack.accelerator is None:
        return fine(name, tr("torch sees none"))
    told = tr(
        "torch can use {accelerator}; its clocks and other users are not looked at", accelerator=here.stack.accelerator
    )
    if here.stack.accelerator == "cuda":
        told = tr("{told}: {command} tells", told=told, command="nvidia-smi -q -d PERFORMANCE,CLOCK")
    return unread(name, told)


def check_instructions(here: Surroundings) -> Diagnosis:
    """Whether torch and its libraries may use the vector instructions this processor has."""
    limits = [variable for variable in _LIMITS if here.environ.get(variable, "").strip()]
    chosen = "" if isinstance(here.stack, str) else here.stack.capability.upper()
    line = re.search(r"^flags.*$", here.read("proc/cpuinfo") or "", re.MULTILINE)
    flags = set(line.group().split()) if line else set()
    best = next((name for name, needed in _INSTRUCTIONS if needed <= flags), None)
    known = (*(name for name, _ in _INSTRUCTIONS), *_PLAIN)
    lower = best is not None and chosen in known and known.index(chosen) > known.index(best)
    if limits or lower:
        told = joined([f"{variable}={here.environ[variable].strip()}" for variable in limits]) if limits else ""
        seen = (
            tr("torch uses {chosen} kernels where this processor has {best}", chosen=chosen, best=best) if lower else ""
        )
        return problem(
            tr("instructions"),
            Finding(
                code="instructions-limited",
                message=tr(
                    "Vector instructions are held back: {what}.",
                    what=f"{seen} ({told})" if seen and told else seen or told,
                ),
                advice=f"unset {' '.join(limits)}" if limits else tr("Use a torch that was built for this processor."),
            ),
            tr(
                "Matrix products and functions reach a fraction of this processor's rate, so that a step looks "
                "bound by compute."
            ),
        )
    if isinstance(here.stack, str):
        return unread(tr("instructions"), needs_torch())
    return fine(
        tr("instructions"),
        tr("torch uses {capability}", capability=here.stack.capability)
        if best is None
        else tr("torch uses {capability}, the best this processor has", capability=here.stack.capability),
    )


def check_switches(here: Surroundings) -> Diagnosis:
    """Whether environment variables for debugging are set."""
    name = tr("debug variables")
    switches = _switches()
    found = [known for known, (active, _) in switches.items() if active(here.environ.get(known, ""))]
    if not found:
        return fine(name, tr("none set"))
    effects = list(dict.fromkeys(f"{known}: {switches[known][1]}" for known in found))
    return problem(
        name,
        Finding(
            code="debug-variables",
            message=tr(
                "Set for debugging: {found}.", found=", ".join(f"{known}={here.environ[known]}" for known in found)
            ),
            advice=f"unset {' '.join(found)}",
        ),
        f"{'; '.join(effects)}.",
    )


def check_preloaded(here: Surroundings) -> Diagnosis:
    """Whether libraries are loaded before all others."""
    name = tr("preloaded")
    variable = "DYLD_INSERT_LIBRARIES" if sys.platform == "darwin" else "LD_PRELOAD"
    listed = f"{here.environ.get(variable, '')} {here.read('etc/ld.so.preload') or ''}"
    libraries = [text for text in re.split(r"[\s:]+", listed) if text]
    checking = [text for text in libraries if any(known in text for known in _SANITIZERS)]
    if checking:
        return problem(
            name,
            Finding(
                code="checks-preloaded",
                message=tr(
                    "A library that checks every use of memory is loaded first: {checking}.",
                    checking=", ".join(checking),
                ),
                advice=tr("Unset {variable}.", variable=variable)
                if here.environ.get(variable)
                else tr("Take it out of /etc/ld.so.preload."),
            ),
            tr("Allocation and much else is several times slower."),
        )
    if not libraries:
        return fine(name, tr("no library"))
    allocators = [text for text in libraries if any(known in text for known in _ALLOCATORS)]
    others = [text for text in libraries if text not in allocators]
    if others:
        return unread(name, tr("{others}: what it does to times is not known", others=", ".join(others)))
    return fine(name, tr("an allocator, {allocators}: results hold with it only", allocators=", ".join(allocators)))


def check_tracer(here: Surroundings) -> Diagnosis:
    """Whether a debugger or tracer holds this process."""
    name = tr("tracer")
    found = re.search(r"^TracerPid:\s*(\d+)", here.read("proc/self/status") or "", re.MULTILINE)
    if found is None:
        return unread(name, tr("/proc/self/status could not be read"))
    if found.group(1) == "0":
        return fine(name, tr("none"))
    tracer = here.read(f"proc/{found.group(1)}/comm") or tr("a process")
    return problem(
        name,
        Finding(
            code="traced",
            message=tr("This process is traced by {tracer} (pid {pid}).", tracer=tracer, pid=found.group(1)),
            advice=tr("Start it without strace, gdb or the like."),
        ),
        tr(
            "Each call of the system stops the process: allocation, page faults and the start of threads "
            "look far slower."
        ),
    )


def check_denormals(here: Surroundings) -> Diagnosis:
    """Whether numbers near zero are flushed, and what they cost where they are not."""
    name = tr("denormals")
    if isinstance(here.stack, str):
        return unread(name, needs_torch())
    if not here.stack.denormals_kept:
        return problem(
            name,
            Finding(
                code="denormals-flushed",
                message=tr("Numbers closer to zero than 1e-38 are flushed to zero, though no script has asked for it."),
                advice=tr(
                    "Look for a library built with -ffast-math that torch or numpy loads, or for a sitecustomize."
                ),
            ),
            tr(
                "Results differ from those of other machines, and code that meets such numbers is faster here "
                "than there."
            ),
        )
    ratio = here.stack.denormal_slowdown
    if ratio < _SLOW_DENORMALS:
        return fine(name, tr("kept, as is usual; ops on them take at most {ratio} the time", ratio=format_ratio(ratio)))
    return fine(
        name,
        tr(
            "kept, as is usual; {slow_denormals} takes {ratio} the time for them",
            slow_denormals=here.stack.slow_denormals,
            ratio=format_ratio(ratio),
        ),
    )


def check_compiler(here: Surroundings) -> Diagnosis:
    """Whether torch.compile finds what it needs to build kernels for the CPU."""
    name = tr("compiler")
    usual = "clang++" if sys.platform == "darwin" else "g++"
    asked = here.environ.get("CXX", "").strip() or usual
    path = here.environ.get("PATH", "")
    if shutil.which(asked, path=path) is None:
        other = next((text for text in ("g++", "clang++", "c++") if shutil.which(text, path=path)), None)
        return problem(
            name,
            Finding(
                code="no-compiler",
                message=tr("There is no C++ compiler {asked} on PATH, but there is {other}.", asked=asked, other=other)
                if other
                else tr("There is no C++ compiler {asked} on PATH.", asked=asked),
                advice=tr("Set CXX={other}.", other=other)
                if other
                else tr("Install one, for example: sudo apt install g++"),
            ),
            tr("torch.compile fails on the CPU, so what fusion would bring cannot be tried."),
        )
    if here.interpreter.headers is False:
        return problem(
            name,
            Finding(
                code="no-python-headers",
                message=tr("There is a C++ compiler ({asked}), but not Python's header Python.h.", asked=asked),
                advice=tr("Install the development files of this Python, for example: sudo apt install python3-dev"),
            ),
            tr("torch.compile fails on the CPU, so what fusion would bring cannot be tried."),
        )
    if here.interpreter.headers is None:
        return unread(name, tr("there is {asked}; whether Python's headers are there is not known", asked=asked))
    return fine(name, tr("{asked}, and Python's headers are there", asked=asked))
