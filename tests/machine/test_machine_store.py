import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from boundby.machine.store import cache_folder, load, machine_key, machine_path, save
from boundby.results.machine import Mode
from boundby.results.machine_file import decode_machine

MACHINE = decode_machine((Path(__file__).parent / "files" / "machine-version-1.json").read_bytes())


@pytest.fixture
def key():
    return machine_key(threads=1)


def test_what_is_saved_is_loaded(tmp_path, key):
    assert load(key, folder=tmp_path) == (None, ())
    assert save(key, MACHINE, folder=tmp_path) == ()
    assert load(key, folder=tmp_path) == (MACHINE, ())


def test_the_newest_replaces_the_one_before_and_leaves_nothing_else(tmp_path, key):
    save(key, MACHINE, folder=tmp_path)
    save(key, replace(MACHINE, findings=()), folder=tmp_path)
    assert load(key, folder=tmp_path) == (replace(MACHINE, findings=()), ())
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("data", [b"", b"{", b"\x00" * 100, b'{"schema": "boundby.machine", "version": 9}'])
def test_a_damaged_file_is_no_machine_and_is_said(tmp_path, key, data):
    machine_path(key, folder=tmp_path).write_bytes(data)
    machine, (finding,) = load(key, folder=tmp_path)
    assert machine is None
    assert finding.code == "ceilings-damaged"
    assert str(tmp_path) in finding.message


def test_a_folder_in_the_files_place_is_said(tmp_path, key):
    machine_path(key, folder=tmp_path).mkdir()
    machine, (finding,) = load(key, folder=tmp_path)
    assert (machine, finding.code) == (None, "ceilings-damaged")
    (finding,) = save(key, MACHINE, folder=tmp_path)
    assert finding.code == "ceilings-not-kept"


def test_a_cache_that_cannot_be_written_is_said_and_nothing_more(tmp_path, key):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    (finding,) = save(key, MACHINE, folder=blocked / "machines")
    assert finding.code == "ceilings-not-kept"
    assert "BOUNDBY_CACHE_DIR" in finding.advice


def test_ceilings_are_kept_apart_by_what_changes_them(tmp_path):
    def path(threads: int | None = 1, mode: Mode = "default", **environ: str) -> Path:
        return machine_path(machine_key(threads=threads, mode=mode, environ=environ), folder=tmp_path)

    modes = [path(mode="quick"), path(mode="full")]
    paths = [path(), path(2), path(None), *modes, path(OMP_PROC_BIND="true"), path(MALLOC_ARENA_MAX="1")]
    assert len(set(paths)) == len(paths)
    assert path() == path(HOME="/elsewhere")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_another_affinity_is_another_key():
    code = "import os; from boundby.machine.store import *; {}; print(machine_path(machine_key(threads=1)))"
    first = min(os.sched_getaffinity(0))
    outputs = {
        subprocess.run([sys.executable, "-c", code.format(more)], capture_output=True, text=True, check=True).stdout
        for more in ("pass", f"os.sched_setaffinity(0, {{{first}}})")
    }
    assert len(outputs) == min(2, len(os.sched_getaffinity(0)))


def test_the_folder_can_be_chosen():
    assert cache_folder({"BOUNDBY_CACHE_DIR": "/some/where"}) == Path("/some/where/machines")
    assert cache_folder({}).name == "machines"
    assert "boundby" in cache_folder({}).parts
