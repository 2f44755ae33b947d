"""Which files are the script's own, and which of their lines bears a name; read as text, nothing is run."""

from __future__ import annotations

import ast
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType, ModuleType

from boundby.results.habits import Place

_INSTALLED = tuple(
    {path + "/" for name in ("purelib", "platlib", "stdlib", "platstdlib") if (path := sysconfig.get_paths()[name])}
)
_OWN = __file__.rpartition("capture")[0]
_LABS = _OWN + "labs/"


def is_users_file(path: str) -> bool:
    """Whether a file is neither installed, nor Python's, nor boundby's own; its labs stand in for a user's script."""
    return path.startswith(_LABS) or not path.startswith((*_INSTALLED, _OWN, "<"))


def users_modules() -> Iterator[tuple[ModuleType, str]]:
    """The script's own modules with their files, the main one first."""
    named = sys.modules.get("__main__")
    for module in [named, *(one for one in list(sys.modules.values()) if one is not named)]:
        path = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
        if isinstance(module, ModuleType) and isinstance(path, str) and is_users_file(path):
            yield module, path


def growing_line(path: str | None, name: str, frame: FrameType | None) -> Place:
    """The line in a file that adds to what bears this name, in the frame's own function if one is there.

    Args:
        path: the file; None is unknown.
        name: a variable's, or an attribute's.
        frame: of a function, in which the line is looked for first.
    """
    if path is None:
        return Place()
    parsed = _parsed(path)
    if parsed is None:
        return Place(path=path)
    source, tree = parsed
    found = sorted(node.lineno for node in ast.walk(tree) if isinstance(node, _STATEMENTS) and _grows(node, name))
    if frame is not None and frame.f_code.co_name != "<module>":
        numbers = [line for _, _, line in frame.f_code.co_lines() if line is not None]
        found = [line for line in found if min(numbers) <= line <= max(numbers)] or found
    if not found:
        return Place(path=path)
    return _place(path, source, found[0])


def first_naming(names: frozenset[str]) -> Place:
    """The first line of the script's own files that calls something of one of these names."""
    for _, path in users_modules():
        parsed = _parsed(path)
        if parsed is None:
            continue
        source, tree = parsed
        lines = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) in names]
        if lines:
            return _place(path, source, min(lines))
    return Place()


def _called(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)


def _place(path: str, source: str, line: int) -> Place:
    return Place(path=path, line=line, code=source.splitlines()[line - 1].strip()[:200])


def _parsed(path: str) -> tuple[str, ast.Module] | None:
    """A file's text and syntax; None where it is no Python text."""
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
        return source, ast.parse(source)
    except (OSError, SyntaxError, ValueError):
        return None


_STATEMENTS = (ast.Call, ast.AugAssign, ast.Assign)
_GROWING_CALLS = frozenset({"append", "extend", "appendleft", "insert", "setdefault", "update"})


def _grows(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        called = node.func
        return isinstance(called, ast.Attribute) and called.attr in _GROWING_CALLS and _is_named(called.value, name)
    if isinstance(node, ast.AugAssign):
        return _is_named(node.target, name)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and _is_named(target.value, name):
                return True
            # total = total + loss
            if _is_named(target, name) and any(_is_named(one, name) for one in ast.walk(node.value)):
                return True
    return False


def _is_named(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_named(node.value, name)
    if isinstance(node, ast.Attribute):
        return node.attr == name
    return isinstance(node, ast.Name) and node.id == name
