"""`boundby run`: run an unmodified script and say what bounds its steps."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

from boundby.cli.options import json_option, machine_file_option, print_report, working_folder
from boundby.cli.report_files import confidential_option, report_output_option, show_command_for
from boundby.cli.trace_files import checked_trace_file, trace_option, write_trace
from boundby.report.page_files import is_page
from boundby.results.errors import EXIT_DONE, EXIT_ERROR, BoundbyError
from boundby.results.language import tr, trn
from boundby.results.own_code import is_own

if TYPE_CHECKING:
    from boundby.capture.script import Outcome, Target
    from boundby.capture.session import Session
    from boundby.results.machine import Finding, Machine
    from boundby.results.report import Report
    from boundby.results.trace import Trace

EMBEDDED_DEFAULT = "boundby.labs.train_base_model"


class ScriptCommand(click.Command):
    """Options of boundby come first; from SCRIPT, or from what follows ``-m MODULE``, all words are the script's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put ``--`` behind ``-m MODULE``, as ``python -m`` takes all that follows for the module's."""
        takes_value = {
            name for one in self.params if isinstance(one, click.Option) and not one.is_flag for name in one.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "--":
            word = args[at]
            is_module = word == "-m" or (word.startswith("-m") and not word.startswith("--"))
            at += 2 if word in takes_value else 1
            if is_module:
                args = [*args[:at], "--", *args[at:]]
                break
        return super().parse_args(ctx, args)


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
    short_help="Run an unmodified script and say what bounds its steps.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m MODULE` does.")
@click.option("--warmup", type=int, metavar="N", help="Steps before the first timed one [default: until times settle].")
@click.option("--steps", type=int, metavar="N", help="Steps to time [default: about two seconds' worth, 6 to 60].")
@click.option(
    "--watch", type=int, metavar="N", help="Steps to watch, at least 2 [default: about a second's worth, 4 to 14]."
)
@click.option("--stop", is_flag=True, help="End the script, with status 0, once all this was seen.")
@machine_file_option
@report_output_option
@trace_option
@confidential_option
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARGS]...]")
def run_command(
    module: str | None,
    warmup: int | None,
    steps: int | None,
    watch: int | None,
    stop: bool,
    elsewhere: Path | None,
    output: Path | None,
    force: bool,
    trace_file: Path | None,
    confidential: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Run SCRIPT as `python SCRIPT` would, and say what bounds its steps.

    The script is not changed and its results are those of a plain run. With no SCRIPT, a small GPT that comes with
    boundby is trained for a few steps. The report goes to standard error, so that the script's own output stays its
    own; with --json the script's output goes to standard error instead.
    """
    from boundby.capture.schedule import checked_limits
    from boundby.capture.script import Target, check_target, split_command
    from boundby.report.report_file import check_report_file

    limits = checked_limits(warmup=warmup, timed=steps, watched=watch)
    own_script = not words and module is None
    target = Target(name=EMBEDDED_DEFAULT, is_module=True) if own_script else split_command(words, module)
    check_target(target)
    if output is not None:
        output = output.absolute()
        check_report_file(output, force=force)
    if trace_file is not None:
        trace_file = checked_trace_file(trace_file, beside=output, force=force, confidential=confidential)
    folder, path = working_folder(), tuple(sys.path)
    other = None if elsewhere is None else _read_machine(elsewhere)
    arguments = tuple(sys.argv[1:])
    machine = _machine(None)
    if other is not None:
        from boundby.bound.elsewhere import check_ceilings

        # A script may choose another number of threads, but most leave it: better told now than after the last step.
        check_ceilings(other.machine, name=other.name, threads=machine.description.threads)

    from boundby.api import speed_probes
    from boundby.capture.session import Session

    session = Session(limits=limits, stop=stop, probes=speed_probes)
    asked = _Asked(
        target=target,
        machine=machine,
        other=other,
        output=output,
        force=force,
        trace_file=trace_file,
        confidential=confidential,
        as_json=as_json,
        on_output=own_script,
        folder=folder,
        path=path,
        command=("boundby", *arguments),
        errors=_own_stderr(),
    )
    with _output_apart(as_json) as results:
        outcome = _run(session, asked, results)
    if session.foreign_process:
        _end(outcome.status)
    try:
        _tell(asked, session, outcome, results)
    except BoundbyError as error:
        if outcome.status == EXIT_DONE:
            raise
        _write_error(error, asked.errors)
    finally:
        asked.errors.flush()
    _end(outcome.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the command line asks for, and where it came from; ``errors`` is standard error as it was then."""

    target: Target
    machine: Any
    other: _MachineFile | None
    output: Path | None
    force: bool
    trace_file: Path | None
    confidential: bool
    as_json: bool
    on_output: bool
    folder: str | None
    path: tuple[str, ...]
    command: tuple[str, ...]
    errors: IO[str]


def _tell(asked: _Asked, session: Session, outcome: Outcome, results: IO[str]) -> None:
    """Make the report, and show and write it as asked.

    Raises:
        BoundbyError: there is nothing to report, or a file cannot be written.
        BrokenPipeError: nobody reads the output any more.
    """
    from boundby.report.report_file import shown_report, write_report_file

    errors, output, target = asked.errors, asked.output, asked.target
    try:
        trace = session.trace()
        report = _explained(session, trace, target, outcome, asked.machine, asked.command, asked.other)
        text = shown_report(report, confidential=asked.confidential).to_json() if asked.as_json else None
        if output is not None:
            with _import_path(asked.path):
                write_report_file(
                    report, output, force=asked.force, confidential=asked.confidential, folder=asked.folder
                )
            if is_page(output):
                errors.write(tr("Wrote {file}", file=_shown(output)) + "\n")
    except (BoundbyError, BrokenPipeError):
        raise
    except Exception as error:
        raise _internal_error(error) from error
    if text is not None:
        results.write(text + "\n")
        results.flush()
    else:
        with _import_path(asked.path):
            print_report(
                report,
                stream=results if asked.on_output else errors,
                next_command=show_command_for(None if output is None else _shown(output)),
            )
    if asked.trace_file is not None and trace is not None:
        with _import_path(asked.path):
            write_trace(trace, asked.trace_file, name=target.name, force=asked.force, folder=asked.folder)
        errors.write(tr("Wrote {file}", file=_shown(asked.trace_file)) + "\n")


@contextmanager
def _import_path(path: tuple[str, ...]) -> Iterator[None]:
    """``sys.path`` as it was before the script: no file beside it is a library that a page is written with."""
    kept = list(sys.path)
    sys.path[:] = path
    try:
        yield
    finally:
        sys.path[:] = kept


def _own_stderr() -> IO[str]:
    """Standard error as it is now, whatever the script will do to it; nowhere, where it is closed."""
    try:
        kept = os.dup(2)
    except OSError:
        return open(os.devnull, "w", encoding="utf-8")
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return os.fdopen(kept, "w", encoding=encoding, errors="backslashreplace")


def _end(status: int) -> NoReturn:
    if status == -signal.SIGINT:
        _end_by_interrupt()
    sys.exit(status)


def _run(session: Session, asked: _Asked, results: IO[str]) -> Outcome:
    from boundby.capture.quick_exit import before_quick_exit
    from boundby.capture.script import Outcome, run_target

    def tell(status: int) -> int:
        session.disarm()
        outcome = Outcome(status=status & 0xFF)
        try:
            with script_modes_set_aside(session):
                _tell(asked, session, outcome, results)
        except BoundbyError as error:
            _write_error(error, asked.errors)
            return outcome.status or error.status
        finally:
            asked.errors.flush()
        return status

    def tell_no_more() -> None:
        _write_error(
            BoundbyError(
                "ended-at-once",
                tr("another thread of the script ended the process by os._exit, so there is no report"),
            ),
            asked.errors,
        )

    session.arm()
    try:
        with before_quick_exit(tell, tell_no_more=tell_no_more):
            return run_target(asked.target)
    finally:
        session.disarm()  # never raises: what goes wrong in it becomes a finding


def _write_error(error: BoundbyError, errors: IO[str]) -> None:
    errors.write(f"boundby: {error.message} [{error.code}]\n")
    errors.flush()


@contextmanager
def script_modes_set_aside(session: Session) -> Iterator[None]:
    """Without the modes that the script is in the middle of, which probes are not to run under."""
    if not session.torch_seen:
        yield
        return
    from boundby.timing.set_aside import modes_set_aside

    with modes_set_aside(grad=True):
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _MachineFile:
    name: str
    machine: Machine


def _read_machine(path: Path) -> _MachineFile:
    from boundby.results.files import read_file
    from boundby.results.machine_file import decode_machine

    return _MachineFile(name=str(path), machine=decode_machine(read_file(path), name=str(path)))


def _explained(
    session: Session,
    trace: Trace | None,
    target: Target,
    outcome: Outcome,
    machine: Any,
    command: tuple[str, ...],
    other: _MachineFile | None,
) -> Report:
    from dataclasses import replace

    from boundby.bound.explain import explain_trace
    from boundby.results.machine import Finding

    check_seen(session, trace, target, outcome)
    assert trace is not None
    if trace.threads != machine.description.threads:
        machine = _machine(trace.threads)
    if outcome.status != EXIT_DONE:
        failed = Finding(
            code="script-failed",
            message=tr("the script ended with an interrupt; this is what was seen before")
            if outcome.status == -signal.SIGINT
            else tr("the script ended with status {status}; this is what was seen before", status=str(outcome.status)),
            advice=tr("Nothing in it tells of the failure."),
        )
        trace = replace(trace, findings=(failed, *trace.findings))
    trace = replace(trace, findings=(*trace.findings, *_standing(machine)))
    if other is None:
        from boundby.remedies.ranking import with_predictions

        report = with_predictions(explain_trace(trace, machine, command=command), session.facts())
        return _told_ended(report, outcome, session)
    try:
        report = explain_trace(trace, machine, command=command, elsewhere=other.machine, elsewhere_name=other.name)
    except BoundbyError as error:
        # The script has run, and what was seen of it here is worth having all the same.
        cannot = Finding(code=error.code, message=error.message, advice=error.advice)
        report = explain_trace(replace(trace, findings=(cannot, *trace.findings)), machine, command=command)
    return _told_ended(report, outcome, session)


def _told_ended(report: Report, outcome: Outcome, session: Session) -> Report:
    """The report, its first sentence saying first where the script failed or was interrupted."""
    from dataclasses import replace

    from boundby.report.report_words import followed

    if outcome.status == EXIT_DONE:
        return report
    count = session.events_seen // max(1, report.step.events_per_step)
    steps = trn("{count} step", "{count} steps", count)
    if session.ended:  # nobody counts on
        steps = tr("{steps} or more", steps=steps)
    if outcome.status == -signal.SIGINT:
        said = tr("The script was interrupted after {steps}.", steps=steps)
    else:
        said = tr(
            "The script ended early, with status {status} after {steps}.", status=str(outcome.status), steps=steps
        )
    return replace(report, verdict=replace(report.verdict, sentence=followed(said, report.verdict.sentence)))


def _standing(machine: Machine) -> tuple[Finding, ...]:
    """What makes the times of any script here untrue, as far as the machine's own findings do not tell it already."""
    from boundby.machine.doctor import standing_findings

    told = {finding.code for finding in machine.findings}
    return tuple(finding for finding in standing_findings() if finding.code not in told)


def _internal_error(error: Exception) -> BoundbyError:
    """A fault of boundby's own as an error that is told in one line; its traceback only where one asks for it."""
    if os.environ.get("BOUNDBY_DEBUG"):
        traceback.print_exception(error, file=sys.__stderr__)
    return BoundbyError(
        "internal-error",
        tr("boundby failed to make a report: {error}", error=f"{type(error).__name__}: {error}"),
        tr("Please report this with the traceback that BOUNDBY_DEBUG=1 shows, and the script's torch version."),
    )


def check_seen(session: Session, trace: Trace | None, target: Target, outcome: Outcome) -> None:
    """Say plainly why there is nothing to report."""
    from boundby.capture.marks import how_to_mark

    def seen_only(what: str) -> str:
        if outcome.status == EXIT_DONE:
            return what
        if outcome.status == -signal.SIGINT:
            return tr("{what} before the script was interrupted", what=what)
        return tr("{what} before the script ended with status {status}", what=what, status=str(abs(outcome.status)))

    if not session.torch_seen:
        raise BoundbyError(
            "no-torch-work",
            seen_only(tr("{name} did not import torch", name=target.name)),
            tr("boundby explains PyTorch code; there was none to watch."),
        )
    if trace is not None and trace.step_s:
        return
    for finding in session.findings:
        raise BoundbyError(finding.code, finding.message, finding.advice)
    seen = session.events_seen
    if seen == 0:
        from boundby.capture.compiling import compilations

        compiled = next((one for one in compilations() if is_own(one.place.path) and one.failed is None), None)
        why = tr("no step was found: no optimizer stepped and no module was called")
        if compiled is not None:
            why = tr(
                "no step was found: no optimizer stepped and no module was called where it can be seen; {name} "
                "({place}) was compiled, and what happens inside compiled code cannot be seen",
                name=compiled.name,
                place=f"{os.path.basename(compiled.place.path or '')}:{compiled.place.line}",
            )
        raise BoundbyError("no-steps", seen_only(why), how_to_mark())
    if seen == 1:
        raise BoundbyError(
            "one-step",
            tr("{seen}, and the first is warm-up", seen=seen_only(tr("only one step was seen"))),
            tr("Let the script run some ten steps or more."),
        )
    raise BoundbyError(
        "too-few-steps",
        tr(
            "{seen}: none was left to time after warm-up",
            seen=seen_only(tr("only {steps} steps were seen", steps=str(seen))),
        ),
        tr("Let the script run some ten steps or more."),
    )


def _machine(threads: int | None) -> Any:
    from boundby.cli.measuring_progress import measuring_progress, say_damaged
    from boundby.machine.ensure import ensure_machine

    with measuring_progress() as progress:
        return ensure_machine(threads=threads, progress=progress, notice=say_damaged)


def _shown(output: Path) -> Path:
    try:
        return output.relative_to(Path.cwd())
    except (ValueError, FileNotFoundError):
        return output


@contextmanager
def _output_apart(as_json: bool) -> Iterator[IO[str]]:
    """The stream for boundby's own results; with ``as_json``, the script's standard output goes to standard error."""
    if not as_json:
        yield sys.stdout
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    results = os.fdopen(kept, "w", encoding="utf-8")
    try:
        yield results
    finally:
        if not sys.stdout.closed:
            sys.stdout.flush()


def _end_by_interrupt() -> NoReturn:
    """End as ``python`` does after an uncaught KeyboardInterrupt: run exit handlers, then die by SIGINT."""

    def die() -> None:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)

    # Handlers run last registered first, and the script's came before: so all of them now, in order, then the signal.
    atexit._run_exitfuncs()
    die()
    sys.exit(EXIT_ERROR)
