"""`boundby sweep`: time against a batch, a width or any other integer argument of a factory, and what it fits."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby._version import __version__
from boundby.cli.options import detect_display, json_option, output_option_for, print_text
from boundby.report.page_files import check_output, encoded_page, is_page
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.capture.factory import FactoryTarget
    from boundby.results.sweep import Sweep

BUDGET_S = 5.0
FORMATS = (".json", ".html", ".md")
_OVER = re.compile(r"(?P<name>[^\W\d]\w*)=(?P<values>.+)")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


@click.command("sweep", options_metavar="[OPTIONS]", short_help="Time a model against its batch or any other size.")
@click.option("-m", "module", metavar="MODULE:MAKE", help="Call MAKE of an importable module.")
@click.option(
    "--over",
    metavar="NAME=VALUES",
    required=True,
    help="The argument of MAKE to vary: batch=1,2,4,8, or batch=1..64, which doubles from 1 to 64.",
)
@click.option("--backward", is_flag=True, help="Time the backward pass of the loss too.")
@click.option(
    "--power",
    type=click.IntRange(min=1, max=3),
    metavar="N",
    help="Fit time to NAME to the power N [default: 1, unless 2 or 3 fits clearly better].",
)
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=0.1, max=600.0),
    default=BUDGET_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to time, about.",
)
@json_option
@output_option_for(": .json, or .html or .md for a page")
@click.argument("file", required=False, metavar="[FILE.py:MAKE]")
def sweep_command(
    module: str | None,
    over: str,
    backward: bool,
    power: int | None,
    budget_s: float,
    as_json: bool,
    output: Path | None,
    force: bool,
    file: str | None,
) -> None:
    """Time what MAKE builds against one of its arguments, and fit a fixed cost and a rate.

    MAKE is a function that takes the argument by its name. It returns (module, inputs), or a callable without
    arguments, as for `boundby count`. All sizes are built first, and timed in turns.

    The fit says what a call costs whatever the size, the rate that is approached at large sizes, and the size at which
    half of it is reached.
    """
    from boundby.capture.factory import parse_target
    from boundby.results.files import write_new
    from boundby.results.report import Tool

    if (module is None) == (file is None):
        raise click.UsageError(
            tr("Name one function: boundby sweep -m pkg.module:make, or boundby sweep FILE.py:make.")
        )
    name, values = parse_over(over)
    target = parse_target(module or file or "", is_module=module is not None, command="sweep")
    named = output
    if output is not None:
        output = output.absolute()
        check_output(output, force=force, formats=FORMATS)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        result = _swept(target, name, values, backward=backward, power=power, budget_s=budget_s)
    tool = Tool(name="boundby", version=__version__, command=("boundby", *sys.argv[1:]))
    result = replace(result, target=str(target), tool=tool)
    if output is not None:
        write_new(output, _encoded(result, output), force)
        click.echo(tr("Wrote {output}", output=output), err=True)
    if as_json:
        click.echo(result.to_json())
        return
    _print(result, _next_command(target, over, named))


def _next_command(target: FactoryTarget, over: str, output: Path | None) -> str:
    """How to keep the result, or to see the file again that was written; empty after a page."""
    if output is not None:
        return "" if is_page(output) else shlex.join(["boundby", "show", str(output)])
    named = ["-m", str(target)] if target.is_module else [str(target)]
    return shlex.join(["boundby", "sweep", "--over", over, "-o", "sweep.json", *named])


def parse_over(text: str) -> tuple[str, tuple[int, ...]]:
    """The argument's name and its values, from ``batch=1,2,4`` or ``batch=1..64``.

    Raises:
        click.BadParameter: it is neither.
    """
    found = _OVER.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(
            tr("{text} is not NAME=VALUES, such as batch=1,2,4,8.", text=f"{text!r}"), param_hint="--over"
        )
    values: list[int] = []
    for part in found["values"].split(","):
        part = part.strip()
        doubling = _RANGE.fullmatch(part)
        if doubling:
            values += _doubling(int(doubling[1]), int(doubling[2]))
        elif part.isdecimal():
            values.append(int(part))
        else:
            raise click.BadParameter(
                tr("{part} is no whole number and no range as 1..64.", part=f"{part!r}"), param_hint="--over"
            )
    return found["name"], tuple(values)


def _doubling(first: int, last: int) -> list[int]:
    if not 1 <= first <= last:
        raise click.BadParameter(
            tr("{first}..{last} does not go up from 1 or more.", first=first, last=last), param_hint="--over"
        )
    values = [first]
    while values[-1] * 2 <= last:
        values.append(values[-1] * 2)
    return values if values[-1] == last else [*values, last]


def _swept(
    target: FactoryTarget, name: str, values: tuple[int, ...], *, backward: bool, power: int | None, budget_s: float
) -> Sweep:
    from boundby.api import sweep
    from boundby.capture.factory import load_factory
    from boundby.capture.sweeping import checked_values
    from boundby.cli.count import user_code

    checked_values(values)
    make = user_code(lambda: load_factory(target, with_arguments=True))
    return user_code(lambda: sweep(make, name, values, backward=backward, power=power, budget_s=budget_s))


def _encoded(result: Sweep, output: Path) -> bytes:
    if is_page(output):
        from boundby.report.sweep_document import sweep_document

        return encoded_page(sweep_document(result), output)
    from boundby.results.sweep import encode_sweep

    return encode_sweep(result) + b"\n"


def _print(result: Sweep, next_command: str) -> None:
    from boundby.report.sweep_page import render_sweep

    display = detect_display(sys.stdout)
    text = render_sweep(
        result, width=display.width, color=display.color, unicode=display.unicode, next_command=next_command
    )
    print_text(text)
