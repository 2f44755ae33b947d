"""``boundby run`` in a folder of links: ``main`` of this module, with the arguments FOLDER COMMAND...

A run that is stopped early must overwrite nothing of the user's, any more than a trial may. COMMAND is the command line
of the program that is to run here, its first word the module it is (``boundby``).
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from boundby.capture.imports import after_import
from boundby.remedies.aside import Guard, guard_torch_save


def main() -> None:
    """Guard the user's folder, then become the command."""
    folder, module, *words = sys.argv[1:]
    guard = Guard(Path(folder), Path.cwd())
    guard.install()
    after_import("torch", lambda: guard_torch_save(guard))
    sys.argv[:] = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
