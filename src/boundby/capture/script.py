"""Run a user's script or module as ``python`` would, in this process, as ``__main__``.

The script gets a ``__main__`` module of its own, its ``sys.argv`` and ``sys.path[0]``. That module stays in
``sys.modules`` afterwards, so that ``atexit`` handlers, threads, pickling and ``multiprocessing`` find it.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import runpy
import sys
import types
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path

from boundby.capture.tracebacks import own_frames_removed
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to run: a script's path or a module's name, and its own arguments."""

    name: str
    is_module: bool
    args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the script ended: its exit status as ``python`` would give it, and the exception that ended it, if any.

    ``status`` is -2 (SIGINT) for an uncaught KeyboardInterrupt, as ``python`` ends itself by that signal.
    """

    status: int
    error: BaseException | None = None


def check_target(target: Target) -> None:
    """Refuse a target that cannot be run before anything else is done.

    Raises:
        BoundbyError: ``no-such-script``, ``no-such-module``, ``script-unreadable``.
    """
    if target.is_module:
        _check_module(target.name)
        return
    path = Path(target.name)
    if not path.exists():
        raise BoundbyError(
            "no-such-script",
            tr("no such script: {name}", name=target.name),
            tr("Give the path of a Python script, or -m MODULE. Options of boundby come before it."),
            status=EXIT_USAGE,
        )
    if path.is_dir() and not (path / "__main__.py").exists():
        raise BoundbyError(
            "script-unreadable",
            tr("{name} is a folder without a {file}", name=target.name, file="__main__.py"),
            tr("Name a script in it."),
            status=EXIT_USAGE,
        )
    if path.is_file() and not os.access(path, os.R_OK):
        raise BoundbyError(
            "script-unreadable",
            tr("{name} cannot be read", name=target.name),
            tr("Check its permissions."),
            status=EXIT_USAGE,
        )


def _check_module(name: str) -> None:
    """Refuse a module whose outermost package is nowhere; nothing of the user's is imported for it."""
    top, kept = name.partition(".")[0], list(sys.path)
    if not sys.flags.safe_path:
        sys.path[:1] = [os.getcwd()]
    try:
        known = bool(top) and importlib.util.find_spec(top) is not None
    except ValueError:  # what is imported already and has no spec
        known = True
    finally:
        sys.path[:] = kept
    if not known:
        raise BoundbyError(
            "no-such-module",
            tr("no module named {name}", name=repr(name)),
            tr("Modules are looked for in the working folder and in those of sys.path. A file is named without -m."),
            status=EXIT_USAGE,
        )


def run_target(target: Target) -> Outcome:
    """Run the target to its end; an exception it raises is shown as ``python`` shows it, through ``sys.excepthook``."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __cached__=None)
    sys.modules["__main__"] = main
    try:
        if target.is_module:
            _run_module(target)
        else:
            _run_path(target, main)
    except SystemExit as exit_:
        return Outcome(status=_exit_status(exit_))
    except BaseException as error:
        own_frames_removed(error)
        sys.excepthook(type(error), error, error.__traceback__)
        return Outcome(status=-2 if isinstance(error, KeyboardInterrupt) else 1, error=error)
    return Outcome(status=0)


def _run_module(target: Target) -> None:
    sys.argv[:] = ["-m", *target.args]
    _set_first_path(os.getcwd())
    # The very function behind `python -m`: it also words the errors for a module that does not exist.
    runpy._run_module_as_main(target.name)  # type: ignore[attr-defined]  # absent from typeshed


def _run_path(target: Target, main: types.ModuleType) -> None:
    sys.argv[:] = [target.name, *target.args]
    if os.path.isdir(target.name) or zipfile.is_zipfile(target.name):
        _set_first_path(os.path.join(os.getcwd(), target.name))
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]  # absent from typeshed
        return
    _set_first_path(os.path.dirname(os.path.realpath(target.name)))
    # As python does: the file's path is made absolute, sys.argv[0] stays as typed.
    path = os.path.join(os.getcwd(), target.name)
    main.__dict__.update(__file__=path, __loader__=SourceFileLoader("__main__", path), __spec__=None)
    with open(path, "rb") as file:
        source = file.read()
    code = compile(source, path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _set_first_path(first: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = first


def _exit_status(exit_: SystemExit) -> int:
    code = exit_.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def split_command(words: Sequence[str], module: str | None) -> Target:
    """The target from the command line's words after boundby's own options."""
    if module is not None:
        return Target(name=module, is_module=True, args=tuple(words))
    return Target(name=words[0], is_module=False, args=tuple(words[1:]))
