"""`boundby try`: what remedies do to an unmodified script, measured beside the script as it is."""

from __future__ import annotations

import math
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import json_option, print_report, working_folder
from boundby.cli.report_files import confidential_option, report_output_option, show_command_for
from boundby.cli.run import EMBEDDED_DEFAULT, ScriptCommand
from boundby.results.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_USAGE, BoundbyError
from boundby.results.language import tr, trn
from boundby.results.units import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from boundby.capture.script import Target
    from boundby.results.machine import Finding
    from boundby.results.remedy import Remedy
    from boundby.results.report import Report

# Seconds of turns for each remedy; both processes' start comes on top.
BUDGET_S = 12.0
MINUTES_FROM_S = 120.0
_REFUSED = "aside.WriteRefused: "


class _Stopped(Exception):
    """A signal ended the trials: what had been found until then, and the status to end with."""

    def __init__(self, report: Report, status: int) -> None:
        super().__init__(status)
        self.report = report
        self.status = status


@click.command(
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
    short_help="Try remedies on an unmodified script, beside the script as it is.",
)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m MODULE` does.")
@click.option("--list", "list_all", is_flag=True, help="List the remedies there are, and end.")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=1.0, max=600.0),
    default=BUDGET_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to let the two processes of each trial take turns.",
)
@click.option("--all", "everything", is_flag=True, help="Try every remedy that applies, also those not worth it.")
@report_output_option
@confidential_option
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[REMEDY]... [SCRIPT [ARGS]...]")
def try_command(
    module: str | None,
    list_all: bool,
    budget_s: float,
    everything: bool,
    output: Path | None,
    force: bool,
    confidential: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Run SCRIPT as it is and with each REMEDY, and say what each did.

    The script is not changed. First it is run and explained as `boundby run --stop` does, which says what each remedy
    should do. Then the script as it is and the script with the remedy run as two processes that take turns of a few
    steps. With no REMEDY, those that may be worth it are tried. At the end the best of those tried run together. Ctrl-C
    ends the trials and keeps those that had ended.
    """
    from boundby.capture.script import Target, check_target, split_command
    from boundby.remedies.registry import MODULES, remedy_named

    if list_all:
        for name in MODULES:
            click.echo(f"{name:<18} {remedy_named(name).title()}")
        return
    from boundby.report.report_file import check_report_file, shown_report, write_report_file

    if output is not None:
        check_report_file(output, force=force)
    # A scheduler's signal ends the trials as an interrupt does: no process and no folder is left behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    wanted = []
    while words and words[0] in MODULES:
        wanted.append(words[0])
        words = words[1:]
    if words and words[0].startswith("-") and wanted:
        raise click.UsageError(
            tr(
                "Options come before the remedies: boundby try {option} ... {remedy} SCRIPT",
                option=words[0],
                remedy=wanted[0],
            )
        )
    _check_wanted(wanted)
    own_script = not words and module is None
    target = Target(name=EMBEDDED_DEFAULT, is_module=True) if own_script else split_command(words, module)
    if not target.is_module and not Path(target.name).exists() and not target.name.endswith(".py"):
        remedy_named(target.name)  # a misspelt remedy is told by what it is near to
    check_target(target)
    began = time.monotonic()
    try:
        report, status = _explained(target), EXIT_DONE
    except (KeyboardInterrupt, SystemExit) as ended:  # what a scheduler's signal was made into is the second
        code = ended.code if isinstance(ended, SystemExit) else None
        raise BoundbyError(
            "interrupted-early",
            tr("interrupted before the first trial; nothing was written"),
            tr(
                "Let it run on, or see what `boundby run` says of the script; that reports also what it saw until then."
            ),
            status=code if isinstance(code, int) else EXIT_INTERRUPTED,
        ) from None
    # A start of the script lasts no longer than its run as it is did without the steps that were timed.
    start_s = max(0.0, time.monotonic() - began - report.step.steps_timed * report.step.time_s.median)
    try:
        report = _with_trials(report, target, wanted, budget_s=budget_s, everything=everything, start_s=start_s)
    except _Stopped as stopped:
        report, status = stopped.report, stopped.status
    report = replace(report, tool=replace(report.tool, command=("boundby", *sys.argv[1:])))
    if output is not None:
        write_report_file(report, output, force=force, confidential=confidential, folder=working_folder())
        click.echo(tr("Wrote {file}", file=output), err=True)
    if as_json:
        click.echo(shown_report(report, confidential=confidential).to_json())
    else:
        script = [] if own_script else [*(["-m"] if target.is_module else []), target.name, *target.args]
        print_report(report, stream=sys.stdout, next_command=show_command_for(output) or _next(report, script))
    if status != EXIT_DONE:
        sys.exit(status)


def _check_wanted(wanted: Sequence[str]) -> None:
    """Say which of the remedies that were named are advice alone.

    Raises:
        BoundbyError: ``advice-only``: all of them are, so that nothing is left to try.
    """
    from boundby.remedies.registry import remedy_named

    advice = [name for name in wanted if getattr(remedy_named(name), "ADVICE_ONLY", False)]
    if advice and len(advice) == len(wanted):
        raise BoundbyError(
            "advice-only",
            tr("there is nothing to try: {names} cannot be applied to a script from outside", names=", ".join(advice)),
            tr("`boundby run` lists it where it should help, with what to change."),
            status=EXIT_USAGE,
        )
    for name in advice:
        _say_left_out(name)


def _say_left_out(name: str) -> None:
    click.echo(tr("boundby: {name} is left out: it cannot be applied to this script from outside", name=name), err=True)


def _next(report: Report, script: Sequence[str]) -> str | None:
    """How to keep what was seen of the script, where no trial gave a result that the same trials would give again."""
    from boundby.report.next_command import run_command_of

    if report.interrupted or any(one.measured is not None and one.took_effect is not False for one in report.remedies):
        return None
    return run_command_of(script, "report.json")


def _explained(target: Target) -> Report:
    """The script run and explained in a process of its own, as `boundby run --stop` does."""
    from boundby.cli.running_aside import own_error, run_aside
    from boundby.results.files import decode_report

    click.echo(tr("boundby: running the script as it is"), err=True)
    done, report = run_aside(target, measured=True)
    if report is None:
        refused = _refused_write(done.stderr)
        if not refused and (own := own_error(done.stderr)):
            raise own
        raise BoundbyError(
            "script-not-explained",
            tr("the script gave no report: {why}", why=refused or _last_line(done.stderr, done.returncode)),
            tr("See what `boundby run` says of it."),
        )
    return decode_report(report, name=tr("the report"))


def _refused_write(errors: str) -> str:
    """The write that was refused, which is why fewer steps were seen, whatever was made of it; empty without one."""
    refused = [line.partition("WriteRefused: ")[2].strip() for line in errors.splitlines() if _REFUSED in line]
    return refused[-1] if refused else ""


def _last_line(errors: str, status: int) -> str:
    """What the script said last before it ended."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1] if lines else tr("status {status}", status=status)


def _with_trials(
    report: Report, target: Target, wanted: list[str], *, budget_s: float, everything: bool, start_s: float = 0.0
) -> Report:
    """The report with what each trial did.

    Args:
        report: of the script as it is.
        target: the script.
        wanted: the remedies asked for by name; none: those that may be worth it.
        budget_s: seconds of turns for each.
        everything: whether also those not worth it are tried.
        start_s: how long a start of the script takes at most, seconds.

    Raises:
        _Stopped: a signal came before the last trial had ended.
    """
    from boundby.remedies.past_trials import keep_trials, past_trials
    from boundby.remedies.registry import remedy_named
    from boundby.results.remedy import is_worth_a_trial

    worth_trying = [one.name for one in report.remedies if (everything or is_worth_a_trial(one)) and _from_outside(one)]
    for one in report.remedies:
        if not wanted and is_worth_a_trial(one) and not _from_outside(one):
            _say_left_out(one.name)
    chosen = [name for name in wanted or worth_trying if not getattr(remedy_named(name), "ADVICE_ONLY", False)]
    if chosen:
        click.echo(_how_long(len(chosen), report.step.time_s.median, budget_s=budget_s, start_s=start_s), err=True)
    elif everything:
        click.echo(tr("boundby: there is no remedy here that can be tried"), err=True)
    else:
        click.echo(
            tr("boundby: no remedy here seems worth a trial; name one, or try them all with {option}", option="--all"),
            err=True,
        )
    tried: list[Remedy] = []
    status = None
    try:
        tried.extend(_trials(report, target, chosen, budget_s))
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except SystemExit as ended:  # what a scheduler's signal was made into
        status = ended.code if isinstance(ended.code, int) else EXIT_INTERRUPTED
    rest = [one for one in report.remedies if one.name not in {one.name for one in tried}]
    findings = (*report.findings, *keep_trials(tried))
    report = replace(report, remedies=(*tried, *rest), findings=findings, past_trials=past_trials())
    if status is None:
        return report
    cut_short = _cut_short(chosen, {one.name for one in tried})
    raise _Stopped(replace(report, findings=(cut_short, *report.findings), interrupted=True), status)


def _trials(report: Report, target: Target, chosen: Sequence[str], budget_s: float) -> Iterator[Remedy]:
    """Each remedy as tried, one after the other, and at the end the best of them together."""
    from boundby.remedies.ranking import no_finer
    from boundby.remedies.together import best_together, predict_together
    from boundby.results.remedy import Remedy

    known = {one.name: one for one in report.remedies}
    tried: list[Remedy] = []
    began = time.monotonic()
    for number, name in enumerate(chosen, start=1):
        what = tr("{number} of {count}: {name}", number=number, count=len(chosen), name=name)
        if tried:
            each_s = (time.monotonic() - began) / len(tried)
            left = _duration(each_s * (len(chosen) - len(tried)))
            what = tr("{what} (about {left} left)", what=what, left=left)
        tried.append(_tried(known.get(name) or Remedy(name=name), target, [name], budget_s, what))
        yield tried[-1]
    best = best_together(tried)
    if len(best) > 1:
        expected = no_finer(predict_together(tried, best))
        together = Remedy(name="+".join(best), title=tr("the best of them together"), predicted=expected)
        yield _tried(together, target, best, budget_s, tr("the best together: {names}", names=together.name))


def _how_long(count: int, step_s: float, *, budget_s: float, start_s: float) -> str:
    """About how long so many trials will take, before they begin.

    Args:
        count: how many, without that of the best together.
        step_s: a step of the script as it is, seconds.
        budget_s: seconds of turns for each.
        start_s: how long a start of the script takes at most, seconds.
    """
    from boundby.remedies.trial import expected_turns_s

    turns_s = expected_turns_s(step_s, budget_s)
    most = count + (count > 1)
    return trn(
        "boundby: {count} trial takes about {most} or less, an estimate: {turns} of turns, two starts of the script",
        "boundby: {count} trials take about {most} or less, an estimate: {turns} of turns each, two starts of the "
        "script each, and perhaps one more trial, of the best together",
        count,
        most=_duration(most * (turns_s + 2 * start_s)),
        turns=_duration(turns_s),
    )


def _duration(seconds: float) -> str:
    if seconds < MINUTES_FROM_S:
        return format_time(seconds, digits=2)
    return tr("{minutes} min", minutes=f"{math.ceil(seconds / 60.0):,}")


def _cut_short(chosen: Sequence[str], ended: set[str]) -> Finding:
    from boundby.results.machine import Finding

    missing = [name for name in chosen if name not in ended]
    return Finding(
        code="trials-interrupted",
        message=tr(
            "The trials were interrupted: {ended} of {count} had ended; not tried: {names}.",
            ended=str(len(chosen) - len(missing)),
            count=str(len(chosen)),
            names=", ".join(missing) or tr("the best together"),
        ),
        advice=tr("Those that had ended stand as they are. Name the others to boundby try to measure them too."),
    )


def _from_outside(remedy: Remedy) -> bool:
    return remedy.from_outside and (remedy.predicted is None or remedy.predicted.from_outside)


def _tried(remedy: Remedy, target: Target, names: list[str], budget_s: float, what: str) -> Remedy:
    from boundby.remedies.ranking import after_trial
    from boundby.remedies.registry import remedy_named
    from boundby.remedies.trial import try_once

    click.echo(tr("boundby: trying {what}", what=what), err=True)
    environment: dict[str, str] = {}
    work = 1.0
    for name in names:
        environment |= remedy_named(name).ENVIRONMENT
        work *= getattr(remedy_named(name), "WORK", 1.0)
    bursts = any(getattr(remedy_named(name), "BURSTS", False) for name in names)
    done = try_once(target, names, environment=environment, budget_s=budget_s, work=work, bursts=bursts)
    return replace(
        after_trial(
            remedy, measured=done.measured, failed=done.failed, took_effect=done.took_effect, effect=done.effect
        ),
        numerics=done.numerics,
    )
