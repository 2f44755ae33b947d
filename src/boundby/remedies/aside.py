"""Where trial runs write: a folder that looks like the user's own and is thrown away.

A trial runs the script several times over, killed in the middle. Its checkpoints, logs and caches must not land in the
user's folder, nor overwrite what is there. So it runs in a folder of links: folders are real, files are links to the
user's. Reading follows the links; a file that is opened for writing is made a copy (or, if it is to be emptied, a new
file) just before. The folders above are there too, with links to what lies beside, so that a path with ``..`` (the
script's own, or one that it opens) leads where it does in the user's folder. What the script writes into the user's
folder, or into its own, by an absolute path cannot be led aside, and is refused. Everything else, such as caches in the
home folder, is the script's own affair.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from boundby.capture.script import Target
from boundby.results.language import tr

# Folders whose content is not mirrored but linked as a whole: nobody trains into them.
_WHOLE = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "env", "node_modules", "__pycache__", ".tox", ".mypy_cache"}
)
# Beyond so many files, further folders are linked as a whole and mirrored only when something is written in them.
MOST_LINKS = 20_000
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
    # Caches and temporary files are not the script's results, wherever it lies.
    shared = (os.path.expanduser("~"), tempfile.gettempdir())
    if any(_is_below(os.path.realpath(place), str(own)) for place in shared) or own.is_relative_to(folder):
        return (folder,)
    return (folder, own)


def home_path(path: str, root: Path) -> str:
    """A text in which what lies below ``root`` is called by its name in the user's file system.

    Args:
        path: a path, or a text with paths.
        root: as given to ``make_aside``.
    """
    for one in sorted({str(root), os.path.realpath(root)}, key=len, reverse=True):
        path = path.replace(one + os.sep, os.sep)
    return path


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
        self.folders: Collection[str] = tuple(os.path.abspath(folder) for folder in folders)
        self.root = os.path.abspath(root)
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
        place = os.path.abspath(os.fsdecode(path))
        if _is_below(place, self.root):
            self._make_own(place, emptied=emptied)
        elif any(_is_below(place, folder) for folder in self.folders):
            raise WriteRefused(
                tr("the script writes to {place} by its full path, which a trial cannot lead aside", place=place)
            )

    def _make_own(self, place: str, *, emptied: bool) -> None:
        parts = os.path.relpath(place, self.root).split(os.sep)
        at = self.root
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
    # Making, removing or moving something changes its folder: that must be our own, the thing itself may be a link.
    path = args[0]
    if isinstance(path, (str, bytes, os.PathLike)):
        guard.before_write(os.path.join(os.path.dirname(os.path.abspath(os.fsdecode(path))), "."))


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
