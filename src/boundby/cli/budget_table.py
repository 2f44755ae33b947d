"""The budgets of a project: the nearest pyproject.toml that has a ``[tool.boundby]`` table."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from boundby.bound.budget_limits import budgets_for, read_tolerance
from boundby.results.budgets import Budget
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.files import read_file
from boundby.results.language import tr

NAME = "pyproject.toml"
_KEYS = ("budgets", "bytes_tolerance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a project allows: its budgets, and by what part bytes may be above those of a baseline (None: not said)."""

    budgets: tuple[Budget, ...] = ()
    bytes_tolerance: float | None = None


def find_limits(target: str | None) -> Limits:
    """The limits that a project has for a script or a module.

    Looked for upwards from the script's folder, then from the working folder; the first pyproject.toml with a
    ``[tool.boundby]`` table is the one. None is found: no limits.

    Args:
        target: the script's path, or the module's name; None where neither is known.

    Raises:
        BoundbyError: ``bad-pyproject``, ``unknown-budget`` or ``bad-budget``.
    """
    script = Path(target).resolve() if target is not None and Path(target).exists() else None
    starts = [Path.cwd()] if script is None else [script.parent, Path.cwd()]
    for start in starts:
        for folder in (start, *start.parents):
            table = _table(folder / NAME)
            if table is not None:
                below = script is not None and script.is_relative_to(folder)
                name = script.relative_to(folder).as_posix() if script is not None and below else target
                return _limits(table, folder / NAME, name)
    return Limits()


def _table(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    try:
        content = tomllib.loads(read_file(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BoundbyError(
            "bad-pyproject",
            tr("{path} is no TOML: {why}.", path=path, why=error),
            tr("Correct the file."),
            status=EXIT_USAGE,
        ) from None
    table = content.get("tool", {}).get("boundby")
    if table is not None and not isinstance(table, Mapping):
        raise _not_a_table(path, "tool.boundby")
    return table


def _limits(table: Mapping[str, Any], path: Path, target: str | None) -> Limits:
    for key in table:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1, cutoff=0.5)
            raise BoundbyError(
                "bad-pyproject",
                tr("{path}: [tool.boundby] holds no {key}.", path=path, key=repr(key)),
                tr("Did you mean {names}?", names=near[0]) if near else tr("It holds {names}.", names=", ".join(_KEYS)),
                status=EXIT_USAGE,
            )
    budgets = table.get("budgets", {})
    if not isinstance(budgets, Mapping):
        raise _not_a_table(path, "tool.boundby.budgets")
    tolerance = table.get("bytes_tolerance")
    return Limits(
        budgets=budgets_for(budgets, target=target, source=f"{NAME} [tool.boundby.budgets]"),
        bytes_tolerance=None if tolerance is None else read_tolerance(tolerance, source=f"{NAME} [tool.boundby]"),
    )


def _not_a_table(path: Path, name: str) -> BoundbyError:
    return BoundbyError(
        "bad-pyproject",
        tr("{path}: {name} is no table.", path=path, name=name),
        tr("Write it as a table: {example}", example="[tool.boundby.budgets]"),
        status=EXIT_USAGE,
    )
