"""The machine's ceilings, kept or measured now in a process of its own. Does not import torch."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

import msgspec

from boundby.machine.describe import available_memory, process_affinity, torch_version, usable_cores
from boundby.machine.memory import FIXED_MEMORY_BYTES, memory_allowance
from boundby.machine.store import cache_folder, is_writable, load, machine_key, save
from boundby.results.errors import BoundbyError
from boundby.results.language import language, tr
from boundby.results.machine import MAIN_MEMORY_BYTES, Finding, Machine, Mode
from boundby.results.machine_file import decode_machine
from boundby.results.units import format_size
from boundby.timing.clock import monotonic_ns

# How long measuring may take, seconds, the start of its process included.
BUDGETS_S: dict[Mode, float] = {"quick": 8.0, "default": 18.0, "full": 165.0}
# Whose kept ceilings will do for each, the best first: those of a shorter measuring never stand in for a longer one.
_SERVED_BY: dict[Mode, tuple[Mode, ...]] = {
    "quick": ("full", "default", "quick"),
    "default": ("full", "default"),
    "full": ("full",),
}
# A worker that has said nothing for this long, beyond its budget, is stuck.
_PATIENCE_S = 60.0
_GRACE_S = 2.0
_PLACING = frozenset({"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"})
_WAITING = frozenset({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
# Ceilings from a busy machine are better than none for a while, and not worth keeping longer.
_BUSY_LIFETIME = timedelta(minutes=30)
# A sweep over working sets takes a quarter of what the probes may.
_ENOUGH_FOR_MAIN_MEMORY = 4 * MAIN_MEMORY_BYTES

Progress = Callable[[float, str], None]


def ensure_machine(
    *,
    threads: int | None = None,
    again: bool = False,
    mode: Mode = "default",
    device: str = "cpu",
    budget_s: float | None = None,
    progress: Progress | None = None,
    notice: Callable[[Finding], None] | None = None,
) -> Machine:
    """This machine with its ceilings: those kept from before, or measured now in a fresh process and kept.

    Args:
        threads: the thread count of torch they are for; what torch takes by itself here where None.
        again: measure even if there are kept ones.
        mode: how thoroughly. What a longer measuring gave is used where a shorter one is asked for, never the reverse.
        device: what is measured: the CPU, or an accelerator by the type torch knows it by.
        budget_s: how long measuring may take, seconds, the start of the process included; the mode's own where None.
        progress: told (share done, what is being done) while measuring; not called where kept ceilings are used.
        notice: told, before they are measured again, that the kept ceilings are damaged.

    Returns:
        The machine; findings say where kept ceilings were damaged or new ones could not be kept.

    Raises:
        BoundbyError: ``no-torch``, ``no-device``, or ``machine-failed`` with the last line the process left.
        KeyboardInterrupt: as the user asked; the process is stopped first.
    """
    if torch_version() is None:
        raise BoundbyError(
            "no-torch", tr("There is no torch in this Python environment."), tr("Install it: pip install torch")
        )
    findings: tuple[Finding, ...] = ()
    usable: list[Machine] = []
    for serving in () if again else _SERVED_BY[mode]:
        kept, damage = load(machine_key(threads=threads, mode=serving, device=device))
        # A damaged file of another mode is not replaced now, and would be told again each time.
        findings = damage if serving == mode else ()
        if kept is not None and not _outlived(kept):
            usable.append(kept)
    if usable:
        # The newest: somebody who measured again did so because the older ones were no good.
        return max(usable, key=lambda one: one.description.measured_at or "")
    if notice is not None:
        for finding in findings:
            notice(finding)
    budget_s = BUDGETS_S[mode] if budget_s is None else budget_s
    machine = _measure_apart(threads=threads, mode=mode, device=device, budget_s=budget_s, progress=progress)
    not_kept = save(machine_key(threads=threads, mode=mode, device=device), machine)
    if threads is None and not not_kept:
        # So that asking for the number that torch takes by itself does not measure a second time.
        not_kept = save(machine_key(threads=machine.description.threads, mode=mode, device=device), machine)
    return replace(machine, findings=(*machine.findings, *findings, *not_kept))


def measuring_notice(at_most_s: float) -> str:
    """What is said before this machine is measured: how long it takes, and whether its ceilings are kept then.

    Args:
        at_most_s: how long, seconds.
    """
    seconds, folder = f"{at_most_s:,.0f}", cache_folder()
    if is_writable(folder):
        return tr("measuring this machine's ceilings, which are then kept (up to {seconds} s)", seconds=seconds)
    return tr(
        "measuring this machine's ceilings (up to {seconds} s); they cannot be kept in {folder}: set "
        "BOUNDBY_CACHE_DIR to a folder you can write",
        seconds=seconds,
        folder=folder,
    )


def _outlived(machine: Machine) -> bool:
    """Whether kept ceilings are worth another try: of a busy machine after a while, of too little memory with more."""
    if any(one.code == "main-memory-unmeasured" for one in machine.findings):
        return memory_allowance(available_memory()) >= _ENOUGH_FOR_MAIN_MEMORY
    if all(finding.code != "machine-busy" for finding in machine.findings) or machine.description.measured_at is None:
        return False
    age = datetime.now(UTC) - datetime.fromisoformat(machine.description.measured_at)
    return age > _BUSY_LIFETIME


def _measure_apart(
    *, threads: int | None, mode: Mode, device: str, budget_s: float, progress: Progress | None
) -> Machine:
    """Runs the worker and returns what it measured."""
    cores = usable_cores(affinity=process_affinity())
    reading, writing = os.pipe()
    command = [
        *(sys.executable, "-P", "-m", "boundby.machine.worker"),
        *("--output", str(writing), "--budget", str(budget_s), "--started", str(monotonic_ns()), "--mode", mode),
        *("--device", device, "--language", language()),
        *(("--threads", str(threads)) if threads is not None else ()),
    ]
    with open(reading, "rb", buffering=0) as reports, tempfile.TemporaryFile() as errors:
        try:
            # In a session of its own, Ctrl-C reaches this process alone, which then stops the worker.
            worker = subprocess.Popen(
                command,
                env=worker_environment(os.environ, every_core=cores > 1 and threads in (None, cores)),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(tr("its process could not be started: {strerror}", strerror=error.strerror)) from error
        finally:
            os.close(writing)
        with _stopped_at_the_end(worker):
            document = None
            for line in _lines(reports, _PATIENCE_S + budget_s):
                message = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
                if "machine" in message:
                    document = bytes(message["machine"])
                    # All it has left to do is to take torch down, which takes a while.
                    worker.terminate()
                    break
                if "error" in message:
                    told = msgspec.json.decode(message["error"], type=dict[str, str])
                    raise BoundbyError("no-device", told["message"], told["advice"], status=int(told["status"]))
                if progress is not None:
                    progress(
                        msgspec.json.decode(message["share"], type=float),
                        msgspec.json.decode(message["what"], type=str),
                    )
            if document is None:
                status = _status(worker)
                raise _failed(_last_line(errors) or status)
            return decode_machine(document, name=tr("what the measuring process reported"))


def worker_environment(environ: Mapping[str, str], *, every_core: bool) -> dict[str, str]:
    """The worker's environment: the user's, with this boundby importable, malloc keeping its memory, threads awake.

    Outputs of large ops would otherwise be mapped and faulted in at each call; page faults are a ceiling of their own.
    A thread that went to sleep between two ops, on a core that another process uses too, gets it back milliseconds
    later, and so does each of two threads that were put on one core: such ceilings would be those of the scheduler.
    Where the user has chosen how threads wait or where they run, that holds.

    Args:
        environ: this process's environment.
        every_core: whether there is a thread for each core, so that each can have its own.
    """
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    waiting = {} if _WAITING.intersection(environ) else {"OMP_WAIT_POLICY": "ACTIVE"}
    placing = {} if not every_core or _PLACING.intersection(environ) else {"OMP_PROC_BIND": "true"}
    return {
        **environ,
        **waiting,
        **placing,
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
        "MALLOC_TOP_PAD_": str(64 << 20),
        "PYTHONPATH": os.pathsep.join([*paths, package_root]),
    }


def _lines(reports: IO[bytes], patience_s: float) -> Iterator[bytes]:
    """Whole lines as they come, until the worker closes its end.

    Raises:
        BoundbyError: ``machine-failed`` where nothing comes for ``patience_s`` seconds.
    """
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(reports, selectors.EVENT_READ)
        while True:
            if not selector.select(patience_s):
                raise _failed(tr("its process said nothing for {patience_s} s", patience_s=f"{patience_s:.0f}"))
            chunk = reports.read(1 << 16)
            if not chunk:
                return
            *lines, pending = (pending + chunk).split(b"\n")
            yield from lines


@contextmanager
def _stopped_at_the_end(worker: subprocess.Popen[bytes]) -> Iterator[None]:
    """Makes sure that no worker is left behind, whatever happens in the body."""
    try:
        yield
    except BaseException:
        worker.terminate()
        raise
    finally:
        try:
            worker.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _status(worker: subprocess.Popen[bytes]) -> str:
    try:
        status = worker.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        return tr("its process closed its output and went on")
    if status < 0:
        return tr("its process was killed by signal {signal}, perhaps for want of memory", signal=-status)
    return tr("its process ended with status {status} and no result", status=status)


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = [line.strip() for line in errors.read().decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def _failed(reason: str) -> BoundbyError:
    advice = tr("Check that `python -c 'import torch; torch.ones(1) + 1'` works, then try again.")
    if "memory" in reason.lower():
        advice = tr(
            "Measuring needs some {least} of memory with torch: give it more, or run it where there is more.",
            least=format_size(FIXED_MEMORY_BYTES, digits=2),
        )
    return BoundbyError(
        "machine-failed", tr("Measuring this machine failed: {reason}.", reason=reason.rstrip(".")), advice
    )
