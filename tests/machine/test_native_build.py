import os
import shutil
import stat
import sys
import time
from pathlib import Path

import pytest

from boundby.machine import native_build
from boundby.machine.data import DataSource
from boundby.machine.native import native_probes
from boundby.machine.native_build import NativeUnavailableError, native_library

# Compiles in no time, and is otherwise treated as the loops are.
SMALL = b"int boundby_check(void) { return 0; }"
PATH = os.environ.get("PATH", os.defpath)


@pytest.fixture
def environ():
    return {"PATH": PATH}


def has_compiler() -> bool:
    return bool(native_build._compilers({"PATH": PATH}))


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C compiler here")


def program(folder: Path, name: str, text: str) -> Path:
    """A stand-in for a compiler, a shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@needs_compiler
def test_the_library_is_compiled_once_and_kept(tmp_path, environ):
    first = native_library(environ=environ, source=SMALL, folder=tmp_path / "native")
    written = first.stat().st_mtime_ns
    assert native_library(environ=environ, source=SMALL, folder=tmp_path / "native") == first
    assert first.stat().st_mtime_ns == written
    assert [path.name for path in first.parent.iterdir()] == [first.name]


@needs_compiler
def test_it_is_kept_beside_the_ceilings(tmp_path, environ):
    path = native_library(environ={**environ, "BOUNDBY_CACHE_DIR": str(tmp_path)}, source=SMALL)
    assert path.parent == tmp_path / "native"


@needs_compiler
@pytest.mark.parametrize("damage", [b"", b"not a library", None], ids=["empty", "text", "cut"])
def test_a_damaged_library_is_made_anew(tmp_path, environ, damage):
    path = native_library(environ=environ, source=SMALL, folder=tmp_path)
    whole = path.read_bytes()
    path.unlink()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert native_library(environ=environ, source=SMALL, folder=tmp_path) == path
    assert native_build._tried(path) is None


@needs_compiler
def test_another_processor_compiler_or_source_is_another_library(tmp_path, monkeypatch):
    def digest(source: bytes = b"int x;", **more: object) -> str:
        compiler = native_build._Compiler(**{"command": ("/bin/cc",), "version": "cc 1", **more})
        return native_build._digest(source, compiler)

    digests = [digest(), digest(b"int y;"), digest(version="cc 2"), digest(command=("/bin/cc", "-m32"))]
    monkeypatch.setattr(native_build, "_cpu_features", lambda: "fma avx2")
    digests.append(digest())
    monkeypatch.setattr(native_build, "cpu_model", lambda: "another")
    digests.append(digest())
    assert len(set(digests)) == len(digests)


def test_without_a_compiler_the_raw_ceilings_are_left_out_and_it_is_said(tmp_path):
    probes, (finding,) = native_probes(
        DataSource(), threads=1, memory_bytes=1 << 20, environ={"PATH": str(tmp_path)}, folder=tmp_path
    )
    assert (probes.probes, probes.readings) == ((), ())
    assert finding.code == "no-compiler"
    assert "gcc" in finding.message


@pytest.mark.parametrize(
    ("compiles", "said"),
    [
        ("echo 'loops.c:3: error: unknown type' >&2; exit 1", "unknown type"),
        ("exit 0", "status 0"),
        ("kill -9 $$", "status -9"),
        # A compiler that makes something, only not a library.
        ('while [ "$1" != -o ]; do shift; done; echo junk > "$2"', "does not run here"),
    ],
    ids=["refuses", "makes nothing", "is killed", "makes junk"],
)
def test_a_compiler_that_fails_is_a_finding_with_what_it_said(tmp_path, compiles, said):
    cc = program(tmp_path, "cc", f'[ "$1" = --version ] && echo "cc 1.0" && exit 0\n{compiles}')
    probes, (finding,) = native_probes(
        DataSource(), threads=1, memory_bytes=1 << 20, environ={"PATH": str(tmp_path)}, folder=tmp_path / "kept"
    )
    assert probes.probes == ()
    assert finding.code == "native-failed"
    assert said in finding.message
    assert str(cc) in finding.message
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_compiler_that_hangs_is_ended_with_all_it_started(tmp_path):
    alive = tmp_path / "alive"
    touch, sleep = shutil.which("touch"), shutil.which("sleep")
    hangs = f"(while :; do {touch} {alive}; {sleep} 0.05; done) & wait"
    program(tmp_path, "cc", f'[ "$1" = --version ] && echo "cc 1.0" && exit 0\n{hangs}')
    with pytest.raises(NativeUnavailableError, match="took too long"):
        native_library(environ={"PATH": str(tmp_path)}, folder=tmp_path / "kept", limit_s=0.3)
    alive.unlink()
    time.sleep(0.2)
    assert not alive.exists()


@needs_compiler
def test_where_the_chosen_compiler_fails_the_next_is_tried(tmp_path, environ):
    broken = program(tmp_path, "broken", '[ "$1" = --version ] && echo "broken 1.0" && exit 0\nexit 1')
    path = native_library(environ={**environ, "CC": str(broken)}, source=SMALL, folder=tmp_path / "kept")
    assert path.exists()


@needs_compiler
@pytest.mark.parametrize("chosen", ["nowhere-to-be-found", "'", "  ", "cc -O1"])
def test_whatever_cc_says_a_library_comes_of_it(tmp_path, environ, chosen):
    assert native_library(environ={**environ, "CC": chosen}, source=SMALL, folder=tmp_path).exists()


@needs_compiler
def test_a_folder_that_cannot_be_written_is_a_finding(tmp_path, environ):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    probes, (finding,) = native_probes(
        DataSource(), threads=1, memory_bytes=1 << 20, environ={**environ, "BOUNDBY_CACHE_DIR": str(blocked)}
    )
    assert probes.probes == ()
    assert finding.code == "native-failed"
    assert str(blocked) in finding.message


@needs_compiler
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (b"int boundby_check(void) { __builtin_trap(); }", "(status -"),
        (b"int boundby_check(void) { return 3; }", "(status 3)"),
        (b"int nothing(void) { return 0; }", "boundby_check"),
        (b"int boundby_check(void) { nonsense }", "error"),
    ],
    ids=["illegal instruction", "wrong result", "no entry", "no C"],
)
def test_a_library_that_does_not_work_here_never_gets_into_this_process(tmp_path, environ, source, said):
    with pytest.raises(NativeUnavailableError) as caught:
        native_library(environ=environ, source=source, folder=tmp_path)
    assert caught.value.finding.code == "native-failed"
    assert said in caught.value.finding.message
    assert "\n" not in caught.value.finding.message
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_a_check_that_never_ends_is_ended(tmp_path, environ, monkeypatch):
    monkeypatch.setattr(native_build, "_TRY_LIMIT_S", 0.3)
    with pytest.raises(NativeUnavailableError, match=r"did not end within 0\.3 s"):
        native_library(environ=environ, source=b"int boundby_check(void) { for (;;) { } }", folder=tmp_path)


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")
def test_a_library_of_another_user_is_not_loaded(tmp_path, environ):
    path = native_library(environ=environ, source=SMALL, folder=tmp_path)
    os.chown(path, 12345, -1)
    native_library(environ=environ, source=SMALL, folder=tmp_path)
    assert path.stat().st_uid == os.getuid()


@needs_compiler
def test_the_loops_compile_without_a_warning(tmp_path, environ):
    source = Path(native_build.__file__).with_name(native_build.SOURCE)
    (compiler, *_) = native_build._compilers(environ)
    flags = [flag for flag in native_build._FLAGS if flag != "-w"]
    command = [*compiler.command, *flags, "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "x"), str(source)]
    assert native_build._run(command, environ, 30.0) == (0, "")


def test_the_source_is_where_the_package_is_installed():
    assert (Path(native_build.__file__).parent / native_build.SOURCE).exists()
    assert sys.modules["boundby.machine.native_build"] is native_build
