"""``boundby run`` in a folder of links: ``main`` of this module, with the arguments ROOT FOLDER... -- COMMAND...

A run that is stopped early must overwrite nothing of the user's, any more than a trial may. FOLDERs are those of the
user's that are guarded, ROOT is what stands for the root of the file system. COMMAND is the command line of the program
that is to run here, its first word the module it is (``boundby``).
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from boundby.capture.imports import after_import
from boundby.remedies.aside import Guard, guard_torch_save


def main() -> None:
    """Guard the user's folders, then become the command."""
    end = sys.argv.index("--")
    root, *folders = map(Path, sys.argv[1:end])
    module, *words = sys.argv[end + 1 :]
    guard = Guard(folders, root)
    guard.install()
    after_import("torch", lambda: guard_torch_save(guard))
    sys.argv[:] = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
