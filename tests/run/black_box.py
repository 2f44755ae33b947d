"""Runs scripts under plain Python and under `boundby run`, each in a process of its own, and keeps what came out."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
_PRELOADED = Path(__file__).parent / "preloaded.py"
QUICK = ("--warmup", "2", "--steps", "5", "--watch", "4")
"""Options that make twelve or so steps enough."""

LIMIT_S = 600.0
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
    servers: queue.Queue[subprocess.Popen[bytes]] = field(default_factory=queue.Queue)

    def start_servers(self) -> list[subprocess.Popen[bytes]]:
        """Start one process per core that imports torch once and then forks for each run; the caller ends them."""
        started = [
            subprocess.Popen(
                [sys.executable, str(_PRELOADED)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self.environment(),
                start_new_session=True,
            )
            for _ in range(os.cpu_count() or 1)
        ]
        for server in started:
            self.servers.put(server)
        return started

    @contextmanager
    def server(self) -> Iterator[subprocess.Popen[bytes]]:
        """A server that is free, for as long as the block lasts."""
        server = self.servers.get()
        try:
            yield server
        finally:
            self.servers.put(server)

    def forked(self, arguments: Sequence[str], *, cwd: Path, folder: Path, report: Path) -> Outcome:
        """Run ``boundby arguments...`` where torch is imported already."""
        files = {name: str(folder / name) for name in ("stdout", "stderr")}
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd), **files}).encode() + b"\n"
        with self.server() as server:
            assert server.stdin is not None
            assert server.stdout is not None
            watchdog = threading.Timer(LIMIT_S, os.killpg, (server.pid, signal.SIGKILL))
            watchdog.start()
            try:
                server.stdin.write(request)
                server.stdin.flush()
                status = int(server.stdout.readline())
            finally:
                watchdog.cancel()
        return Outcome(
            status=status,
            stdout=Path(files["stdout"]).read_bytes(),
            stderr=Path(files["stderr"]).read_text(),
            report=json.loads(report.read_text()) if report.exists() else None,
        )

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
        fresh: bool = False,
    ) -> Outcome:
        """Run ``boundby run -o FILE options... command...``; the report is read from the file.

        Args:
            fresh: start a new interpreter, as a user does, and not one that has torch imported already.
        """
        folder = self.scratch / f"{os.getpid()}.{abs(hash((command, tuple(options), str(cwd), fresh)))}"
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "report.json"
        file.unlink(missing_ok=True)
        arguments = ("run", *options, "-o", str(file), *command)
        if fresh:
            return self.execute(("-m", "boundby", *arguments), cwd=cwd, stdin=stdin, report=file)
        assert not stdin, "only a fresh process is given input"
        return self.forked(arguments, cwd=cwd, folder=folder, report=file)

    def pair(
        self,
        *command: str,
        options: Sequence[str] = QUICK,
        cwd: Path = SCRIPTS,
        stdin: bytes = b"",
        fresh: bool = False,
    ) -> Pair:
        """Both ways side by side."""
        with ThreadPoolExecutor(2) as pool:
            plain = pool.submit(self.plain, *command, cwd=cwd, stdin=stdin)
            watched = pool.submit(self.watched, *command, options=options, cwd=cwd, stdin=stdin, fresh=fresh)
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
