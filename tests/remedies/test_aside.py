"""Trial runs write aside: what a script writes lands in a folder of links, and the user's files stay as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from boundby.remedies.aside import make_aside

RUN = """
import os, sys
from pathlib import Path
from boundby.remedies.aside import Guard, guard_torch_save
folder, aside = map(Path, sys.argv[1:3])
os.chdir(aside)
guard = Guard(folder, aside)
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


def run(folder: Path, script: str) -> tuple[Path, subprocess.CompletedProcess[str]]:
    aside = folder.parent / "aside"
    aside.mkdir()
    make_aside(folder, aside)
    code = RUN.format(script=textwrap.dedent(script))
    command = [sys.executable, "-c", code, str(folder), str(aside)]
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


def test_other_places_are_the_scripts_own_affair(folder, tmp_path):
    elsewhere = tmp_path / "cache.txt"
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
    aside = folder.parent / "aside"
    aside.mkdir()
    (folder / "data" / "deep").rename(folder / "gone")
    make_aside(folder, aside)
    assert sorted(os.listdir(aside)) == [".git", "data", "gone", "link.txt", "log.txt"]
