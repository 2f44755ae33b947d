"""``%load_ext boundby``: the magics ``%boundby`` and ``%%boundby``, which explain a statement or a cell as a step.

Reports and machines show themselves in notebooks without the extension.
"""

from __future__ import annotations

import ast
import dis
import keyword
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from boundby.results.errors import BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.results.report import Report

# A running IPython; most of its methods have no types.
Shell = Any

_COUNTS = {"--warmup": "warmup", "--steps": "steps", "--watch": "watch"}
_FLAGS = {"--force": "force", "-q": "quiet", "--quiet": "quiet"}
_OUTPUTS = ("-o", "--output")
_WORD = re.compile(r"\s*(?:\"([^\"]*)\"|'([^']*)'|(\S+))\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class MagicLine:
    """What stands behind ``%boundby``: options, and the code after them."""

    code: str = ""
    warmup: int | None = None
    steps: int | None = None
    watch: int | None = None
    variable: str | None = None
    file: Path | None = None
    force: bool = False
    quiet: bool = False


def load_ipython_extension(shell: Shell) -> None:
    """Adds the magics to an IPython; called by ``%load_ext boundby``."""
    from IPython.core.magic import no_var_expand

    @no_var_expand
    def boundby(line: str, cell: str | None = None) -> Report | None:
        """Say what bounds a statement, or a cell, that is run again and again as one step.

        Usage, in line mode:
          %boundby [--warmup N] [--steps N] [--watch N] [-o NAME] [--force] [-q] STATEMENT
        or in cell mode:
          %%boundby [--warmup N] [--steps N] [--watch N] [-o NAME] [--force] [-q] [SETUP]
          cell

        The cell is one step: it is run some 20 to 90 times, until times settle and enough of it was watched. SETUP is
        run once before. Both run in your own variables, as any cell does: what they assign stays, and what they change
        (a model's weights, a generator) is changed each time.

        Options:
          --warmup N   steps before the first timed one [default: until times settle]
          --steps N    steps to time [default: about two seconds' worth]
          --watch N    steps to watch, at least 2 [default: about a second's worth]
          -o NAME      put the report into a variable, or write it to a file that ends in .json, .html or .md;
                       may be given twice
          --force      replace the file if it exists
          -q           do not show the report

        The report is also what the magic returns: report = %boundby STATEMENT
        """
        __tracebackhide__ = True
        return _explained(shell, line, cell)

    shell.register_magic_function(boundby, "line_cell", "boundby")


def _explained(shell: Shell, line: str, cell: str | None) -> Report | None:
    from IPython.core.error import UsageError

    __tracebackhide__ = True  # IPython's tracebacks go from the cell's call to the cell's code
    try:
        asked = read_magic_line(line)
        if not (asked.code if cell is None else cell).strip():
            raise BoundbyError(
                "no-code",
                tr("There is no code to explain."),
                tr("Write a statement behind %boundby, or the step's code on the lines under %%boundby."),
            )
        if asked.file is not None:
            from boundby.report.report_file import check_report_file

            check_report_file(asked.file, force=asked.force)
    except BoundbyError as error:
        raise UsageError(str(error)) from None
    if cell is None:
        setup, step = None, _compiled(shell, asked.code)
    else:
        setup = _compiled(shell, asked.code) if asked.code else None
        step = _compiled(shell, cell, lines_before=1)
    try:
        report = _report(shell, asked, setup, step, named=_expression(asked.code) if cell is None else None)
    except Exception as error:
        own = _from_code_on(error.__traceback__, (setup, step))
        if own is not None:  # the user's own exception, told as if the cell had raised it by itself
            raise error.with_traceback(own) from error.__cause__
        if isinstance(error, BoundbyError):
            raise UsageError(str(error)) from None
        raise
    if asked.variable is not None:
        shell.user_ns[asked.variable] = report
    return None if asked.quiet and not _is_used() else report


def _report(
    shell: Shell, asked: MagicLine, setup: CodeType | None, step: CodeType, *, named: str | None = None
) -> Report:
    """Explains, and writes the file that was asked for; ``named`` is the step as one expression, where it is one."""
    import torch

    from boundby.api import explain
    from boundby.machine.ensure import ensure_machine

    def run(code: CodeType) -> None:
        exec(code, shell.user_global_ns, shell.user_ns)

    if setup is not None:
        run(setup)
    # Measured now, while nothing of the step runs yet, and kept: what follows finds it.
    ensure_machine(threads=torch.get_num_threads(), progress=_measuring_told())
    report = explain(lambda: run(step), warmup=asked.warmup, steps=asked.steps, watch=asked.watch)
    if named is not None:
        report = replace(report, step=replace(report.step, name=named))
    if asked.file is not None:
        from boundby.report.report_file import write_report_file

        write_report_file(report, asked.file, force=asked.force, folder=str(Path.cwd()))
        print(tr("Wrote {file}", file=asked.file), file=sys.stderr)
    return report


def read_magic_line(line: str) -> MagicLine:
    """The options at the beginning of a magic's line, and what follows them, as it stands.

    Args:
        line: what follows ``%boundby``. The first word that is no option begins the code; ``--`` before it allows code
            that begins with a minus.

    Raises:
        BoundbyError: ``magic-option`` for an option that there is not, or that lacks its value.
    """
    values: dict[str, Any] = {}
    rest = line.strip()
    while rest.startswith("-"):
        word, rest = _first_word(rest)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in _FLAGS and not equals:
            values[_FLAGS[name]] = True
            continue
        if name not in _COUNTS and name not in _OUTPUTS:
            raise _no_option(word)
        if not equals:
            value, rest = _first_word(rest)
        if name in _COUNTS and value.isdecimal():
            values[_COUNTS[name]] = int(value)
        elif name in _OUTPUTS and value:
            values |= _output(value)
        else:
            raise BoundbyError(
                "magic-option",
                tr("{option} needs a whole number, not {value!r}.", option=name, value=value)
                if name in _COUNTS
                else tr("{option} needs the name of a variable or file.", option=name),
                tr("%boundby? shows all options."),
            )
    return MagicLine(code=rest, **values)


def _output(value: str) -> dict[str, Any]:
    """``-o NAME``: a word that can be a variable is one, any other is a file."""
    if value.isidentifier() and not keyword.iskeyword(value):
        return {"variable": value}
    return {"file": Path(value).expanduser()}


def _first_word(text: str) -> tuple[str, str]:
    """The first word, which may be quoted, and the rest."""
    found = _WORD.match(text)
    if found is None:
        return "", ""
    return next(one for one in found.groups()[:3] if one is not None), found[4]


def _no_option(word: str) -> BoundbyError:
    return BoundbyError(
        "magic-option",
        tr("%boundby has no option {option}.", option=word),
        tr("%boundby? shows all options; write -- before code that begins with a minus."),
    )


def _expression(code: str) -> str | None:
    """The code without what surrounds it, where it is one expression on one line."""
    text = code.strip().rstrip(";").rstrip()
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return None
    return None if "\n" in text or "#" in text else text


def _compiled(shell: Shell, source: str, *, lines_before: int = 0) -> CodeType:
    """The code as IPython itself would compile it, its lines numbered as in the cell they stand in."""
    blank = len(source) - len(source.lstrip())  # IPython drops blank lines that come first
    text = "\n" * (lines_before + source.count("\n", 0, blank)) + shell.transform_cell(source)
    name = shell.compile.cache(text, number=shell.displayhook.prompt_count, raw_code=text)
    tree = shell.transform_ast(shell.compile.ast_parse(text, filename=name))
    code: CodeType = shell.compile(tree, name, "exec")
    return code


def _is_used() -> bool:
    """Whether the cell does something with what the magic returns, as by assigning it, other than show it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("IPython", "boundby"):
        frame = frame.f_back
    if frame is None:
        return False
    after = (one for one in dis.get_instructions(frame.f_code) if one.offset > frame.f_lasti)
    following = next(after, None)
    # A statement's value is dropped, the last one's of a cell is shown; the latter is an intrinsic from 3.12 on.
    return following is not None and not (
        following.opname in ("POP_TOP", "PRINT_EXPR")
        or (following.opname == "CALL_INTRINSIC_1" and following.argrepr == "INTRINSIC_PRINT")
    )


def _from_code_on(trace: TracebackType | None, codes: tuple[CodeType | None, ...]) -> TracebackType | None:
    """The part of a traceback from the first frame of the user's code on; None where it does not reach it."""
    while trace is not None and not any(trace.tb_frame.f_code is code for code in codes if code is not None):
        trace = trace.tb_next
    return trace


def _measuring_told() -> Callable[[float, str], None]:
    """Says once that the machine is being measured."""
    from boundby.machine.ensure import measuring_notice

    told = False

    def tell(share: float, what: str) -> None:
        nonlocal told
        if not told:
            told = True
            print(f"boundby: {measuring_notice(20)}", file=sys.stderr, flush=True)

    return tell
