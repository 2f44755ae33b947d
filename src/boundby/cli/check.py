"""`boundby check`: hold a step against its budgets and its baseline; status 3 where it fails."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import detect_display, json_option, output_option_for, print_text
from boundby.cli.run import EMBEDDED_DEFAULT, ScriptCommand, run_command
from boundby.report.page_files import check_output, encoded_page, is_page
from boundby.results.errors import EXIT_BUDGET, EXIT_DONE, EXIT_USAGE, BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.capture.script import Target
    from boundby.results.budgets import Baseline, Check, Counted
    from boundby.results.interval import Interval
    from boundby.results.report import Report

FORMATS = (".json", ".html", ".md")
_NO_BASELINE = frozenset({"damaged-file", "unknown-schema"})
_NOTED_FINDINGS = ("steps-vary", "irregular-steps", "script-failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What is checked: its counts and ratios, and where they come from."""

    target: str
    counted: Counted
    ratios: dict[str, Interval | None]
    torch: str | None
    device: str
    notes: tuple[str, ...]
    command: str


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
    short_help="Hold a step against its budgets and a baseline.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m MODULE` does.")
@click.option(
    "--baseline",
    "baseline_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Fail where a count is above that of FILE (.json), which is committed beside the code.",
)
@click.option("--update", is_flag=True, help="Write the counts of now to the baseline's FILE.")
@click.option(
    "--bytes-tolerance",
    metavar="SHARE",
    help="By how much bytes may be above the baseline's: 0.02 or 2%. Indices' values decide part of them.",
)
@output_option_for(": .json, or .html or .md for a page")
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[REPORT.json | SCRIPT [ARGS]...]")
def check_command(
    module: str | None,
    baseline_file: Path | None,
    update: bool,
    bytes_tolerance: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """Check a step's counts and shares, and fail with status 3 where one is over its limit.

    Limits are the budgets in [tool.boundby.budgets] of pyproject.toml, and the counts in the baseline's FILE. REPORT is
    a report that `boundby run -o` wrote; a SCRIPT is run first, as `boundby run --stop` does, writing nothing into the
    working folder. What is over is told with the source lines that made it grow.
    """
    from boundby.bound.budget_limits import read_tolerance
    from boundby.bound.budgets import check_step
    from boundby.capture.script import check_target
    from boundby.cli.budget_table import find_limits
    from boundby.results.budgets import RATIOS
    from boundby.results.files import write_new

    if update and baseline_file is None:
        raise click.UsageError(tr("--update writes a baseline: name its file with --baseline FILE."))
    if not words and module is None and baseline_file is None:
        raise click.UsageError(tr("Name a report or a script: boundby check REPORT.json, or boundby check SCRIPT."))
    if output is not None:
        check_output(output, force=force, formats=FORMATS)
    tolerance = None if bytes_tolerance is None else read_tolerance(bytes_tolerance, source=tr("the command line"))
    kept = None if baseline_file is None else _read_baseline(baseline_file, update)
    saved = _saved_file(words, module)
    step = None if saved is None else _of_file(saved)
    if step is None:
        check_target(_command_target(words, module))
    target = _target_of_words(words, module) if step is None else step.target
    _check_target(kept, target, baseline_file)
    limits = find_limits(_script_of(target))
    tolerance = limits.bytes_tolerance if tolerance is None else tolerance
    if not limits.budgets and baseline_file is None:
        raise _nothing_to_check(words)
    for option in _own_options_behind(words):
        click.echo(
            tr("boundby: {option} behind the script is the script's own, and not taken here", option=option), err=True
        )
    if step is None:
        step = _of_script(words, module, target, measured=any(one.of in RATIOS for one in limits.budgets))
    check = check_step(
        step.counted,
        limits.budgets,
        target=step.target,
        ratios=step.ratios,
        baseline=None if update else kept,
        torch=step.torch,
        device=step.device,
        bytes_tolerance=tolerance or 0.0,
    )
    check = replace(check, notes=(*check.notes, *step.notes))
    if update and baseline_file is not None:
        _write_baseline(baseline_file, step, kept)
    if output is not None:
        write_new(output, _encoded(check, output), force)
        click.echo(tr("Wrote {path}", path=output), err=True)
    _show(check, step, as_json=as_json, baseline_file=baseline_file, update=update, kept=kept)
    return EXIT_DONE if check.passed else EXIT_BUDGET


def _saved_file(words: tuple[str, ...], module: str | None) -> str | None:
    """The saved file that was named; None where a script or a module was."""
    if module is not None or not words or not (words[0] == "-" or words[0].lower().endswith(".json")):
        return None
    if len(words) > 1:
        raise click.UsageError(
            tr("One report at a time, options before it: {command}", command=f"boundby check [OPTIONS] {words[0]}")
        )
    return words[0]


def _own_options_behind(words: tuple[str, ...]) -> list[str]:
    """Options of this command that stand behind the script, where they are the script's."""
    own = ("--baseline", "--update", "--bytes-tolerance")
    return [name for word in words[1:] if (name := word.partition("=")[0]) in own]


def _nothing_to_check(words: tuple[str, ...]) -> BoundbyError:
    if _own_options_behind(words):
        raise click.UsageError(
            tr("Options come before the script: {command}", command=f"boundby check --baseline FILE {words[0]}")
        )
    return BoundbyError(
        "nothing-to-check",
        tr("There is neither a budget nor a baseline to check against."),
        tr("Write budgets into [tool.boundby.budgets] of pyproject.toml, or begin with --baseline FILE --update."),
        status=EXIT_USAGE,
    )


def _read_baseline(path: Path, update: bool) -> Baseline | None:
    """The baseline there is; None where ``--update`` is about to make the first. Nothing else is ever replaced."""
    from boundby.results.budgets import decode_baseline
    from boundby.results.files import check_writable, read_file

    if update:
        check_writable(path, force=True)
        if not path.exists():
            return None
    elif not path.exists():
        raise BoundbyError(
            "no-baseline",
            tr("There is no baseline {path} yet.", path=path),
            tr("Write it with --update, and commit it."),
        )
    data = read_file(path)
    try:
        return decode_baseline(data, name=str(path))
    except BoundbyError as error:
        if error.code not in _NO_BASELINE:
            raise
        # It may be something else of the user's, so `--update` leaves it as it is.
        raise BoundbyError(
            error.code,
            error.message,
            tr("Remove {path}, or name another file, and write the baseline with --update.", path=path),
            status=error.status,
        ) from None


def _check_target(kept: Baseline | None, target: str, path: Path | None) -> None:
    """Refuse the baseline of another script, before it fails for it or is replaced."""
    if kept is None or kept.target is None:
        return
    there, here = (_script_of(one) for one in (kept.target, target))
    if there is not None and here is not None and Path(there).name != Path(here).name:
        raise BoundbyError(
            "other-baseline",
            tr("{path} is the baseline of {there}, and this is {here}.", path=path, there=there, here=here),
            tr("Give each script a baseline of its own."),
            status=EXIT_USAGE,
        )


def _script_of(target: str) -> str | None:
    """The script's path, or the module after ``-m``; None where a target names neither."""
    try:
        words = shlex.split(target)
    except ValueError:  # a report's own name, with one quotation mark in it
        return None
    if words[:1] == ["-m"]:
        return words[1] if len(words) > 1 else None
    return words[0] if words and words[0].endswith(".py") else None


def _target_of_words(words: tuple[str, ...], module: str | None) -> str:
    """The script or module with its arguments, as one would type it."""
    if not words and module is None:
        module = EMBEDDED_DEFAULT
    return shlex.join([*(["-m", module] if module is not None else []), *words])


def _command_target(words: tuple[str, ...], module: str | None) -> Target:
    from boundby.capture.script import Target, split_command

    own = not words and module is None
    return Target(name=EMBEDDED_DEFAULT, is_module=True) if own else split_command(words, module)


def _of_script(words: tuple[str, ...], module: str | None, name: str, *, measured: bool) -> _Step:
    from boundby.bound.budgets import measured_ratios
    from boundby.cli.running_aside import explain_aside

    target = _command_target(words, module)
    click.echo(tr("boundby: running {target}", target=name), err=True)
    step = _of_report(explain_aside(target, measured=False), name, name, roots=(str(Path.cwd()),))
    if not measured:
        return step
    click.echo(tr("boundby: running {target} again, for its times", target=name), err=True)
    return replace(step, ratios=measured_ratios(explain_aside(target, measured=True)))


def _of_file(name: str) -> _Step:
    from boundby.bound.counted import counted_call
    from boundby.results.count_file import decode_counts
    from boundby.results.files import decode_header, decode_report, read_file

    told = tr("standard input") if name == "-" else name
    data = sys.stdin.buffer.read() if name == "-" else read_file(Path(name))
    if decode_header(data, name=told).schema != "boundby.counts":
        report = decode_report(data, name=told)
        return _of_report(report, _target_of(report.tool.command) or told, name, roots=(str(Path.cwd()),))
    file = decode_counts(data, name=told)
    return _Step(
        target=file.target,
        counted=counted_call(file.counts, roots=(str(Path.cwd()),)),
        ratios={},
        torch=None,
        device=", ".join(file.counts.devices) or "cpu",
        notes=(),
        command=shlex.quote(name),
    )


def _of_report(report: Report, target: str, command: str, *, roots: tuple[str, ...]) -> _Step:
    from boundby.bound.budgets import measured_ratios
    from boundby.bound.counted import counted_step

    return _Step(
        target=target,
        counted=counted_step(report, roots=roots),
        ratios=measured_ratios(report),
        torch=report.machine.description.torch,
        device=report.step.device,
        notes=tuple(f"{one.message} [{one.code}]" for one in report.findings if one.code in _NOTED_FINDINGS),
        command=command,
    )


def _target_of(command: tuple[str, ...]) -> str | None:
    """What a report's command ran, as ``boundby check`` names it; None where it was no ``boundby run`` of a script."""
    if command[1:2] != ("run",):
        return None
    params = run_command.make_context("run", list(command[2:]), resilient_parsing=True).params
    words = [*(["-m", params["module"]] if params["module"] else []), *params["words"]]
    return shlex.join(words) if words else None


def _write_baseline(path: Path, step: _Step, kept: Baseline | None) -> None:
    """Write the counts of now; what they were before is told, as the file itself no longer tells it."""
    from boundby.report.check_page import counts_changed
    from boundby.results.budgets import Baseline, encode_baseline
    from boundby.results.files import write_new

    if all(value is None for value in step.counted.totals.values()):
        raise BoundbyError(
            "nothing-counted",
            tr("Nothing was counted of {target}, so there is no baseline to write.", target=step.target),
            tr("See what `boundby run` says of it."),
        )
    baseline = Baseline(target=step.target, torch=step.torch, device=step.device, counted=step.counted)
    write_new(path, encode_baseline(baseline) + b"\n", force=True)
    click.echo(tr("Wrote {path}", path=path), err=True)
    for line in () if kept is None else counts_changed(kept.counted, step.counted):
        click.echo(f"  {line}", err=True)


def _encoded(check: Check, output: Path) -> bytes:
    if is_page(output):
        from boundby.report.check_document import check_document

        return encoded_page(check_document(check), output)
    from boundby.results.budgets import encode_check

    return encode_check(check) + b"\n"


def _show(
    check: Check, step: _Step, *, as_json: bool, baseline_file: Path | None, update: bool, kept: Baseline | None
) -> None:
    if as_json:
        from boundby.results.budgets import encode_check

        click.echo(encode_check(check))
        return
    if update and not check.judgements:
        return
    from boundby.report.check_page import render_check

    following = None
    moved = check.shrunk or any(one.failed and one.source == "baseline" for one in check.judgements)
    if baseline_file is not None and not update and moved:
        words = ["boundby", "check", "--baseline", str(baseline_file), "--update"]
        # With other arguments it would be a baseline of something else.
        others = kept is not None and kept.target != step.target and _script_of(kept.target or "") is not None
        following = f"{shlex.join(words)} {kept.target if kept is not None and others else step.command}"
    display = detect_display(sys.stdout)
    text = render_check(
        check, width=display.width, color=display.color, unicode=display.unicode, update_command=following
    )
    print_text(text)
