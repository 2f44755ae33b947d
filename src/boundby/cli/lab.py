"""`boundby lab`: the three labs, demonstrations for learners; without a name, the list of them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby._version import __version__
from boundby.cli.options import detect_display, output_option_for, print_text
from boundby.report.page_files import check_output, encoded_page
from boundby.results.language import language, tr, trn

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress

    from boundby.labs.lab import Lab, Settings
    from boundby.report.demonstration import Demonstration
    from boundby.report.lab_text import Paper
    from boundby.results.lab import LabResult
    from boundby.results.machine import MachineDescription

FORMATS = (".json", ".html", ".md")
_MEASURED = "measured"
# What an estimate of decoding takes at most.
_COSTLIEST_US = 100_000.0
# A demonstration that takes longer shows how far it is.
_PATIENCE_S = 2.0


@click.command("lab", short_help="Show learners what binds on this machine, in three labs.")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--demo", "numbers", type=int, multiple=True, metavar="K", help="Run demonstration K alone; repeatable.")
@click.option("--quick", is_flag=True, help="Take seconds: fewer and smaller sizes, shorter rounds.")
@click.option(
    "--device", metavar="NAME", help="Where a lab that can use an accelerator runs: cpu, cuda, mps [default: best]."
)
@click.option(
    "--launch-us",
    metavar="US,...",
    help="Lab launch: what a launch costs, for example 2,4,8, or 'measured' for this machine's own.",
)
@output_option_for(": .html with plots, .md, or .json")
def lab_command(
    name: str | None,
    numbers: tuple[int, ...],
    quick: bool,
    device: str | None,
    launch_us: str | None,
    output: Path | None,
    force: bool,
) -> None:
    """Run a lab: demonstrations of what bounds a step, on this machine, with what to observe in them.

    Without NAME, list the labs. A line that begins with the mark of a stopwatch holds a timing; every other line is
    the same on every run and machine.
    """
    from boundby.report.lab_text import Paper

    display = detect_display(sys.stdout)
    paper = Paper(width=display.width, color=display.color, unicode=display.unicode)
    if name is None:
        _check_alone(numbers, quick, device, launch_us, output, force)
        print_text(_listing(paper))
        return
    from boundby.labs.lab import Settings, chosen_entries, lab_device, lab_named, run_demonstrations
    from boundby.report.lab_text import render_demonstration, render_opening

    lab = lab_named(name)
    chosen_entries(lab, numbers)
    costs, measured = parse_launch_costs(launch_us)
    if launch_us is not None:
        _check_launch_costs(lab, numbers)
    if output is not None:
        output = output.absolute()
        check_output(output, force=force, formats=FORMATS)
    settings = Settings(quick=quick, device=lab_device(lab, device), launch_us=costs, launch_measured=measured)
    machine, threads = _machine(lab)
    entries = [entry for _, entry in chosen_entries(lab, numbers)]
    timed = measured or any(entry.is_timed for entry in entries)
    told = _machine_line(machine, threads, settings.device) if timed else ""
    smaller = any(entry.quick_sizes for entry in entries)
    print_text(render_opening(lab.title(), told, paper, quick=quick, smaller=smaller))
    done = []
    with _Bar() as bar:
        for demonstration in run_demonstrations(lab, settings, numbers, progress=bar.advance):
            bar.clear()
            print_text(render_demonstration(demonstration, paper))
            done.append(demonstration)
    if output is not None:
        _write(output, force, lab, settings, machine, threads, done, told=told, smaller=smaller)
    print_text(_next_command(lab, output))


def _check_alone(
    numbers: tuple[int, ...], quick: bool, device: str | None, launch_us: str | None, output: Path | None, force: bool
) -> None:
    """Refuses options of a lab where none is named.

    Raises:
        click.UsageError: one was given.
    """
    given = {
        "--demo": bool(numbers),
        "--quick": quick,
        "--device": device is not None,
        "--launch-us": launch_us is not None,
        "-o": output is not None,
        "--force": force,
    }
    for option, is_given in given.items():
        if is_given:
            raise click.UsageError(
                tr(
                    "{option} is an option of a lab that runs, and none is named; `boundby lab` lists them.",
                    option=option,
                )
            )


def _check_launch_costs(lab: Lab, numbers: tuple[int, ...]) -> None:
    """Refuses ``--launch-us`` where no demonstration that is run goes by it.

    Raises:
        click.UsageError: none does.
    """
    from boundby.labs.lab import chosen_entries

    if any(entry.launch_costs for _, entry in chosen_entries(lab, numbers)):
        return
    taking = [str(number) for number, entry in chosen_entries(lab, ()) if entry.launch_costs]
    if not taking:
        raise click.UsageError(tr("--launch-us is an option of lab launch."))
    raise click.UsageError(
        tr(
            "--launch-us is for demonstration {number} of lab {lab}, which --demo leaves out.",
            number=tr(", ").join(taking),
            lab=lab.name,
        )
    )


def parse_launch_costs(text: str | None) -> tuple[tuple[float, ...], bool]:
    """The costs of ``--launch-us`` in microseconds, and whether the measured one is asked for.

    Raises:
        click.BadParameter: a part is neither a positive number nor ``measured``.
    """
    costs: list[float] = []
    measured = False
    for part in [] if text is None else text.split(","):
        word = part.strip()
        if word == _MEASURED:
            measured = True
            continue
        try:
            cost = float(word)
        except ValueError:
            cost = 0.0
        if not 0 < cost <= _COSTLIEST_US:
            raise click.BadParameter(
                tr(
                    "{part} is no number of microseconds above 0 and up to 100,000, nor the word {word}.",
                    part=repr(word),
                    word=_MEASURED,
                ),
                param_hint="--launch-us",
            )
        costs.append(cost)
    return tuple(costs), measured


def _machine(lab: Lab) -> tuple[MachineDescription, int | None]:
    """This computer, and how many threads torch has in this lab; None where the lab runs no torch."""
    from boundby.machine.describe import describe_machine, now_text

    threads: int | None = 1 if lab.one_thread else None
    if lab.accelerated:
        import torch

        threads = torch.get_num_threads()
    return describe_machine(threads=threads or 1, measured_at=now_text()), threads


def _machine_line(machine: MachineDescription, threads: int | None, device: str) -> str:
    cpu = machine.cpu or tr("an unknown CPU")
    if threads is None:
        return tr("Timed on {cpu}.", cpu=cpu)
    where = cpu if device == "cpu" else tr("{device} beside {cpu}", device=device, cpu=cpu)
    return trn(
        "Timed on {where}: torch {version}, {count} thread.",
        "Timed on {where}: torch {version}, {count} threads.",
        threads,
        where=where,
        version=machine.torch or "?",
    )


def _write(
    output: Path,
    force: bool,
    lab: Lab,
    settings: Settings,
    machine: MachineDescription,
    threads: int | None,
    done: list[Demonstration],
    *,
    told: str,
    smaller: bool,
) -> None:
    from boundby.results.files import write_new

    if output.suffix.lower() == ".json":
        from boundby.results.lab import encode_lab

        result = _result(lab, settings, machine, threads, done)
        data = encode_lab(replace(result, timed_on=told, smaller=smaller)) + b"\n"
    else:
        from boundby.report.lab_document import lab_document

        document = lab_document(lab.title(), told, done, quick=settings.quick, smaller=smaller)
        data = encoded_page(document, output)
    write_new(output, data, force)
    click.echo(tr("Wrote {file}", file=str(output)), err=True)


def _result(
    lab: Lab, settings: Settings, machine: MachineDescription, threads: int | None, done: list[Demonstration]
) -> LabResult:
    from boundby.report.lab_file import saved_demonstration
    from boundby.results.lab import LabResult
    from boundby.results.report import Tool

    return LabResult(
        lab=lab.name,
        quick=settings.quick,
        device=settings.device,
        threads=threads,
        language=language(),
        tool=Tool(name="boundby", version=__version__, command=("boundby", *sys.argv[1:])),
        machine=machine,
        demonstrations=tuple(map(saved_demonstration, done)),
        title=lab.title(),
    )


def _listing(paper: Paper) -> str:
    from boundby.labs.lab import LABS, lab_named
    from boundby.report.lab_text import render_list

    labs = [lab_named(name) for name in LABS]
    return render_list([(lab.name, lab.title(), [entry.title() for entry in lab.entries]) for lab in labs], paper)


def _next_command(lab: Lab, output: Path | None) -> str:
    from boundby.labs.lab import LABS

    names = list(LABS)
    after = names[names.index(lab.name) + 1 :]
    if output is None:
        command = f"boundby lab {lab.name} -o lab.html"
    else:
        command = f"boundby lab {after[0]}" if after else "boundby run SCRIPT"
    return f"\n{tr('Next')}     {command}\n"


class _Bar:
    """How far a demonstration is, on stderr where that is a terminal, and only once it takes long."""

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._began = time.monotonic()
        self._progress: Progress | None = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.clear()

    def advance(self, number: int, share: float) -> None:
        """A demonstration is so far, from 0 to 1."""
        if not self._terminal or (self._progress is None and time.monotonic() - self._began < _PATIENCE_S):
            return
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            # Nothing of it may run beside what is timed, so it is drawn from here and not by a thread of its own.
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._progress.add_task(tr("Demonstration {number}", number=str(number)), total=1.0)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=share)
        self._progress.refresh()

    def clear(self) -> None:
        """Takes the bar away; the next demonstration begins now."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
        self._began = time.monotonic()
