"""`boundby count`: count one call of a model, with a table of its modules, without timing anything."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from boundby._version import __version__
from boundby.cli.options import detect_display, json_option, output_option, print_text
from boundby.results.errors import BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.capture.factory import FactoryTarget
    from boundby.results.count_file import CountFile
    from boundby.results.module_tree import CallCounts

_Value = TypeVar("_Value")


@click.command("count", options_metavar="[OPTIONS]", short_help="Count FLOPs, bytes and saved memory by module.")
@click.option("-m", "module", metavar="MODULE:MAKE", help="Call MAKE of an importable module.")
@click.option("--backward", is_flag=True, help="Count the backward pass of the loss too.")
@click.option("--fake", is_flag=True, help="Build and run on fake tensors, which take no memory.")
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    metavar="N",
    help="Levels of modules to show [default: as many as fit into 40 lines].",
)
@json_option
@output_option
@click.argument("file", required=False, metavar="[FILE.py:MAKE]")
def count_command(
    module: str | None,
    backward: bool,
    fake: bool,
    depth: int | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    file: str | None,
) -> None:
    """Count what one call of a model does: FLOPs, bytes, saved memory, by module.

    MAKE is a function without arguments. It returns (module, inputs), where a tuple or list of inputs is the positional
    arguments, a dict the keyword arguments and anything else the only argument; or it returns a callable without
    arguments. Without :MAKE the function is called make.

    Nothing is timed, and a model built on the meta device is counted without memory. The loss of --backward is the
    result's loss, or the result itself where it is one number, or the sum of the result.
    """
    from boundby.capture.factory import parse_target
    from boundby.results.count_file import CountFile
    from boundby.results.files import check_writable
    from boundby.results.report import Tool

    if (module is None) == (file is None):
        raise click.UsageError(
            tr("Name one function: boundby count -m pkg.module:make, or boundby count FILE.py:make.")
        )
    target = parse_target(module or file or "", is_module=module is not None)
    named = output
    if output is not None:
        output = output.absolute()
        check_writable(output, force, formats=(".json",))
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        counts = _counted(target, backward=backward, fake=fake)
    result = CountFile(
        target=str(target),
        backward=backward,
        fake=fake,
        tool=Tool(name="boundby", version=__version__, command=("boundby", *sys.argv[1:])),
        counts=counts,
    )
    _show(result, target, depth, as_json, output, force, named)


def _counted(target: FactoryTarget, *, backward: bool, fake: bool) -> CallCounts:
    from boundby.capture.factory import backward_of, load_factory, work_from

    factory = user_code(lambda: load_factory(target))
    from boundby.capture.counter import count_callable
    from boundby.capture.meta import fake_tensors

    with fake_tensors() if fake else nullcontext():
        made = user_code(factory)
        work = work_from(made, target)
        if backward:
            work = backward_of(work)
        return user_code(lambda: count_callable(work.fn, *work.args, **work.kwargs))


def user_code(run: Callable[[], _Value]) -> _Value:
    """The result of the user's code; what it raises is shown as ``python`` shows it and ends the command."""
    from boundby.capture.factory import arguments_of
    from boundby.capture.meta import needs_values
    from boundby.capture.tracebacks import own_frames_removed

    try:
        with arguments_of(sys.argv[0]):
            return run()
    except BoundbyError:
        raise
    except Exception as error:
        own_frames_removed(error)
        sys.excepthook(type(error), error, error.__traceback__)
        if needs_values(error):
            raise BoundbyError(
                "values-needed",
                tr("the code asks for values, which meta and fake tensors do not have"),
                tr("Count on real tensors, of a smaller configuration where memory is short."),
            ) from None
        raise BoundbyError(
            "target-failed",
            tr("the named code raised {error}", error=type(error).__name__),
            "",
        ) from None


def _show(
    file: CountFile,
    target: FactoryTarget,
    depth: int | None,
    as_json: bool,
    output: Path | None,
    force: bool,
    named: Path | None,
) -> None:
    from boundby.report.count_table import render_counts
    from boundby.results.count_file import encode_counts
    from boundby.results.files import write_new

    data = encode_counts(file)
    if output is not None:
        write_new(output, data + b"\n", force)
        click.echo(tr("Wrote {output}", output=output), err=True)
    if as_json:
        click.echo(data)
        return
    display = detect_display(sys.stdout)
    text = render_counts(
        file,
        width=display.width,
        color=display.color,
        unicode=display.unicode,
        depth=depth,
        next_command=_next_command(file, target, written=named),
    )
    print_text(text)


def _next_command(file: CountFile, target: FactoryTarget, *, written: Path | None) -> str:
    """The whole training step where only forward was counted; else a file that keeps the counts, or shows them."""
    options = ["--fake"] if file.fake else []
    trained = any(one.name == "backward" for one in file.counts.by_phase)
    if not trained and file.counts.saved_bytes:
        options += ["--backward"]
    elif written is not None:
        return shlex.join(["boundby", "show", str(written)])
    else:
        options += [*(["--backward"] if file.backward else []), "-o", "counts.json"]
    named = ["-m", str(target)] if target.is_module else [str(target)]
    return shlex.join(["boundby", "count", *options, *named])
