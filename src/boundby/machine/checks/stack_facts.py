"""What the checks know of torch and the libraries it brings, told by a process that loaded them. Free of torch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from boundby.machine.describe import torch_version
from boundby.results.language import tr

# Loading torch from a cold network disk can take this long; longer is a fault.
_PATIENCE_S = 60.0


def needs_torch() -> str:
    """What a check says that needs torch; the check of torch itself says why it could not be asked."""
    return tr("needs torch, which did not load")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A thread pool of a native library: what it is for (``blas``, ``openmp``), its name, threads and file."""

    purpose: str
    name: str
    threads: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """What a process that loaded torch, and numpy where it is there, says of them.

    ``accelerator`` is the kind of device besides the CPU that torch can use (``cuda``, ``mps``), None without one,
    ``build`` is torch's own text about how it was built, ``capability`` the vector instructions it chose,
    ``slow_denormals`` the op that denormal numbers slow most and ``denormal_slowdown`` how many times.
    """

    torch: str
    numpy: str | None
    debug: bool
    build: str
    capability: str
    accelerator: str | None
    threads: int
    pools: tuple[Pool, ...]
    denormals_kept: bool
    slow_denormals: str
    denormal_slowdown: float


def read_stack(environ: Mapping[str, str], *, patience_s: float = _PATIENCE_S) -> StackFacts | str:
    """Loads torch in a process of its own and asks it, with the environment and affinity that a script would have.

    Args:
        environ: the environment of that process.
        patience_s: how long to wait for it, seconds.

    Returns:
        The facts, or why there are none, as half a sentence about torch ("it did not load").
    """
    if torch_version() is None:
        return tr("there is none in this Python environment")
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    package_root = str(Path(__file__).resolve().parents[3])
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "boundby.machine.checks.stack_probe"],
            env={**environ, "PYTHONPATH": os.pathsep.join([*paths, package_root])},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return tr("loading it took over {patience_s} s", patience_s=f"{patience_s:.0f}")
    except OSError as error:
        return tr("a process to load it could not be started: {strerror}", strerror=error.strerror)
    # Libraries may print as they are loaded; the answer is the last line.
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    if done.returncode == 0 and lines:
        try:
            return msgspec.json.decode(lines[-1], type=StackFacts)
        except msgspec.DecodeError as error:
            return tr("the process that loaded it gave no proper answer: {error}", error=error)
    if done.returncode < 0:
        return tr("it did not load: its process was killed by signal {value}", value=-done.returncode)
    said = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return (
        tr("it did not load: {said}", said=said[-1])
        if said
        else tr("it did not load (status {returncode})", returncode=done.returncode)
    )
