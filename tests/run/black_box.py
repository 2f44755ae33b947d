"""Runs scripts under plain Python and under `boundby run`, each in a process of its own, and keeps what came out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
QUICK = ("--warmup", "2", "--steps", "5", "--watch", "4")
"""Options that make twelve or so steps enough."""

LIMIT_S = 240.0
"""Only a process that hangs meets this limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a process ended and what it wrote. ``report`` is the file named by ``-o``, where there is one."""

    status: int
    stdout: bytes
    stderr: str
    report: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return self.stdout.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same script under plain Python and under boundby."""

    plain: Outcome
    watched: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Starts processes in an environment whose ceilings are kept in one folder for the whole test session."""

    cache: Path
    scratch: Path

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("BOUNDBY_", "PYTEST_", "COLUMNS"))
        }
        return {
            **kept,
            "BOUNDBY_CACHE_DIR": str(self.cache),
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(self.scratch / "inductor"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONHASHSEED": "0",
            **extra,
        }

    def execute(
        self,
        command: Sequence[str],
        *,
        cwd: Path = SCRIPTS,
        stdin: bytes = b"",
        environment: dict[str, str] | None = None,
        report: Path | None = None,
    ) -> Outcome:
        """Run ``python command...`` to its end."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=cwd,
            input=stdin,
            env=environment or self.environment(),
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        found = json.loads(report.read_text()) if report is not None and report.exists() else None
        return Outcome(status=done.returncode, stdout=done.stdout, stderr=done.stderr.decode(), report=found)

    def plain(self, *command: str, cwd: Path = SCRIPTS, stdin: bytes = b"") -> Outcome:
        return self.execute(command, cwd=cwd, stdin=stdin)

    def boundby(
        self, *command: str, cwd: Path = SCRIPTS, stdin: bytes = b"", environment: dict[str, str] | None = None
    ) -> Outcome:
        """Run ``boundby command...`` as it is."""
        return self.execute(("-m", "boundby", *command), cwd=cwd, stdin=stdin, environment=environment)

    def watched(
        self,
        *command: str,
        options: Sequence[str] = QUICK,
        cwd: Path = SCRIPTS,
        stdin: bytes = b"",
        name: str = "report",
    ) -> Outcome:
        """Run ``boundby run -o FILE options... command...``; the report is read from the file."""
        folder = self.scratch / f"{name}.{os.getpid()}.{abs(hash((command, tuple(options), str(cwd))))}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "report.json"
        file.unlink(missing_ok=True)
        return self.execute(
            ("-m", "boundby", "run", *options, "-o", str(file), *command), cwd=cwd, stdin=stdin, report=file
        )

    def pair(self, *command: str, options: Sequence[str] = QUICK, cwd: Path = SCRIPTS, stdin: bytes = b"") -> Pair:
        """Both ways side by side."""
        with ThreadPoolExecutor(2) as pool:
            plain = pool.submit(self.plain, *command, cwd=cwd, stdin=stdin)
            watched = pool.submit(self.watched, *command, options=options, cwd=cwd, stdin=stdin)
            return Pair(plain=plain.result(), watched=watched.result())


def same_behaviour(pair: Pair) -> None:
    """Assert equal standard output and exit status."""
    assert pair.plain.text == pair.watched.text, pair.watched.stderr
    assert pair.plain.status == pair.watched.status, pair.watched.stderr


def checked(report: dict[str, Any] | None) -> dict[str, Any]:
    """The report, after asserting that there is one and that it agrees with itself."""
    assert report is not None, "no report was written"
    assert (report["schema"], report["version"]) == ("boundby.report", 1)
    shares = [report["split"][name] for name in ("overhead", "memory", "matmul", "pointwise", "input", "unexplained")]
    assert abs(sum(share["value"] for share in shares) - 1) < 1e-6
    assert all(share["low"] <= share["value"] <= share["high"] for share in shares)
    parts = report["overhead_parts"]
    assert abs(sum(parts.values()) - report["split"]["overhead"]["value"]) < 1e-6
    return report


def words(text: str) -> str:
    """Text without its line breaks, for messages that a narrow terminal wraps."""
    return " ".join(text.split())
