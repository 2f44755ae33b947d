import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from boundby.machine import ensure
from boundby.machine.ensure import ensure_machine, measuring_notice, worker_environment
from boundby.machine.rounds import MOST_SAMPLES
from boundby.machine.store import cache_folder, load, machine_key, machine_path, save
from boundby.results.errors import BoundbyError
from boundby.results.machine import Finding
from boundby.results.machine_file import decode_machine

MACHINE = decode_machine((Path(__file__).parent / "files" / "machine-version-1.json").read_bytes())


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(tmp_path))
    return cache_folder()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A real measuring with the least budget, its progress, and where it was kept."""
    folder = tmp_path_factory.mktemp("cache")
    told: list[tuple[float, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BOUNDBY_CACHE_DIR", str(folder))
        machine = ensure_machine(threads=1, budget_s=2.0, progress=lambda share, what: told.append((share, what)))
        kept, _ = load(machine_key(threads=1))
    return machine, told, kept


def test_a_fresh_process_measures_every_kind_of_ceiling(measured):
    machine, _, _ = measured
    assert machine.description.threads == 1
    assert {one.kind for one in machine.ceilings} == {"matmul", "bandwidth", "function", "overhead", "anchor"}
    assert all(0 < one.low <= one.value <= one.high for one in machine.ceilings)
    assert all(one.source == "measured" and one.threads == 1 for one in machine.ceilings)


def test_ceilings_are_named_once(measured):
    machine, _, _ = measured
    names = [(one.kind, one.name, one.dtype, one.shape, one.size_bytes, one.stack) for one in machine.ceilings]
    assert len(names) == len(set(names))


def test_what_the_ceilings_say_fits_together(measured):
    machine, _, _ = measured
    found = {
        (one.kind, one.name, one.dtype, one.shape or one.size_bytes): one.value
        for one in machine.ceilings
        if one.stack == "torch"
    }
    tanh, neg = (found["function", name, "fp32", 262144] for name in ("tanh", "neg"))
    assert tanh > neg
    assert found["overhead", "python_call", None, None] < found["overhead", "pointwise", None, None]
    assert found["overhead", "foreach_tensor", None, None] > 0
    largest = max(size for kind, name, _, size in found if (kind, name) == ("bandwidth", "copy"))
    assert (
        found["bandwidth", "copy", "fp32", largest]
        < max(value for (kind, name, _, _), value in found.items() if (kind, name) == ("bandwidth", "copy")) * 1.01
    )
    assert {name for kind, name, *_ in found if kind == "anchor"} == {"matmul", "cache", "memory", "dispatch"}


def test_how_it_was_measured_is_said(measured):
    machine, _, _ = measured
    how = machine.measuring
    assert how is not None
    assert how.mode == "default"
    assert how.rounds >= 1
    # torch alone takes over 100 MiB.
    assert 100 << 20 < how.peak_memory_bytes < 2 << 30
    assert all(0 < len(one.samples) <= MOST_SAMPLES or one.samples == () for one in machine.ceilings)
    assert sum(len(one.samples) > 0 for one in machine.ceilings) > len(machine.ceilings) / 2


def test_progress_is_told_from_0_to_1(measured):
    _, told, _ = measured
    shares = [share for share, _ in told]
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert all(0 <= share <= 1 for share in shares)
    assert len(told) > 4


def test_what_was_measured_is_kept(measured):
    machine, _, kept = measured
    assert kept == machine


def test_kept_ceilings_are_used_without_measuring(cache):
    save(machine_key(threads=1), MACHINE)
    told: list[float] = []
    assert ensure_machine(threads=1, progress=lambda share, what: told.append(share)) == MACHINE
    assert ensure_machine(threads=1, mode="quick") == MACHINE
    assert told == []


def test_quick_ceilings_do_not_stand_in_for_thorough_ones(cache, monkeypatch):
    save(machine_key(threads=1, mode="quick"), MACHINE)
    thorough = replace(MACHINE, findings=())
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: thorough)
    assert ensure_machine(threads=1, mode="quick") == MACHINE
    assert ensure_machine(threads=1) == thorough
    assert ensure_machine(threads=1, mode="quick") == thorough


def test_full_ceilings_serve_all_and_a_damaged_file_of_another_mode_none(cache, monkeypatch):
    full = replace(MACHINE, findings=())
    save(machine_key(threads=1, mode="full"), full)
    assert ensure_machine(threads=1, mode="quick") == ensure_machine(threads=1) == full
    machine_path(machine_key(threads=1, mode="full")).write_bytes(b"damage")
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: MACHINE)
    assert ensure_machine(threads=1) == MACHINE
    codes = [finding.code for finding in ensure_machine(threads=1, mode="full").findings]
    assert codes == ["dtype-slow", "ceilings-damaged"]


def test_a_damaged_file_is_measured_again_and_said(cache, monkeypatch):
    key = machine_key(threads=1)
    cache.mkdir()
    machine_path(key).write_bytes(b"damage")
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: MACHINE)
    told: list[str] = []
    machine = ensure_machine(threads=1, notice=lambda finding: told.append(finding.code))
    assert [finding.code for finding in machine.findings] == ["dtype-slow", "ceilings-damaged"]
    assert told == ["ceilings-damaged"], "said before they are measured again"
    assert ensure_machine(threads=1, notice=lambda finding: told.append(finding.code)) == MACHINE
    assert len(told) == 1


def test_both_files_of_torchs_own_thread_count_are_mended(cache, monkeypatch):
    cache.mkdir()
    keys = [machine_key(threads=threads) for threads in (None, MACHINE.description.threads)]
    for key in keys:
        machine_path(key).write_bytes(b"damage")
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: MACHINE)
    assert [finding.code for finding in ensure_machine().findings] == ["dtype-slow", "ceilings-damaged"]
    assert [load(key) for key in keys] == [(MACHINE, ()), (MACHINE, ())]


def test_that_ceilings_are_kept_is_said_only_where_they_can_be(tmp_path, monkeypatch):
    monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(tmp_path / "new" / "deep"))
    assert "which are then kept" in measuring_notice(20)
    (tmp_path / "file").write_text("")
    for nowhere in (tmp_path / "file", Path("/proc/nope")):
        monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(nowhere))
        said = measuring_notice(20)
        assert "then kept" not in said
        assert f"cannot be kept in {nowhere}" in said


def test_ceilings_of_a_busy_machine_are_kept_only_for_a_while(cache, monkeypatch):
    busy = replace(MACHINE, findings=(Finding(code="machine-busy", message="busy"),))
    save(machine_key(threads=1), busy)
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: MACHINE)
    assert ensure_machine(threads=1) == MACHINE
    recent = replace(
        busy, description=replace(busy.description, measured_at=ensure.datetime.now(ensure.UTC).isoformat())
    )
    save(machine_key(threads=1), recent)
    assert ensure_machine(threads=1) == recent


def test_torchs_own_thread_count_is_measured_once(cache, monkeypatch):
    measured = iter([MACHINE])
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: next(measured))
    assert ensure_machine() == MACHINE
    assert ensure_machine() == MACHINE
    assert ensure_machine(threads=MACHINE.description.threads) == MACHINE


def test_a_cache_that_cannot_be_written_is_a_finding(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(ensure, "_measure_apart", lambda **options: MACHINE)
    codes = [finding.code for finding in ensure_machine(threads=1).findings]
    assert codes == ["dtype-slow", "ceilings-damaged", "ceilings-not-kept"] or codes == [
        "dtype-slow",
        "ceilings-not-kept",
    ]


def fake_torch(folder: Path, text: str) -> None:
    """Puts a torch of our own before the real one in the worker's path."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(textwrap.dedent(text))


def test_a_worker_that_fails_gives_its_last_line(cache, tmp_path, monkeypatch):
    fake_torch(tmp_path, "raise ImportError('libgomp is broken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BoundbyError) as caught:
        ensure_machine(threads=1, budget_s=1)
    assert caught.value.code == "machine-failed"
    assert "libgomp is broken" in caught.value.message


def test_a_worker_that_is_killed_says_by_what(cache, tmp_path, monkeypatch):
    fake_torch(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BoundbyError, match="signal 9"):
        ensure_machine(threads=1, budget_s=1)


@pytest.mark.parametrize(
    "fails", ["import os; os.kill(os.getpid(), 9)", "raise RuntimeError('cannot allocate memory')", "raise MemoryError"]
)
def test_a_worker_without_enough_memory_says_how_much_it_needs(cache, tmp_path, monkeypatch, fails):
    fake_torch(tmp_path, fails)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(BoundbyError) as caught:
        ensure_machine(threads=1, budget_s=1)
    assert "560 MiB" in caught.value.advice


def test_a_worker_that_is_stuck_is_ended(cache, tmp_path, monkeypatch):
    fake_torch(tmp_path, "import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(ensure, "_PATIENCE_S", 0.5)
    with pytest.raises(BoundbyError, match="said nothing"):
        ensure_machine(threads=1, budget_s=0.5)


def test_an_interrupt_stops_the_worker(cache, tmp_path):
    note = tmp_path / "pid"
    fake_torch(tmp_path, f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    code = "from boundby.machine.ensure import ensure_machine; ensure_machine(threads=1)"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline, "the worker never started"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_the_parent_imports_no_torch(cache):
    save(machine_key(threads=1), MACHINE)
    code = (
        "import sys; from boundby.machine.ensure import ensure_machine; ensure_machine(threads=1);"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_modules_in_the_working_directory_do_not_reach_the_worker(cache, tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong random')")
    (tmp_path / "torch.py").write_text("raise ImportError('the wrong torch')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ensure, "_PATIENCE_S", 120.0)
    assert ensure_machine(threads=1, mode="quick", budget_s=1).ceilings


def test_the_workers_environment_is_the_users_and_more():
    made = worker_environment({"OMP_NUM_THREADS": "3", "PYTHONPATH": f"/one{os.pathsep}/two"}, every_core=True)
    assert made["OMP_NUM_THREADS"] == "3"
    assert made["PYTHONPATH"].split(os.pathsep)[:2] == ["/one", "/two"]
    assert "MALLOC_TRIM_THRESHOLD_" in made
