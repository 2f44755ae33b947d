"""Which files are the script's own, and which of their lines bears a name; read as text, nothing is run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, ModuleType
from typing import Any

from boundby.capture.raw import attributes_of, file_of, file_of_class, module_of
from boundby.results.habits import Place
from boundby.results.own_code import is_own


def users_modules() -> Iterator[tuple[ModuleType, str]]:
    """The script's own modules with their files, the main one first."""
    named = sys.modules.get("__main__")
    for module in [named, *(one for one in list(sys.modules.values()) if one is not named)]:
        path = file_of(module)
        if module is not None and is_own(path):
            yield module, path


def belongs_to_users(kind: type) -> bool:
    """Whether a class is the script's own."""
    path = file_of_class(kind)
    return module_of(kind) == "__main__" or is_own(path)


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


def only_call_of(objects: Iterable[Any]) -> Place:
    """The line of the script's own files that calls one of these objects; nothing unless there is exactly one.

    What is called is looked up in the names of the line's module, so that another function of the same name is none of
    them. Names that a function has of its own are not known, and a call that switches off (``False``) is none.
    """
    wanted = {id(one) for one in objects}
    found: dict[tuple[str, int], str] = {}
    for module, path in users_modules():
        parsed = _parsed(path)
        if parsed is None:
            continue
        source, tree = parsed
        names = attributes_of(module) or {}
        own = _names_of_functions(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and not _switches_off(node):
                called = _resolved(node.func, names, own)
                if called is not None and id(called) in wanted:
                    found[path, node.lineno] = source
    if len(found) != 1:
        return Place()
    (((path, line), source),) = found.items()
    return _place(path, source, line)


def _resolved(node: ast.expr, names: dict[str, Any], own: set[str]) -> Any:
    """What a dotted name stands for, by a module's names and through modules and classes alone; None if unknown."""
    if isinstance(node, ast.Name):
        return None if node.id in own else names.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = _resolved(node.value, names, own)
    return (attributes_of(owner) or {}).get(node.attr) if type(owner) is ModuleType else None


def _switches_off(call: ast.Call) -> bool:
    given = [*call.args[:1], *(one.value for one in call.keywords if one.arg in ("mode", "enabled"))]
    return any(isinstance(one, ast.Constant) and one.value is False for one in given)


def _names_of_functions(tree: ast.Module) -> set[str]:
    """Names that some function of a file gives another meaning than its module does."""
    found: set[str] = set()
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                found.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node is not function:
                found.add(node.name)
            # import torch names the same package wherever it stands.
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                plain = isinstance(node, ast.Import)
                found |= {one.asname or one.name for one in node.names if one.asname or not plain}
    return found


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
