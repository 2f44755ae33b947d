"""`boundby scaling`: laws of scaling from numbers, from speed-ups, or from a script or function at several threads."""

from __future__ import annotations

import re
import shlex
import signal
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby._version import __version__
from boundby.cli.options import detect_display, json_option, output_option_for, print_text
from boundby.cli.run import ScriptCommand
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.capture.factory import FactoryTarget
    from boundby.results.scaling import Scaling

FORMATS = (".json", ".html", ".md")
BUDGET_S = 12.0
# What `--serial` says something of where no numbers are named; None is endless workers.
_WORKERS: tuple[int | None, ...] = (2, 4, 8, 16, 32, 64, 128, 1024, None)
_MOST_VALUES = 64
_PAIR = re.compile(r"\s*[+-]?\d[^/\\:]*:\s*\.?\d")
# What a file of speed-ups may be called, so that one that is missing is not taken for pairs.
_FILES = (".csv", ".json", ".txt", ".tsv")
_ENDLESS = ("inf", "infinity", "endless")


@click.command(
    "scaling",
    cls=ScriptCommand,
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
    options_metavar="[OPTIONS]",
    short_help="Say what more threads or workers bring, and what stays serial.",
)
@click.option(
    "-m", "module", metavar="MODULE", help="Measure a module, as `python -m MODULE`, or a function: MODULE:MAKE."
)
@click.option("--threads", metavar="LIST", help="Thread counts to measure [default: 1, 2, 4... and all usable cores].")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=1.0, max=600.0),
    default=BUDGET_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to take turns; starting a script for each count comes on top.",
)
@click.option("--serial", metavar="LIST", help="No measuring: both laws for these serial shares, such as 0.01 or 1%.")
@click.option(
    "--measured",
    "given",
    metavar="PAIRS|FILE",
    help="No measuring: fit 1:1.0,2:1.8 (speed-ups), 1:35ms,2:20ms (times), or a CSV or JSON file of them.",
)
@click.option("--n", "workers", metavar="LIST", help="Numbers of workers to say something of; inf for endless.")
@output_option_for(f" ({', '.join(FORMATS)})")
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SCRIPT [ARGS]... | FILE.py:MAKE]")
def scaling_command(
    module: str | None,
    threads: str | None,
    budget_s: float,
    serial: str | None,
    given: str | None,
    workers: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    words: tuple[str, ...],
) -> None:
    """Say what more threads or workers bring, and which share of the time stays serial.

    SCRIPT is not changed: it runs once for each number of threads, all of them taking turns of a few steps. MAKE
    returns a callable, or (module, inputs), which is called at each number of threads. --serial and --measured need
    neither. What was measured and what the laws make of it are told apart.
    """
    from boundby.report.page_files import check_output
    from boundby.results.files import write_new
    from boundby.results.report import Tool

    measures = bool(words) or module is not None
    if [serial is not None, given is not None, measures].count(True) != 1:
        raise click.UsageError(
            tr(
                "Name one: a script (boundby scaling train.py), speed-ups (--measured 1:1,2:1.8,4:3.1), or a "
                "serial share (--serial 0.01)."
            )
        )
    if len(words) == 1 and _PAIR.match(words[0]) and not _exists(words[0]):
        raise click.UsageError(tr("Speed-ups are given with --measured: --measured {pairs}", pairs=words[0]))
    if threads is not None and not measures:
        raise click.UsageError(tr("--threads is for what is measured here; --n names numbers of workers for the laws."))
    if output is not None:
        output = output.absolute()
        check_output(output, force=force, formats=FORMATS)
    counts = None if workers is None else _counts(workers)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        if serial is not None:
            result = _of_laws(serial, counts)
        elif given is not None:
            result = _of_given(given, counts)
        else:
            result = _measured(words, module, threads, counts, budget_s)
    result = replace(result, tool=Tool(name="boundby", version=__version__, command=("boundby", *sys.argv[1:])))
    if output is not None:
        write_new(output, _encoded(result, output.suffix.lower()), force)
        click.echo(tr("Wrote {output}", output=output), err=True)
    if as_json:
        click.echo(result.to_json())
        return
    _print(result, _next(result, output, words, module))


def _of_laws(serial: str, counts: tuple[int | None, ...] | None) -> Scaling:
    from boundby.results.scaling import Scaling
    from boundby.scaling.speedups import law_values

    shares = tuple(dict.fromkeys(_share(word) for word in _listed(serial)))
    return Scaling(origin="laws", laws=law_values(shares, counts or _WORKERS))


def _of_given(given: str, counts: tuple[int | None, ...] | None) -> Scaling:
    from boundby.results.files import read_file
    from boundby.results.scaling import SCHEMA, decode_scaling
    from boundby.scaling.given import MOST_BYTES, given_points, read_pairs, read_rows
    from boundby.scaling.summary import scaling_of

    more = _finite(counts)
    if not given.strip():
        read_pairs(given)
    if _are_pairs(given):
        return scaling_of(given_points(read_pairs(given)), origin="given", more=more)
    advice = tr("Give a CSV or JSON file of some speed-ups.")
    data = read_file(Path(given), most_bytes=MOST_BYTES, advice=advice)
    if f'"{SCHEMA}"'.encode() in data[:200]:
        kept = decode_scaling(data, name=given)
        if not more or not kept.points:
            return kept
        return scaling_of(
            kept.points,
            origin=kept.origin,
            target=kept.target,
            unit=kept.unit,
            usable_cores=kept.usable_cores,
            more=more,
        )
    return scaling_of(given_points(read_rows(data, name=given)), origin="given", target=given, more=more)


def _are_pairs(given: str) -> bool:
    """Whether pairs are meant and no file; what is wrong with them is told where they are read."""
    if _PAIR.match(given):
        return not _exists(given)
    path = Path(given)
    if path.name != given or _exists(given):
        return False
    return not path.suffix or (":" in given and path.suffix.lower() not in _FILES)


def _exists(given: str) -> bool:
    try:
        return Path(given).exists()
    except OSError:  # too long for a name
        return False


def _measured(
    words: tuple[str, ...],
    module: str | None,
    threads: str | None,
    counts: tuple[int | None, ...] | None,
    budget_s: float,
) -> Scaling:
    from boundby.capture.script import Target, check_target, split_command
    from boundby.remedies.thread_scaling import cores_here, script_scaling, thread_counts
    from boundby.scaling.summary import scaling_of

    cores = cores_here()
    wanted = None if threads is None else tuple(_whole(word, "--threads") for word in _listed(threads))
    chosen = thread_counts(wanted, cores)
    if len(chosen) == 1:
        raise BoundbyError(
            "bad-threads",
            tr("there is one usable core, and one thread count says nothing of scaling"),
            tr("Run it where there are more, or name counts: --threads 1,2 (marked as oversubscribed)."),
            status=EXIT_USAGE,
        )
    function = _function(words, module)
    told = ", ".join(f"{count:,}" for count in chosen)
    if function is not None:
        click.echo(tr("boundby: timing {function} at {told} threads, in turns", function=function, told=told), err=True)
        return _function_scaling(function, chosen, _finite(counts), budget_s)
    target: Target = split_command(words, module)
    check_target(target)
    # A scheduler's signal ends the runs as an interrupt does: no process and no folder is left behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    click.echo(tr("boundby: running {name} at {told} threads, in turns", name=target.name, told=told), err=True)
    timed = script_scaling(target, chosen, cores=cores, budget_s=budget_s)
    return scaling_of(
        timed.points,
        origin="measured",
        target=target.name,
        unit="threads",
        usable_cores=cores,
        more=_finite(counts),
        findings=timed.findings,
    )


def _function(words: tuple[str, ...], module: str | None) -> FactoryTarget | None:
    """The function that is meant, where it is one and no script."""
    from boundby.capture.factory import parse_target

    if module is not None and ":" in module and not words:
        return parse_target(module, is_module=True, command="scaling")
    if module is None and len(words) == 1 and ":" in words[0] and not Path(words[0]).exists():
        return parse_target(words[0], is_module=False, command="scaling")
    return None


def _function_scaling(
    target: FactoryTarget, chosen: tuple[int, ...], more: tuple[int, ...], budget_s: float
) -> Scaling:
    from boundby.api import thread_scaling
    from boundby.capture.factory import load_factory, work_from
    from boundby.cli.count import user_code

    make = user_code(lambda: load_factory(target))
    work = work_from(user_code(make), target)
    result = user_code(
        lambda: thread_scaling(work.fn, *work.args, threads=chosen, more=more, budget_s=budget_s, **work.kwargs)
    )
    return replace(result, target=str(target))


def _listed(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found or len(found) > _MOST_VALUES:
        raise click.UsageError(
            tr(
                "{text} is no list of 1 to {most} numbers, such as 8,132,16896.",
                text=f"{text[:40]!r}",
                most=_MOST_VALUES,
            )
        )
    return found


def _share(word: str) -> float:
    scale = 0.01 if word.endswith("%") else 1.0
    try:
        share = float(word.removesuffix("%")) * scale
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise BoundbyError(
            "bad-serial-share",
            tr("{word} is no serial share", word=f"{word!r}"),
            tr("It is the share of the time that stays serial: from 0 to 1, such as 0.01, or 1%."),
            status=EXIT_USAGE,
        )
    return share


def _counts(text: str) -> tuple[int | None, ...]:
    found = {None if word.lower() in _ENDLESS else _whole(word, "--n") for word in _listed(text)}
    return (*sorted(one for one in found if one is not None), *([None] if None in found else []))


def _whole(word: str, option: str) -> int:
    from boundby.scaling.given import whole_count

    try:
        return whole_count(word)
    except BoundbyError as error:
        raise BoundbyError(
            "bad-workers",
            f"{option}: {error.message}",
            tr("Name whole numbers from 1, such as 1,2,4."),
            status=EXIT_USAGE,
        ) from None


def _finite(counts: tuple[int | None, ...] | None) -> tuple[int, ...]:
    return tuple(one for one in counts or () if one is not None)


def _encoded(result: Scaling, suffix: str) -> bytes:
    from boundby.results.scaling import encode_scaling

    if suffix == ".json":
        return encode_scaling(result) + b"\n"
    from boundby.report.scaling_document import scaling_document

    document = scaling_document(result)
    if suffix == ".html":
        from boundby.report.html import render_html

        return render_html(document).encode()
    from boundby.report.markdown import render_markdown

    return render_markdown(document).encode()


def _next(result: Scaling, output: Path | None, words: tuple[str, ...], module: str | None) -> str:
    if result.origin != "measured":
        return tr("{command}, for threads of a script of yours", command="boundby scaling SCRIPT")
    if output is not None:
        return (
            "boundby try one-thread all-threads SCRIPT"
            if output.suffix != ".json"
            else f"boundby scaling --measured {shlex.quote(output.name)}"
        )
    named = ["-m", module, *words] if module is not None else list(words)
    return shlex.join(["boundby", "scaling", "-o", "scaling.html", *named])


def _print(result: Scaling, next_command: str) -> None:
    from boundby.report.scaling_page import render_scaling

    display = detect_display(sys.stdout)
    text = render_scaling(
        result, width=display.width, color=display.color, unicode=display.unicode, next_command=next_command
    )
    print_text(text)
