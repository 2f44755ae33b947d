"""Errors that a user can act on.

Each carries a stable code (the name of its page in the documentation), what happened, and what to do.
"""

from __future__ import annotations

EXIT_DONE = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_BUDGET = 3
EXIT_INTERRUPTED = 130


class BoundbyError(Exception):
    """A mistake or a circumstance the user can do something about.

    Args:
        code: stable, kebab-case, never translated: ``no-steps``, ``output-exists``...
        message: what happened and what was expected, one line.
        advice: what to do now, one line.
        status: the exit status of the command that meets it.
    """

    def __init__(self, code: str, message: str, advice: str = "", *, status: int = EXIT_ERROR) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.advice = advice
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]" + (f" {self.advice}" if self.advice else "")
