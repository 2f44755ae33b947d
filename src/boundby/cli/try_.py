"""`boundby try`: what remedies do to an unmodified script, measured beside the script as it is."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import json_option, output_option, print_report
from boundby.cli.run import EMBEDDED_DEFAULT, ScriptCommand
from boundby.results.errors import BoundbyError

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
@output_option
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[REMEDY]... [SCRIPT [ARGS]...]")
def try_command(
    module: str | None,
    list_all: bool,
    budget_s: float,
    everything: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Run SCRIPT as it is and with each REMEDY, and say what each did.

    The script is not changed. First it is run and explained as `boundby run --stop` does, which says what each remedy
    should do. Then the script as it is and the script with the remedy run as two processes that take turns of a few
    steps. With no REMEDY, those that may be worth it are tried, and at the end the best of them together.
    """
    from boundby.capture.script import Target, check_target, split_command
    from boundby.remedies.registry import MODULES, remedy_named
    from boundby.results.files import check_writable, encode, write_new

    if list_all:
        for name in MODULES:
            click.echo(f"{name:<18} {remedy_named(name).TITLE}")
        return
    if output is not None:
        check_writable(output, force=force)
    # A scheduler's signal ends the trials as an interrupt does: no process and no folder is left behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    wanted = []
    while words and words[0] in MODULES:
        wanted.append(words[0])
        words = words[1:]
    if words and words[0].startswith("-") and wanted:
        raise click.UsageError(f"Options come before the remedies: boundby try {words[0]} ... {wanted[0]} SCRIPT")
    own_script = not words and module is None
    target = Target(name=EMBEDDED_DEFAULT, is_module=True) if own_script else split_command(words, module)
    if not target.is_module and not Path(target.name).exists() and not target.name.endswith(".py"):
        remedy_named(target.name)  # a misspelt remedy is told by what it is near to
    check_target(target)
    report = _explained(target)
    report = _with_trials(report, target, wanted, budget_s=budget_s, everything=everything)
    report = replace(report, tool=replace(report.tool, command=("boundby", *sys.argv[1:])))
    if output is not None:
        write_new(output, encode(report), force=force)
        click.echo(f"Wrote {output}", err=True)
    if as_json:
        click.echo(report.to_json())
        return
    print_report(report, stream=sys.stdout, next_command=f"boundby show {output}" if output is not None else None)


def _explained(target: Target) -> Report:
    """The script run and explained in a process of its own, as `boundby run --stop` does."""
    from boundby.remedies.aside import make_aside
    from boundby.results.files import decode_report

    with tempfile.TemporaryDirectory(prefix="boundby-try-") as folder:
        place, aside = Path(folder) / "report.json", Path(folder) / "as-it-is"
        aside.mkdir()
        make_aside(Path.cwd(), aside)
        command = [sys.executable, "-P", "-m", "boundby.remedies.explained_aside", str(Path.cwd())]
        command += ["boundby", "run", "--stop", "-o", str(place)]
        command += ["-m"] * target.is_module + [target.name, *target.args]
        click.echo("boundby: running the script as it is", err=True)
        done = subprocess.run(
            command, cwd=aside, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        if not place.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise BoundbyError(
                "script-not-explained",
                f"the script gave no report: {lines[-1] if lines else f'status {done.returncode}'}",
                "See what `boundby run` says of it.",
            )
        return decode_report(place.read_bytes(), name="the report")


def _with_trials(report: Report, target: Target, wanted: list[str], *, budget_s: float, everything: bool) -> Report:
    from boundby.remedies.registry import compatible, remedy_named
    from boundby.results.remedy import Remedy

    known = {one.name: one for one in report.remedies}
    worth_trying = [one.name for one in report.remedies if everything or one.advice != "skip"]
    chosen = [name for name in wanted or worth_trying if not getattr(remedy_named(name), "ADVICE_ONLY", False)]
    tried: list[Remedy] = []
    for number, name in enumerate(chosen, start=1):
        remedy = known.get(name) or Remedy(name=name)
        tried.append(_tried(remedy, target, [name], budget_s, f"{number} of {len(chosen)}: {name}"))
    worth = [one for one in tried if one.advice == "do" and one.measured is not None]
    worth.sort(key=lambda one: -(one.measured.speedup if one.measured is not None else 0.0))
    best = compatible([one.name for one in worth])
    if not wanted and len(best) > 1:
        together = Remedy(name="+".join(best), title="the best of them together")
        tried.append(_tried(together, target, best, budget_s, f"together: {together.name}"))
    rest = [one for one in report.remedies if one.name not in {one.name for one in tried}]
    return replace(report, remedies=(*tried, *rest))


def _tried(remedy: Remedy, target: Target, names: list[str], budget_s: float, what: str) -> Remedy:
    from boundby.remedies.ranking import after_trial
    from boundby.remedies.registry import remedy_named
    from boundby.remedies.trial import try_once

    click.echo(f"boundby: trying {what}", err=True)
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
