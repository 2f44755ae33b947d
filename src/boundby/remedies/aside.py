"""Where trial runs write: a folder that looks like the user's own and is thrown away.

A trial runs the script several times over, killed in the middle. Its checkpoints, logs and caches must not land in the
user's folder, nor overwrite what is there. So it runs in a folder of links: folders are real, files are links to the
user's. Reading follows the links; a file that is opened for writing is made a copy (or, if it is to be emptied, a new
file) just before. The folders above are there too, with links to what lies beside, so that a path with ``..`` (the
script's own, or one that it opens) leads where it does in the user's folder. What the script writes by an absolute
path, be it one that it made of a relative one, cannot be led aside, and is refused wherever it leads: only caches,
temporary files and devices are the script's own affair.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from boundby.capture.script import Target
from boundby.results.language import tr

# Folders whose content is not mirrored but linked as a whole: nobody trains into them.
_WHOLE = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "env", "node_modules", "__pycache__", ".tox", ".mypy_cache"}
)
# Beyond so many files, further folders are linked as a whole and mirrored only when something is written in them.
MOST_LINKS = 20_000
# Variables that name a folder of caches, beside those that say so.
_CACHES = frozenset({"HF_HOME", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "MPLCONFIGDIR"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class WriteRefused(PermissionError):
    """The script wrote into the user's folder by a path that cannot be led aside."""


def make_aside(folder: Path, root: Path) -> Path:
    """Fill ``root`` with folders and links that look like the file system around ``folder``.

    Args:
        folder: the user's, absolute.
        root: an empty folder that exists; it stands for the root of the file system. Where temporary files lie in
            ``folder``, it does too: it and the folder around it are then left out.

    Returns:
        What stands for ``folder`` in it.
    """
    source, aside = Path(folder.anchor), root
    for part in folder.parts[1:]:
        for entry in _entries(source)[:MOST_LINKS]:
            if entry.name != part:
                (aside / entry.name).symlink_to(entry.path)
        source, aside = source / part, aside / part
        aside.mkdir()
    _mirror(folder, aside, without=(root.stat(), root.parent.stat()))
    return aside


def target_aside(target: Target, folder: Path, root: Path) -> Target:
    """The target by the name that leads to it from what ``make_aside`` made.

    A relative path stays as it is typed. An absolute one is that below ``root``, so that what a script writes beside
    itself lands there.

    Args:
        target: as named in ``folder``.
        folder: the user's, absolute.
        root: as given to ``make_aside``.
    """
    if target.is_module:
        return target
    place = os.path.join(f"{root}{folder}", target.name)
    if os.path.isabs(target.name):
        place = f"{root}{target.name}"
        if os.path.exists(place):
            return replace(target, name=place)
    # Beyond what could be listed there are no links.
    return target if os.path.exists(place) else replace(target, name=os.path.join(folder, target.name))


def guarded_folders(target: Target, folder: Path) -> tuple[Path, ...]:
    """The user's folders that a trial of this target may not write into: the working one, and the script's own.

    Args:
        target: as named in ``folder``.
        folder: the working folder, absolute.
    """
    if target.is_module:
        return (folder,)
    own = Path(os.path.realpath(folder / target.name)).parent
    return (folder,) if own.is_relative_to(folder) else (folder, own)


def free_folders() -> frozenset[str]:
    """Where a trial may write by an absolute path: caches, temporary files and devices; resolved."""
    home = os.path.expanduser("~")
    places = {tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev", "/dev/shm", "/proc", "/sys"}
    places |= {os.path.join(home, name) for name in (".cache", ".triton", ".nv")}
    # Measured ceilings are kept there.
    places.add(platformdirs.user_data_dir("boundby"))
    named = (place for name, place in os.environ.items() if "CACHE" in name or name in _CACHES)
    places |= {place for place in named if os.path.isabs(place)}
    # Compiled code is kept there from one run to the next.
    places |= set(glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), "torchinductor_*")))
    return frozenset(map(os.path.realpath, places)) - {os.sep, os.path.realpath(home)}


def home_path(text: str, root: Path, *, in_json: bool = False) -> str:
    """A text in which what lies below ``root`` is called by its name in the user's file system.

    Args:
        text: a path, or a text with paths.
        root: as given to ``make_aside``.
        in_json: whether the text is JSON, in which a path may be written with escapes.
    """
    # The longer first: it may end with the other.
    for one in sorted({str(root), os.path.realpath(root)}, key=len, reverse=True):
        written = one
        if in_json:
            written = json.dumps(one, ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace").decode()
        text = text.replace(written + os.sep, os.sep)
    return text


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda one: one.name)
    except OSError:  # what the user may not read, the script may not either
        return []


def _mirror(folder: Path, aside: Path, *, without: Sequence[os.stat_result]) -> None:
    left = MOST_LINKS
    todo = [(folder, aside)]
    while todo:
        source, target = todo.pop()
        for entry in _entries(source):
            place = target / entry.name
            left -= 1
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and any(os.path.samestat(entry.stat(follow_symlinks=False), one) for one in without):
                continue
            mirrored = is_folder and entry.name not in _WHOLE and left > 0
            if mirrored:
                place.mkdir()
                todo.append((Path(entry.path), place))
            else:
                place.symlink_to(entry.path)


class Guard:
    """Hears of every file that is about to be written in this process, and sees that it is none of the user's."""

    def __init__(self, folders: Sequence[Path], root: Path) -> None:
        self.roots = tuple(dict.fromkeys((os.path.abspath(root), os.path.realpath(root))))
        self.free = free_folders()
        guarded = set(map(os.path.realpath, folders))
        # Someone who works in a folder of the temporary ones has files of their own beside it.
        for folder in tuple(guarded):
            around = self._free_around(folder)
            if around not in ("", folder):
                guarded.add(os.path.join(around, os.path.relpath(folder, around).split(os.sep)[0]))
        # In a folder that is both, what is there already is the user's.
        for folder in guarded & self.free:
            guarded |= {entry.path for entry in _entries(Path(folder))} - {os.path.dirname(self.roots[-1])}
        self.guarded = frozenset(guarded - self.free) - set(self.roots)
        self._busy = False

    def install(self) -> None:
        """From now on, until the process ends."""
        sys.addaudithook(self._heard)

    def before_write(self, path: Any, *, emptied: bool = False) -> None:
        """A file or folder at ``path`` is about to be written, made, moved or removed.

        Raises:
            WriteRefused: it lies in one of the user's folders.
        """
        if isinstance(path, int):
            return
        self._led_aside(os.fsdecode(path), emptied=emptied)
        self._check(os.path.realpath(os.fsdecode(path)))

    def before_entry(self, path: Any) -> None:
        """Something is about to be made, moved or removed, which changes its folder; it may itself be a link.

        Raises:
            WriteRefused: it lies in one of the user's folders.
        """
        folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
        self._led_aside(folder)
        above = os.path.dirname(os.fsdecode(path).rstrip(os.sep)) or "."
        self._check(os.path.join(os.path.realpath(above), name))

    def _led_aside(self, path: str, *, emptied: bool = False) -> None:
        place = os.path.abspath(path)
        for root in self.roots:
            if _is_below(place, root):
                self._make_own(place, root, emptied=emptied)
                return

    def _check(self, place: str) -> None:
        """Raises ``WriteRefused`` for a resolved place that is the user's; the nearest folder around it decides."""
        if any(_is_below(place, root) for root in self.roots):
            return
        guarded = max((one for one in self.guarded if _is_below(place, one)), key=len, default="")
        if len(self._free_around(place)) <= len(guarded):
            raise WriteRefused(
                tr("the script writes to {place} by its full path, which a trial cannot lead aside", place=place)
            )

    def _free_around(self, place: str) -> str:
        return max((one for one in self.free if _is_below(place, one)), key=len, default="")

    def _make_own(self, place: str, root: str, *, emptied: bool) -> None:
        parts = os.path.relpath(place, root).split(os.sep)
        at = root
        for depth, part in enumerate(parts):
            at = os.path.join(at, part)
            if not os.path.islink(at):
                continue
            source = os.path.realpath(at)
            os.unlink(at)
            if depth < len(parts) - 1 or os.path.isdir(source):
                os.mkdir(at)
                for name in os.listdir(source):
                    os.symlink(os.path.join(source, name), os.path.join(at, name))
            elif os.path.exists(source):
                if emptied:
                    Path(at).touch()
                else:
                    shutil.copy2(source, at)

    def _heard(self, event: str, args: tuple[Any, ...]) -> None:
        act = _EVENTS.get(event)
        if act is None or self._busy:
            return
        # What making a copy opens and removes is our own doing.
        self._busy = True
        try:
            act(self, args)
        finally:
            self._busy = False


def _opened(guard: Guard, args: tuple[Any, ...]) -> None:
    path, mode, flags = args
    if path is None:
        return
    writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
    if writes:
        emptied = "w" in mode if isinstance(mode, str) else bool((flags or 0) & os.O_TRUNC)
        guard.before_write(path, emptied=emptied)


def _one_path(guard: Guard, args: tuple[Any, ...]) -> None:
    if isinstance(args[0], (str, bytes, os.PathLike)):
        guard.before_entry(args[0])


def _two_paths(guard: Guard, args: tuple[Any, ...]) -> None:
    _one_path(guard, args)
    _one_path(guard, args[1:])


_EVENTS: dict[str, Callable[[Guard, tuple[Any, ...]], None]] = {
    "open": _opened,
    "os.remove": _one_path,
    "os.rmdir": _one_path,
    "os.mkdir": _one_path,
    "os.truncate": lambda guard, args: guard.before_write(args[0]),
    "os.rename": _two_paths,
    "os.link": _two_paths,
    "os.symlink": lambda guard, args: _one_path(guard, args[1:]),
    "shutil.rmtree": _one_path,
}


def guard_torch_save(guard: Guard) -> None:
    """torch writes its files in C++, which tells nobody: the moment before is when it makes the writer."""
    from torch import serialization

    plain: Any = serialization._open_zipfile_writer

    def writer(name_or_buffer: Any) -> Any:
        if isinstance(name_or_buffer, (str, os.PathLike)):
            guard.before_write(name_or_buffer, emptied=True)
        return plain(name_or_buffer)

    vars(serialization)["_open_zipfile_writer"] = writer


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)
