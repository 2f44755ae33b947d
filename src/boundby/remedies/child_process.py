"""How a process that runs the user's script starts: with boundby's own modules first, then as ``python SCRIPT`` would.

``python -m`` puts the current folder first among those that modules are looked for in, where a ``random.py`` of the
user's would be imported in place of Python's; ``python -P`` would tell the script, too, to import nothing of its own
folder.
"""

from __future__ import annotations

import sys

_FIRST = "import sys; sys.path[0] = sys.path[0] if sys.flags.safe_path else sys.exec_prefix"


def child_command(module: str) -> list[str]:
    """The command that calls ``main()`` of a module of this package; its arguments follow.

    Args:
        module: its full name. ``main`` returns the status, and finds its arguments in ``sys.argv``.
    """
    return [sys.executable, "-c", f"{_FIRST}; from {module} import main; sys.exit(main())"]
