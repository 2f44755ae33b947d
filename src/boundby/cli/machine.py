"""``boundby machine``: this machine's ceilings, kept or measured now."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from boundby.cli.options import detect_display, json_option, output_option


@click.command("machine")
@click.option("--again", is_flag=True, help="Measure even if ceilings are kept.")
@click.option("--quick", is_flag=True, help="Take at most 8 seconds, with wider bands.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="The thread count of torch to measure for.")
@json_option
@output_option
def machine_command(
    again: bool, quick: bool, threads: int | None, as_json: bool, output: Path | None, force: bool
) -> None:
    """Measure this machine's ceilings, or show those that are kept.

    The first use takes up to 20 seconds: matrix products, bandwidth, functions and the overhead of ops, all through
    torch as your scripts use it. The result is kept and used by `boundby run`.
    """
    from boundby.cli.measuring_progress import measuring_progress
    from boundby.machine.ensure import DEFAULT_BUDGET_S, QUICK_BUDGET_S, ensure_machine
    from boundby.report.machine_table import render_machine
    from boundby.results.files import check_writable, write_new
    from boundby.results.machine_file import encode_machine

    if output is not None:
        check_writable(output, force)
    with measuring_progress(at_most_s=8 if quick else 20) as progress:
        machine = ensure_machine(
            threads=threads, again=again, budget_s=QUICK_BUDGET_S if quick else DEFAULT_BUDGET_S, progress=progress
        )
    data = encode_machine(machine) + b"\n"
    if output is not None:
        write_new(output, data, force)
        click.echo(f"Wrote {output}", err=True)
    if as_json:
        click.echo(data, nl=False)
        return
    display = detect_display(sys.stdout)
    sys.stdout.write(render_machine(machine, width=display.width, color=display.color, unicode=display.unicode))
