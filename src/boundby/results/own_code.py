"""Whose a source file is, by its path: the user's own to change, an installed package's, Python's or boundby's."""

from __future__ import annotations

import os
import sysconfig
from typing import TypeGuard

# Folders of installed packages, whichever Python they are of.
PACKAGE_FOLDERS = ("site-packages", "dist-packages")
BOUNDBY_ROOT = __file__.rpartition("results")[0]

_LABS_ROOT = f"{BOUNDBY_ROOT}labs{os.sep}"
_PACKAGE_PARTS = tuple(f"{os.sep}{one}{os.sep}" for one in PACKAGE_FOLDERS)


def _roots(*kinds: str) -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple({paths[kind] + os.sep for kind in kinds if paths.get(kind)})


_PACKAGE_ROOTS = _roots("purelib", "platlib")
_PYTHON_ROOTS = _roots("stdlib", "platstdlib")


def is_own(path: str | None) -> TypeGuard[str]:
    """Whether a file can be the user's own to change; the labs' files count, as they stand in for a user's script.

    Args:
        path: as Python names it; None is unknown, and what begins with ``<`` is no file.
    """
    if path is None or path.startswith("<"):
        return False
    return path.startswith(_LABS_ROOT) or not (is_boundbys(path) or is_installed(path) or is_pythons(path))


def is_boundbys(path: str) -> bool:
    """Whether a file is boundby's own; its labs stand in for a user's script and are not."""
    return path.startswith(BOUNDBY_ROOT) and not path.startswith(_LABS_ROOT)


def is_installed(path: str) -> bool:
    """Whether a file is of an installed package."""
    return path.startswith(_PACKAGE_ROOTS) or any(part in path for part in _PACKAGE_PARTS)


def is_pythons(path: str) -> bool:
    """Whether a file is of the standard library, in whose folder packages may be installed."""
    return path.startswith(_PYTHON_ROOTS) and not is_installed(path)
