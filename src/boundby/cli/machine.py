"""``boundby machine``: this machine's ceilings, kept or measured now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from boundby.cli.options import detect_display, json_option, output_option_for, print_text
from boundby.report.page_files import check_output, encoded_page, is_page
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.results.machine import Machine, Mode

# What a person is told; the measuring itself aims lower, so that the start of its process fits in.
AT_MOST_S: dict[Mode, int] = {"quick": 10, "default": 20, "full": 180}
FORMATS = (".json", ".html", ".md", ".svg")


@click.command("machine")
@click.option("--again", is_flag=True, help="Measure even if ceilings are kept.")
@click.option("--quick", is_flag=True, help="Take at most 10 seconds, with wider bands.")
@click.option("--full", is_flag=True, help="Take up to 3 minutes: more sizes, compiled functions, sustained rates.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="The thread count of torch to measure for.")
@click.option(
    "--device", default="cpu", show_default=True, metavar="NAME", help="Measure an accelerator instead: cuda, mps, xpu."
)
@json_option
@output_option_for(": .json, .html or .md for a page, .svg for a picture of the roofline")
def machine_command(
    again: bool,
    quick: bool,
    full: bool,
    threads: int | None,
    device: str,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Measure this machine's ceilings, or show those that are kept.

    The first use takes up to 20 seconds: matrix products, bandwidth, functions and the overhead of ops, all through
    torch as your scripts use it, and beside them what native code reaches. The result is kept and used by
    `boundby run`.
    """
    from boundby.cli.measuring_progress import measuring_progress, say_damaged
    from boundby.machine.ensure import ensure_machine
    from boundby.report.machine_table import render_machine
    from boundby.results.machine_file import encode_machine

    if quick and full:
        raise click.UsageError(tr("Give --quick or --full, not both."))
    if output is not None:
        check_output(output, force=force, formats=FORMATS)
    mode: Mode = "quick" if quick else "full" if full else "default"
    with measuring_progress(at_most_s=AT_MOST_S[mode]) as progress:
        machine = ensure_machine(
            threads=threads, again=again, mode=mode, device=device, progress=progress, notice=say_damaged
        )
    if output is not None:
        write_machine(machine, output, force=force)
    if as_json:
        click.echo(encode_machine(machine))
        return
    display = detect_display(sys.stdout)
    print_text(render_machine(machine, width=display.width, color=display.color, unicode=display.unicode))


def write_machine(machine: Machine, output: Path, *, force: bool) -> None:
    """Writes a machine as its file's extension says, a machine file, a page or a picture, and says so.

    Args:
        machine: what to write.
        output: where to; ends in one of ``FORMATS``.
        force: whether an existing file may be replaced.

    Raises:
        BoundbyError: ``no-roofline``, ``no-plots``, ``output-exists`` or ``output-unwritable``.
    """
    from boundby.results.files import write_new

    if output.suffix.lower() == ".svg":
        from boundby.report.roofline_picture import render_picture

        data = render_picture(machine).encode()
    elif is_page(output):
        from boundby.report.machine_document import machine_document

        data = encoded_page(machine_document(machine), output)
    else:
        from boundby.results.machine_file import encode_machine

        data = encode_machine(machine) + b"\n"
    write_new(output, data, force)
    click.echo(tr("Wrote {output}", output=output), err=True)
