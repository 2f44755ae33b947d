"""Where a user's ceilings are kept: one file for each machine, torch, thread count and setting that changes them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import platformdirs

from boundby.machine.describe import cpu_model, process_affinity, relevant_environment, torch_version, usable_cores
from boundby.results.errors import BoundbyError
from boundby.results.files import write_new
from boundby.results.language import tr
from boundby.results.machine import Finding, Machine, Mode
from boundby.results.machine_file import decode_machine, encode_machine

# Raised when the probes change so that kept ceilings mean something else.
PROBES = 7


def machine_key(
    *,
    threads: int | None,
    mode: Mode = "default",
    device: str = "cpu",
    environ: Mapping[str, str] = os.environ,
    root: Path = Path("/"),
) -> dict[str, object]:
    """What kept ceilings depend on: the same key means that they may be reused.

    Args:
        threads: the thread count they are for; None for what torch takes by itself.
        mode: how thoroughly they were measured.
        device: what was measured.
        environ: the environment.
        root: where ``proc`` and ``sys`` are found.
    """
    affinity = process_affinity()
    return {
        "probes": PROBES,
        "cpu": cpu_model(root),
        "cores": usable_cores(root=root, affinity=affinity),
        "affinity": affinity,
        "torch": torch_version(),
        "threads": threads,
        "mode": mode,
        "device": device,
        "environment": relevant_environment(environ),
    }


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder ceilings are kept in: under BOUNDBY_CACHE_DIR, or the user's cache folder."""
    base = environ.get("BOUNDBY_CACHE_DIR")
    return Path(base or platformdirs.user_cache_dir("boundby")) / "machines"


def machine_path(key: Mapping[str, object], *, folder: Path | None = None) -> Path:
    """The file that ceilings with this key are kept in."""
    digest = hashlib.sha256(msgspec.json.encode(key, order="sorted")).hexdigest()
    return (folder or cache_folder()) / f"{digest[:24]}.json"


def is_writable(folder: Path) -> bool:
    """Whether files can be written there now; the folder is made where it is not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def load(key: Mapping[str, object], *, folder: Path | None = None) -> tuple[Machine | None, tuple[Finding, ...]]:
    """The kept ceilings, or None with the reason as a finding where a file is there and no good.

    Args:
        key: what they depend on, from ``machine_key``.
        folder: where to look; the cache folder where None.
    """
    path = machine_path(key, folder=folder)
    try:
        return decode_machine(path.read_bytes(), name=str(path)), ()
    except FileNotFoundError:
        return None, ()
    except (BoundbyError, OSError) as error:
        reason = (
            error.message
            if isinstance(error, BoundbyError)
            else tr("{path} cannot be read: {strerror}.", path=path, strerror=error.strerror)
        )
        return None, (
            Finding(
                code="ceilings-damaged",
                message=tr("The kept ceilings are of no use and are measured again. {reason}", reason=reason),
                advice=tr("Nothing to do, unless it happens again: then check the disk."),
            ),
        )


def save(key: Mapping[str, object], machine: Machine, *, folder: Path | None = None) -> tuple[Finding, ...]:
    """Keeps the ceilings, whole or not at all; where that fails, a finding says why.

    Args:
        key: what they depend on, from ``machine_key``.
        machine: what to keep.
        folder: where to keep it; the cache folder where None.
    """
    path = machine_path(key, folder=folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, encode_machine(machine), force=True)
    except (BoundbyError, OSError) as error:
        reason = error.message if isinstance(error, BoundbyError) else f"{path.parent}: {error.strerror}."
        return (
            Finding(
                code="ceilings-not-kept",
                message=tr(
                    "The ceilings could not be kept, so they will be measured again next time. {reason}", reason=reason
                ),
                advice=tr("Set BOUNDBY_CACHE_DIR to a folder you can write."),
            ),
        )
    return ()
