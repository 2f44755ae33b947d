"""Builds the loops in ``native_loops.c`` with the system's C compiler, once, and keeps the library in the user's cache.

What is kept depends on the source, the compiler, the flags and the processor with all its features. The library is
written whole or not at all, and is tried in a process of its own before it is loaded here: one that holds an
instruction this processor lacks, or that is damaged, ends that process and not this one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import msgspec

from boundby.machine.describe import cpu_model
from boundby.machine.store import cache_folder
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.timing.clock import monotonic_ns

SOURCE = "native_loops.c"
COMPILERS = ("cc", "gcc", "clang")
_FLAGS = ("-O3", "-ffp-contract=fast", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-w")
COMPILE_LIMIT_S = 10.0
_ASK_LIMIT_S = 2.0
_TRY_LIMIT_S = 5.0
_TRY = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).boundby_check())"


class NativeUnavailableError(Exception):
    """There is no library; ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiler:
    command: tuple[str, ...]
    version: str


def native_library(
    *,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
    source: bytes | None = None,
    limit_s: float = COMPILE_LIMIT_S,
) -> Path:
    """The shared library with the loops: the kept one, or one compiled now and kept.

    Args:
        environ: the environment: ``CC`` names the compiler to try first, ``PATH`` where they are looked for.
        folder: where it is kept; a folder beside the ceilings' in the user's cache where None.
        source: C that has an ``int boundby_check(void)`` of its own, 0 where all is well; the loops where None.
        limit_s: how long compiling may take, seconds, all compilers and flags together.

    Raises:
        NativeUnavailableError: no compiler (``no-compiler``), none that could make a library that works here, or no
            folder to keep it in (``native-failed``).
    """
    source = source or resources.files("boundby.machine").joinpath(SOURCE).read_bytes()
    folder = folder or cache_folder(environ).parent / "native"
    compilers = _compilers(environ)
    if not compilers:
        names = ", ".join(filter(None, (environ.get("CC"), *COMPILERS)))
        raise NativeUnavailableError(
            Finding(
                code="no-compiler",
                message=tr(
                    "There is no C compiler here ({names}), so the hardware was not measured without a stack.",
                    names=names,
                ),
                advice=tr(
                    "Install one (gcc or clang) or name it with CC to see what share of the hardware torch reaches."
                ),
            )
        )
    deadline_ns = monotonic_ns() + int(limit_s * 1e9)
    reasons: list[str] = []
    for compiler in compilers:
        path = folder / f"{_digest(source, compiler)}{'.dylib' if sys.platform == 'darwin' else '.so'}"
        if _trusted(path) and _tried(path) is None:
            return path
        reason = _compile(source, compiler, path, environ, deadline_ns)
        if reason is None:
            return path
        reasons.append(f"{compiler.command[0]}: {reason}")
    raise _failed(reasons[0])


def _failed(reason: str) -> NativeUnavailableError:
    message = tr(
        "The loops that measure the hardware without a stack could not be built: {reason}.", reason=reason.rstrip(".")
    )
    advice = tr("Nothing to do: the raw ceilings of the hardware are left out, all others hold.")
    return NativeUnavailableError(Finding(code="native-failed", message=message, advice=advice))


def unloadable(path: Path, error: Exception) -> NativeUnavailableError:
    """What to raise where a library that worked in a process of its own cannot be loaded in this one."""
    return _failed(tr("{path} cannot be loaded: {error}", path=path, error=error))


def _compilers(environ: Mapping[str, str]) -> list[_Compiler]:
    """The compilers that are there and say what they are, each once, the one that CC names first."""
    try:
        chosen = shlex.split(environ.get("CC", ""))
    except ValueError:
        chosen = []
    found: dict[str, _Compiler] = {}
    for command in ([chosen] if chosen else []) + [[name] for name in COMPILERS]:
        program = shutil.which(command[0], path=environ.get("PATH", os.defpath))
        if program is None:
            continue
        status, said = _run([program, *command[1:], "--version"], environ, _ASK_LIMIT_S)
        version = said.partition("\n")[0].strip()
        if status == 0 and version:
            full = (program, *command[1:])
            # cc is most often one of the others under another name.
            identity = "\0".join((os.path.realpath(program), *command[1:]))
            found.setdefault(identity, _Compiler(command=full, version=version))
    return list(found.values())


def _flag_sets() -> list[tuple[str, ...]]:
    """Flags in the order to try; without those for this very processor only where its baseline is as good (not x86)."""
    tuned: list[tuple[str, ...]] = [("-march=native",), ("-mcpu=native",)]
    return tuned if re.fullmatch(r"x86_64|amd64|i[3-6]86", platform.machine().lower()) else [*tuned, ()]


def _digest(source: bytes, compiler: _Compiler) -> str:
    key = {
        "source": hashlib.sha256(source).hexdigest(),
        "compiler": [*compiler.command, compiler.version],
        "flags": [_FLAGS, *_flag_sets()],
        "processor": [platform.system(), platform.machine(), cpu_model(), _cpu_features()],
    }
    return hashlib.sha256(msgspec.json.encode(key)).hexdigest()[:24]


def _cpu_features(root: Path = Path("/")) -> str:
    """The processor's features as Linux lists them, "" elsewhere: two virtual machines may hide different ones."""
    with contextlib.suppress(OSError):
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
        return found.group(1) if found else ""
    return ""


def _trusted(path: Path) -> bool:
    """Whether a kept library is there and is this user's own: it is code that will run in their name."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return not hasattr(os, "getuid") or status.st_uid == os.getuid()


def _compile(
    source: bytes, compiler: _Compiler, path: Path, environ: Mapping[str, str], deadline_ns: int
) -> str | None:
    """Compiles to ``path``; None, or why there is nothing there now."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
    text = fresh.with_suffix(".c")
    first: str | None = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text.write_bytes(source)
        for flags in _flag_sets():
            command = [*compiler.command, *_FLAGS, *flags, "-o", str(fresh), str(text)]
            status, said = _run(command, environ, max(0.0, (deadline_ns - monotonic_ns()) * 1e-9))
            if status is None:
                return tr("compiling took too long")
            reason = _tried(fresh) if status == 0 and fresh.exists() else _complaint(said, status)
            if reason is None:
                os.replace(fresh, path)
                return None
            first = first or reason
    except OSError as error:
        return f"{error.filename or path.parent}: {error.strerror or error}"
    finally:
        for left in (fresh, text):
            with contextlib.suppress(OSError):
                left.unlink()
    return first


def _tried(path: Path) -> str | None:
    """None where a process of its own can load the library and run its loops, else what is wrong."""
    status, said = _run([sys.executable, "-I", "-S", "-c", _TRY, str(path)], os.environ, _TRY_LIMIT_S)
    if status == 0:
        return None
    if status is None:
        return tr("what it made did not end within {limit} s", limit=f"{_TRY_LIMIT_S:g}")
    lines = said.strip().splitlines()
    if lines:
        return tr("what it made does not run here ({said})", said=lines[-1])
    return tr("what it made does not run here (status {status})", status=status)


def _complaint(said: str, status: int) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = next((line for line in lines if "error" in line), lines[0] if lines else "")
    return told or tr("it ended with status {status}", status=status)


def _run(command: Sequence[str], environ: Mapping[str, str], limit_s: float) -> tuple[int | None, str]:
    """The status and the output of a command, ended with all it started at the limit (status None then).

    Output goes through a file: a process left over that holds a pipe open would be waited for.
    """
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                env={**environ, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return 127, error.strerror or str(error)
        status: int | None = None
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # A compiler works through processes of its own.
            if status is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace")
