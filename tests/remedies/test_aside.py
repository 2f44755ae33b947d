"""Trial runs write aside: what a script writes lands in a folder of links, and the user's files stay as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from boundby.capture.script import Target
from boundby.remedies.aside import guarded_folders, home_path, make_aside, target_aside

RUN = """
import os, sys
from pathlib import Path
from boundby.remedies.aside import Guard, guard_torch_save
folder, aside, root, *more = map(Path, sys.argv[1:])
os.chdir(aside)
guard = Guard([folder, *more], root)
guard.install()
{script}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "data" / "deep").mkdir(parents=True)
    (home / "log.txt").write_text("kept\n")
    (home / "data" / "deep" / "x.bin").write_bytes(b"old")
    (home / ".git").mkdir()
    (home / ".git" / "HEAD").write_text("ref")
    (home / "link.txt").symlink_to("log.txt")
    return home


def run(folder: Path, script: str, *guarded: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    root = folder.parent / "aside"
    root.mkdir()
    aside = make_aside(folder, root)
    code = RUN.format(script=textwrap.dedent(script))
    command = [sys.executable, "-c", code, *map(str, (folder, aside, root, *guarded))]
    return aside, subprocess.run(command, capture_output=True, text=True, check=False)


def state(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


@pytest.mark.parametrize(
    ("script", "path", "content"),
    [
        ("open('log.txt', 'a').write('more\\n')", "log.txt", b"kept\nmore\n"),
        ("open('log.txt', 'w').write('new')", "log.txt", b"new"),
        ("open('link.txt', 'r+').write('K')", "link.txt", b"Kept\n"),
        ("Path('data/deep/x.bin').write_bytes(b'new')", "data/deep/x.bin", b"new"),
        ("Path('data/new.txt').write_text('n')", "data/new.txt", b"n"),
        ("os.makedirs('out/a', exist_ok=True); open('out/a/b', 'x').write('b')", "out/a/b", b"b"),
        ("Path('.git/HEAD').write_text('mine')", ".git/HEAD", b"mine"),
        ("os.rename('log.txt', 'data/moved.txt')", "data/moved.txt", b"kept\n"),
        ("fd = os.open('log.txt', os.O_WRONLY | os.O_TRUNC); os.write(fd, b'raw')", "log.txt", b"raw"),
        ("os.truncate('log.txt', 2)", "log.txt", b"ke"),
    ],
)
def test_what_a_script_writes_lands_aside(folder, script, path, content):
    before = state(folder)
    aside, done = run(folder, script)
    assert done.returncode == 0, done.stderr
    assert state(folder) == before
    assert (aside / path).read_bytes() == content


@pytest.mark.parametrize(
    "script",
    [
        "os.remove('log.txt')",
        "import shutil; shutil.rmtree('data')",
        "os.remove('data/deep/x.bin'); os.rmdir('data/deep')",
        "os.remove('.git/HEAD')",
    ],
)
def test_what_a_script_removes_is_removed_aside_alone(folder, script):
    before = state(folder)
    _, done = run(folder, script)
    assert done.returncode == 0, done.stderr
    assert state(folder) == before


def test_files_are_read_through_the_links(folder):
    _, done = run(
        folder, "print(open('log.txt').read(), Path('data/deep/x.bin').read_bytes(), sorted(os.listdir('.')))"
    )
    assert "kept" in done.stdout
    assert "b'old'" in done.stdout
    assert "['.git', 'data', 'link.txt', 'log.txt']" in done.stdout


def test_writing_into_the_users_folder_by_its_full_path_is_refused(folder):
    before = state(folder)
    _, done = run(folder, "open(os.path.join(sys.argv[1], 'log.txt'), 'w')")
    assert done.returncode == 1
    assert "by its full path" in done.stderr.splitlines()[-1]
    assert state(folder) == before


@pytest.mark.parametrize(
    "place",
    ["Path('../runs').resolve() / 'ckpt.txt'", "os.path.realpath('../runs/ckpt.txt')", "Path('shelf/../new.txt')"],
)
def test_what_resolves_to_the_users_files_beside_the_folder_is_refused(folder, place):
    (folder.parent / "runs").mkdir()
    (folder.parent / "runs" / "ckpt.txt").write_text("precious")
    (folder / "shelf").symlink_to("../runs")
    before = state(folder.parent)
    _, done = run(folder, f"Path({place}).write_text('trial')")
    assert "by its full path" in done.stderr.splitlines()[-1]
    assert {name: kept for name, kept in state(folder.parent).items() if not name.startswith("aside/")} == before


def test_other_places_are_the_scripts_own_affair(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_CACHE_DIR", str(tmp_path / "kept"))
    (tmp_path / "kept").mkdir()
    elsewhere = tmp_path / "kept" / "cache.txt"
    _, done = run(folder, f"open({str(elsewhere)!r}, 'w').write('c')")
    assert done.returncode == 0, done.stderr
    assert elsewhere.read_text() == "c"


def test_a_checkpoint_that_torch_writes_in_c_lands_aside(folder):
    (folder / "m.pt").write_bytes(b"mine")
    before = state(folder)
    script = (
        "import torch; guard_torch_save(guard); torch.save({'a': torch.ones(2)}, 'm.pt'); torch.save([1], 'data/n.pt')"
    )
    aside, done = run(folder, script)
    assert done.returncode == 0, done.stderr
    assert state(folder) == before
    assert (aside / "m.pt").stat().st_size > 100
    assert (aside / "data" / "n.pt").exists()


def test_a_folder_that_may_not_be_read_is_left_out(folder):
    root = folder.parent / "aside"
    root.mkdir()
    (folder / "data" / "deep").rename(folder / "gone")
    aside = make_aside(folder, root)
    assert sorted(os.listdir(aside)) == [".git", "data", "gone", "link.txt", "log.txt"]


SAYS = """
import sys, beside
print([sys.argv[0], __file__, sys.path[0], beside.__file__, sys.argv[1:], open("../../data.txt").read()])
"""


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """Scripts in and around a working folder ``work/here``, which is returned."""
    here = tmp_path / "work" / "here"
    (here / "pkg").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "data.txt").write_text("all")
    for folder in (here, here / "pkg", tmp_path / "other", tmp_path / "work"):
        (folder / "beside.py").write_text("")
        (folder / "tiny.py").write_text(SAYS)
    (here / "pkg" / "__init__.py").write_text("")
    (here / "linked.py").symlink_to("../../other/tiny.py")
    (here / "shelf").symlink_to("../../other")
    return here


@pytest.mark.parametrize(
    "name",
    [
        "tiny.py",
        "pkg/tiny.py",
        "./pkg/../tiny.py",
        "../tiny.py",
        "../../other/tiny.py",
        "linked.py",
        "shelf/tiny.py",
        "{here}/tiny.py",
        "{other}/tiny.py",
        "-m pkg.tiny",
    ],
)
def test_a_script_is_found_by_any_name_and_is_told_the_same_as_in_a_plain_run(places, name):
    words = name.format(here=places, other=places.parent.parent / "other").split()
    plain = subprocess.run([sys.executable, *words, "a", "b"], cwd=places, capture_output=True, text=True, check=True)
    target = Target(name=words[-1], is_module=len(words) > 1, args=("a", "b"))
    root = places.parent.parent / "root"
    root.mkdir()
    aside = make_aside(places, root)
    own = target_aside(target, places, root)
    code = f"from boundby.capture.script import Target, run_target; import sys; sys.exit(run_target({own!r}).status)"
    done = subprocess.run([sys.executable, "-c", code], cwd=aside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert home_path(done.stdout, root) == plain.stdout


def test_a_script_that_lies_elsewhere_writes_aside_too(folder):
    other = folder.parent / "other"
    other.mkdir()
    (other / "model.txt").write_text("mine")
    named = target_aside(Target(name=f"{other}/train.py", is_module=False), folder, folder.parent / "aside")
    assert guarded_folders(named, folder) == (folder, other)
    aside, done = run(folder, "Path('../other/model.txt').write_text('new'); Path('../other/more').mkdir()", other)
    assert done.returncode == 0, done.stderr
    assert (aside.parent / "other" / "model.txt").read_text() == "new"
    assert state(other) == {"model.txt": b"mine"}


def test_a_script_that_lies_elsewhere_does_not_write_into_its_folder_by_a_full_path(folder):
    other = folder.parent / "other"
    other.mkdir()
    _, done = run(folder, f"Path({str(other)!r}, 'model.txt').write_text('new')", other)
    assert "by its full path" in done.stderr.splitlines()[-1]
    assert state(other) == {}


def test_a_script_in_the_home_folder_writes_to_its_caches_and_not_beside_itself(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    here = folder / "data"
    assert guarded_folders(Target(name="../train.py", is_module=False), here) == (here, folder)
    before = state(folder)
    script = f"""
    home = Path({str(folder)!r})
    (home / ".cache" / "x").mkdir()
    (home / ".cache" / "x" / "y").write_text("c")
    (home / "log.txt").write_text("lost")
    """
    (folder / ".cache").mkdir()
    _, done = run(here, script, folder)
    assert "log.txt by its full path" in done.stderr.splitlines()[-1]
    assert state(folder) == before | {".cache/x/y": b"c", **{k: v for k, v in state(folder).items() if "aside/" in k}}


def test_beside_a_script_among_temporary_files_only_new_ones_are_made(folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(folder / "data"))
    (folder / "data" / "ckpt").write_text("mine")
    here = folder / ".git"
    script = f"at = Path({str(folder / 'data')!r}); (at / 'new').write_text('n'); (at / 'ckpt').write_text('lost')"
    _, done = run(here, script, folder / "data")
    assert "ckpt by its full path" in done.stderr.splitlines()[-1]
    assert (folder / "data" / "ckpt").read_text() == "mine"
    assert (folder / "data" / "new").read_text() == "n"


def test_a_folder_that_holds_the_trial_s_own_is_mirrored_without_it(folder: Path) -> None:
    scratch = folder / "data" / "scratch"
    (scratch / "root").mkdir(parents=True)
    (scratch / "run.log").touch()
    aside = make_aside(folder, scratch / "root")
    assert sorted(os.listdir(aside)) == [".git", "data", "link.txt", "log.txt"]
    assert os.listdir(aside / "data") == ["deep"]
