"""The console entry: one group, its commands imported only when they are called, errors told in one line."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

import click

from boundby._version import __version__
from boundby.cli.options import language_option, writable_language
from boundby.results.errors import EXIT_DONE, EXIT_ERROR, EXIT_INTERRUPTED, BoundbyError
from boundby.results.language import choose_language, environment_language, tr

# What a shell reports for a program that SIGPIPE ended, as it ends other programs whose reader went away.
EXIT_BROKEN_PIPE = 141

_COMPLETION_VARIABLE = "_BOUNDBY_COMPLETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """Where a command lives, and its one line in the list, so that listing commands imports none."""

    module: str
    attribute: str
    short_help: str


COMMANDS = {
    "run": LazyCommand(
        module="boundby.cli.run",
        attribute="run_command",
        short_help="Run an unmodified script and say what bounds its steps.",
    ),
    "count": LazyCommand(
        module="boundby.cli.count",
        attribute="count_command",
        short_help="Count FLOPs, bytes and saved memory by module.",
    ),
    "sweep": LazyCommand(
        module="boundby.cli.sweep",
        attribute="sweep_command",
        short_help="Time a model against its batch or any other size.",
    ),
    "scaling": LazyCommand(
        module="boundby.cli.scaling",
        attribute="scaling_command",
        short_help="Say what more threads or workers bring, and what stays serial.",
    ),
    "try": LazyCommand(
        module="boundby.cli.try_",
        attribute="try_command",
        short_help="Try remedies on an unmodified script, beside the script as it is.",
    ),
    "show": LazyCommand(
        module="boundby.cli.show",
        attribute="show_command",
        short_help="Show a saved report or machine file again.",
    ),
    "report": LazyCommand(
        module="boundby.cli.report",
        attribute="report_command",
        short_help="Make a page of a saved file, to look at and to mail.",
    ),
    "decode": LazyCommand(
        module="boundby.cli.decode",
        attribute="decode_command",
        short_help="Say on paper how fast a language model decodes.",
    ),
    "validate": LazyCommand(
        module="boundby.cli.validate",
        attribute="validate_command",
        short_help="Compare such estimates with published measurements.",
    ),
    "machine": LazyCommand(
        module="boundby.cli.machine",
        attribute="machine_command",
        short_help="Measure, or show, the ceilings of this machine.",
    ),
    "doctor": LazyCommand(
        module="boundby.cli.doctor",
        attribute="doctor_command",
        short_help="Say what could spoil a measurement here.",
    ),
    "lab": LazyCommand(
        module="boundby.cli.lab",
        attribute="lab_command",
        short_help="Show learners what binds on this machine, in three labs.",
    ),
    "compare": LazyCommand(
        module="boundby.cli.compare",
        attribute="compare_command",
        short_help="Say what changed between two reports, or two machines.",
    ),
    "check": LazyCommand(
        module="boundby.cli.check",
        attribute="check_command",
        short_help="Hold a step against its budgets and a baseline.",
    ),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is invoked, and not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names, the main job first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None where there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        if not any(one.name == "lang" for one in command.params):
            command.params.append(language_option())
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands from the table here, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command of the first argument.

        Raises:
            click.UsageError: there is none; names the nearest ones, or `boundby run` where a script was given.
        """
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
        if os.path.isfile(name):
            hint = tr("To explain a script: {command}", command=f"boundby run {name}")
        elif near:
            hint = (
                tr("Did you mean {name}?", name=near[0])
                if len(near) == 1
                else tr("Did you mean {name} or {other}?", name=near[0], other=near[1])
            )
        else:
            hint = tr("Commands: {names}.", names=", ".join(COMMANDS))
        raise click.UsageError(tr("There is no command {name}. {hint}", name=repr(name), hint=hint), ctx)


@click.group(
    cls=LazyGroup,
    name="boundby",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: boundby run SCRIPT",
)
@click.version_option(__version__, prog_name="boundby", message="%(prog)s %(version)s")
def cli() -> None:
    """Say what bounds the step of an unmodified PyTorch script on this machine."""


cli.params.append(language_option())


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with its status.

    A user's mistake becomes one line on stderr (and one with advice) without a traceback. Exceptions and `SystemExit`
    of a script that a command runs are that command's to handle and pass through here untouched.

    Args:
        args: the arguments after the program's name; those of this process where None.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    choose_language(writable_language(environment_language()))
    if sys.stdout is None:  # it was closed before the process began
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # open for as long as the process lasts
    try:
        status = _invoke(arguments)
        _flush_output()
    except BoundbyError as error:
        write_error(error)
        status = error.status
    except click.exceptions.Exit as ended:
        status = ended.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = EXIT_ERROR
    except KeyboardInterrupt:
        write_error(BoundbyError("interrupted", tr("interrupted before the end; there is no result")))
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more as it ends, which would complain about the same pipe.
        _drop_output()
        status = EXIT_BROKEN_PIPE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        write_error(
            BoundbyError(
                "output-unwritable",
                tr("standard output cannot be written: {why}", why=error.strerror),
                tr("Make room there, or redirect the output elsewhere."),
            )
        )
        status = EXIT_ERROR
    sys.exit(status)


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(arguments: list[str]) -> int:
    """Parses and runs; unlike click's own entry, it leaves every exception as it is."""
    if instruction := os.environ.get(_COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "boundby", _COMPLETION_VARIABLE, instruction)
    with cli.make_context("boundby", arguments) as context:
        result = cli.invoke(context)
    return result if isinstance(result, int) else EXIT_DONE


def write_error(error: BoundbyError) -> None:
    """One line that says what happened and one with advice, whatever the file names in them hold."""
    from boundby.report.safe_text import clean

    click.echo(f"boundby: {clean(error.message, unicode=True)} [{error.code}]", err=True)
    if error.advice:
        click.echo(f"boundby: {clean(error.advice, unicode=True)}", err=True)


def _flush_output() -> None:
    """Meets a closed pipe here, and not while the interpreter ends; a script may have closed stdout, or replaced it."""
    if not getattr(sys.stdout, "closed", True):
        sys.stdout.flush()
