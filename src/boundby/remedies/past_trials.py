"""The user's own past trials on this machine, kept so that predictions can be judged by them.

One JSON object a line: which remedy, what was predicted, what was measured, when, with which versions. Neither the
script nor anything of it is kept. A line is written whole under a lock that all processes share, the file stays below
``MOST_BYTES``, and lines that are no good are passed over. ``BOUNDBY_KEEP_TRIALS=0`` keeps nothing.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec
import platformdirs

from boundby._version import __version__
from boundby.machine.describe import cpu_model, process_affinity, torch_version, usable_cores
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.remedy import PastTrials, Remedy

VERSION = 1
# Some 1,500 trials. Once it is full, the newer half stays.
MOST_BYTES = 400_000
OFF = "0"

if sys.platform == "win32":

    def _lock(file: IO[bytes]) -> None:
        """A line is appended whole; that is all that this system has for files which others may replace."""

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        """Wait until the file is this process's alone; closing it gives it back."""
        fcntl.flock(file, fcntl.LOCK_EX)


class KeptTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the file: speed-ups as (value, low, high)."""

    version: int
    at: str
    remedy: str
    predicted: tuple[float, float, float]
    measured: tuple[float, float, float]
    boundby: str
    torch: str | None

    @property
    def held(self) -> bool:
        """Whether the measured speed-up lies in the predicted interval."""
        return self.predicted[1] <= self.measured[0] <= self.predicted[2]


def trials_path(environ: Mapping[str, str] = os.environ, *, root: Path = Path("/")) -> Path:
    """The file of this machine's trials: under BOUNDBY_CACHE_DIR, or in the user's data folder.

    Args:
        environ: the environment.
        root: where ``proc`` and ``sys`` are found.
    """
    key = {"cpu": cpu_model(root), "cores": usable_cores(root=root, affinity=process_affinity())}
    digest = hashlib.sha256(msgspec.json.encode(key, order="sorted")).hexdigest()
    base = environ.get("BOUNDBY_CACHE_DIR") or platformdirs.user_data_dir("boundby")
    return Path(base) / "trials" / f"{digest[:24]}.jsonl"


def keep_trials(
    remedies: Sequence[Remedy], *, path: Path | None = None, environ: Mapping[str, str] = os.environ
) -> tuple[Finding, ...]:
    """Adds those of the remedies whose predictions were put to the test; where that fails, a finding says why.

    Args:
        remedies: as tried; those without a prediction, or that did not take place, say nothing of predictions.
        path: the file; this machine's where None.
        environ: the environment.
    """
    told = [one for one in remedies if one.held is not None]
    if not told or environ.get("BOUNDBY_KEEP_TRIALS") == OFF:
        return ()
    path = path or trials_path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path) as file:
            file.seek(0, os.SEEK_END)
            file.write(b"".join(_line(one) for one in told))
            file.flush()
            if file.tell() > MOST_BYTES:
                _shorten(path, file)
    except OSError as error:
        return (
            Finding(
                code="trials-not-kept",
                message=tr(
                    "What these trials say of predictions could not be kept: {folder}: {reason}.",
                    folder=path.parent,
                    reason=error.strerror,
                ),
                advice=tr("Set BOUNDBY_CACHE_DIR to a folder you can write, or BOUNDBY_KEEP_TRIALS=0 to keep none."),
            ),
        )
    return ()


def past_trials(*, path: Path | None = None, environ: Mapping[str, str] = os.environ) -> PastTrials | None:
    """How often predictions held in this machine's kept trials; None where none are kept, or can be read.

    Args:
        path: the file; this machine's where None.
        environ: the environment.
    """
    if environ.get("BOUNDBY_KEEP_TRIALS") == OFF:
        return None
    try:
        data = (path or trials_path(environ)).read_bytes()
    except OSError:  # nothing kept yet, or not for this user to read
        return None
    known = list(_readable(data))
    return PastTrials(trials=len(known), held=sum(one.held for one in known)) if known else None


def _readable(data: bytes) -> Iterator[KeptTrial]:
    """The lines that are good: neither cut short, nor of another version, nor with numbers that are none."""
    for line in data.splitlines():
        with suppress(msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
            one = msgspec.json.decode(line, type=KeptTrial)
            if one.version == VERSION and all(map(math.isfinite, (*one.predicted, *one.measured))):
                yield one


def _line(remedy: Remedy) -> bytes:
    predicted, measured = remedy.predicted, remedy.measured
    assert predicted is not None
    assert measured is not None
    kept = KeptTrial(
        version=VERSION,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        remedy=remedy.name,
        predicted=(predicted.speedup, predicted.low, predicted.high),
        measured=(measured.speedup, measured.low, measured.high),
        boundby=__version__,
        torch=torch_version(),
    )
    # A line that a crash cut short ends here, and costs itself alone.
    return b"\n" + msgspec.json.encode(kept)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """The file, open for reading and appending, and this process's alone.

    Another process may have put a shorter file in its place between opening and locking: then it is opened anew.
    """
    while True:
        with path.open("a+b") as file:
            _lock(file)
            try:
                same = os.fstat(file.fileno()).st_ino == path.stat().st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield file
                return


def _shorten(path: Path, file: IO[bytes]) -> None:
    """Put the newer half in the file's place, whole or not at all; readers need no lock for it."""
    file.seek(-MOST_BYTES // 2, os.SEEK_END)
    _, _, newer = file.read().partition(b"\n")
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        beside.write_bytes(newer)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
