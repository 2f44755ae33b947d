"""`boundby try`: what remedies do to an unmodified script, measured beside the script as it is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import json_option, print_report, working_folder
from boundby.cli.report_files import confidential_option, report_output_option, show_command_for
from boundby.cli.run import EMBEDDED_DEFAULT, ScriptCommand
from boundby.results.errors import BoundbyError
from boundby.results.language import language, tr

if TYPE_CHECKING:
    from boundby.capture.script import Target
    from boundby.results.remedy import Remedy
    from boundby.results.report import Report

# Seconds of turns for each remedy; both processes' start comes on top.
BUDGET_S = 12.0


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
    steps. With no REMEDY, those that may be worth it are tried. At the end the best of those tried run together.
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
    own_script = not words and module is None
    target = Target(name=EMBEDDED_DEFAULT, is_module=True) if own_script else split_command(words, module)
    if not target.is_module and not Path(target.name).exists() and not target.name.endswith(".py"):
        remedy_named(target.name)  # a misspelt remedy is told by what it is near to
    check_target(target)
    report = _explained(target)
    report = _with_trials(report, target, wanted, budget_s=budget_s, everything=everything)
    report = replace(report, tool=replace(report.tool, command=("boundby", *sys.argv[1:])))
    if output is not None:
        write_report_file(report, output, force=force, confidential=confidential, folder=working_folder())
        click.echo(tr("Wrote {file}", file=output), err=True)
    if as_json:
        click.echo(shown_report(report, confidential=confidential).to_json())
        return
    print_report(report, stream=sys.stdout, next_command=show_command_for(output))


def _explained(target: Target) -> Report:
    """The script run and explained in a process of its own, as `boundby run --stop` does."""
    from boundby.remedies.aside import make_aside
    from boundby.remedies.child_process import child_command
    from boundby.results.files import decode_report

    with tempfile.TemporaryDirectory(prefix="boundby-try-") as folder:
        place, aside = Path(folder) / "report.json", Path(folder) / "as-it-is"
        aside.mkdir()
        make_aside(Path.cwd(), aside)
        command = [*child_command("boundby.remedies.explained_aside"), str(Path.cwd())]
        command += ["boundby", "--lang", language(), "run", "--stop", "-o", str(place)]
        command += ["-m"] * target.is_module + [target.name, *target.args]
        click.echo(tr("boundby: running the script as it is"), err=True)
        done = subprocess.run(
            command, cwd=aside, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if not place.exists():
            raise BoundbyError(
                "script-not-explained",
                tr("the script gave no report: {why}", why=_why_not(done.stderr, done.returncode)),
                tr("See what `boundby run` says of it."),
            )
        return decode_report(at_home(place.read_bytes(), aside), name=tr("the report"))


def at_home(report: bytes, aside: Path) -> bytes:
    """A report's JSON with files of the folder it ran in called by their names in the working folder, where they stay.

    Args:
        report: the JSON.
        aside: the folder of links that stood for the working one.
    """
    home = _in_json(Path.cwd())
    for folder in {aside, aside.resolve()}:
        report = report.replace(_in_json(folder) + b"/", home + b"/")
    return report


def _in_json(folder: Path) -> bytes:
    return json.dumps(str(folder), ensure_ascii=False)[1:-1].encode("utf-8", "backslashreplace")


def _why_not(errors: str, status: int) -> str:
    """What the run said last before it ended: an error of boundby's own, else the script's."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("boundby: ") and line.endswith("]")]
    said = (own or lines)[-1:]
    return said[0].removeprefix("boundby: ") if said else tr("status {status}", status=status)


def _with_trials(report: Report, target: Target, wanted: list[str], *, budget_s: float, everything: bool) -> Report:
    from boundby.remedies.past_trials import keep_trials, past_trials
    from boundby.remedies.ranking import is_worth_a_trial, no_finer
    from boundby.remedies.registry import remedy_named
    from boundby.remedies.together import best_together, predict_together
    from boundby.results.remedy import Remedy

    known = {one.name: one for one in report.remedies}
    worth_trying = [one.name for one in report.remedies if (everything or is_worth_a_trial(one)) and _from_outside(one)]
    for one in report.remedies:
        if not wanted and is_worth_a_trial(one) and not _from_outside(one):
            click.echo(
                tr(
                    "boundby: {name} is left out: it cannot be applied to this script from outside",
                    name=one.name,
                ),
                err=True,
            )
    chosen = [name for name in wanted or worth_trying if not getattr(remedy_named(name), "ADVICE_ONLY", False)]
    tried: list[Remedy] = []
    for number, name in enumerate(chosen, start=1):
        remedy = known.get(name) or Remedy(name=name)
        tried.append(
            _tried(
                remedy,
                target,
                [name],
                budget_s,
                tr("{number} of {count}: {name}", number=number, count=len(chosen), name=name),
            )
        )
    best = best_together(tried)
    if len(best) > 1:
        expected = no_finer(predict_together(tried, best))
        together = Remedy(name="+".join(best), title=tr("the best of them together"), predicted=expected)
        what = tr("the best together: {names}", names=together.name)
        tried.append(_tried(together, target, best, budget_s, what))
    rest = [one for one in report.remedies if one.name not in {one.name for one in tried}]
    findings = (*report.findings, *keep_trials(tried))
    return replace(report, remedies=(*tried, *rest), findings=findings, past_trials=past_trials())


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
