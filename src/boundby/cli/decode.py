"""`boundby decode`: inference of a language model on paper; needs no torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from boundby.cli.options import detect_display, json_option, output_option_for, print_text
from boundby.report.page_files import check_output, encoded_page, is_page
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

if TYPE_CHECKING:
    from boundby.llm.engines import Partition
    from boundby.llm.hardware import Hardware

_DEFAULT_HARDWARE = "H100-SXM5"
_HERE = "here"
_FORMATS = (".json", ".html", ".md", ".svg")


@click.command("decode")
@click.argument("model", required=False)
@click.option(
    "--hardware",
    metavar="NAME|FILE",
    help=f"What it runs on: a shipped name, a machine or hardware file, or 'here'. Default: {_DEFAULT_HARDWARE}.",
)
@click.option("--batch", type=int, default=1, show_default=True, metavar="N", help="Sequences decoded in one step.")
@click.option("--context", type=int, default=1024, show_default=True, metavar="N", help="Tokens in each one's cache.")
@click.option("--prompt", type=int, metavar="N", help="Tokens of the prompt, for prefill; the context where not given.")
@click.option(
    "--weights", metavar="FORMAT", help="bf16, int8, fp8, q4_k_m, int4-g128, 4.0bpw... Default: the config's."
)
@click.option(
    "--kv", "cache", metavar="FORMAT", default="bf16", show_default=True, help="The cache: bf16, fp8, q8_0..."
)
@click.option("--engine", metavar="NAME", help="Expect the times of this engine; see --list.")
@click.option("--partition", type=click.Choice(["unfused", "fused", "megakernel"]), help="How floors cut a layer.")
@click.option("--launch-us", type=float, metavar="US", help="What a launch costs; 2, 4 and 8 where not known.")
@click.option("--host-speed", type=float, default=1.0, metavar="X", help="Of the host's core; a 2024 desktop is 1.")
@click.option("--tp", type=float, default=1, metavar="N", help="Devices that share each product (tensor parallel).")
@click.option("--list", "listing", is_flag=True, help="List the shipped models, hardware, engines and formats.")
@json_option
@output_option_for(": .json, .html or .md for a page, .svg for plots")
def decode_command(
    model: str | None,
    hardware: str | None,
    batch: int,
    context: int,
    prompt: int | None,
    weights: str | None,
    cache: str,
    engine: str | None,
    partition: str | None,
    launch_us: float | None,
    host_speed: float,
    tp: float,
    listing: bool,
    as_json: bool,
    output: Path | None,
    force: bool,
) -> None:
    """Say on paper how fast MODEL decodes: a shipped name, or a Hugging Face config.json.

    Floors are physics: bytes over bandwidth, FLOPs over the dense peak. Expected times add what engines were measured
    to reach, with an interval. Nothing is run.
    """
    display = detect_display(sys.stdout)
    if listing:
        from boundby.report.decode_list import render_lists

        click.echo(render_lists(width=display.width), nl=False)
        return
    if model is None:
        raise BoundbyError(
            "unknown-model",
            tr("No model was named."),
            tr("Give one, for example: boundby decode llama-3.2-1b; the names: boundby decode --list."),
            status=EXIT_USAGE,
        )
    from boundby.llm.decode import estimate_decode
    from boundby.llm.decode_file import encode_estimate
    from boundby.llm.models import find_model

    if output is not None:
        check_output(output, force=force, formats=_FORMATS)
    structure = find_model(model)
    estimate = estimate_decode(
        structure,
        _hardware(hardware),
        batch=batch,
        context=context,
        prompt=prompt,
        weights=weights,
        cache=cache,
        engine=engine,
        partition=cast("Partition | None", partition),
        launch_s=None if launch_us is None else launch_us / 1e6,
        host_speed=host_speed,
        devices=tp,
    )
    if output is not None:
        from boundby.results.files import write_new

        if output.suffix.lower() == ".svg":
            from boundby.report.decode_plots import render_plots

            data = render_plots(estimate).encode()
        elif is_page(output):
            from boundby.report.decode_document import decode_document

            data = encoded_page(decode_document(estimate), output)
        else:
            data = encode_estimate(estimate) + b"\n"
        write_new(output, data, force)
        click.echo(tr("Wrote {output}", output=output), err=True)
    if as_json:
        click.echo(encode_estimate(estimate))
        return
    from boundby.report.decode_page import render_decode

    text = render_decode(
        estimate,
        width=display.width,
        color=display.color,
        unicode=display.unicode,
        default_hardware=hardware is None,
    )
    print_text(text)


def _hardware(name: str | None) -> Hardware:
    """The hardware by its name or file; this machine's own ceilings for ``here``, measured where none are kept."""
    from boundby.llm.hardware import find_hardware, hardware_from_machine

    if name != _HERE:
        return find_hardware(_DEFAULT_HARDWARE if name is None else name)
    from boundby.cli.measuring_progress import measuring_progress, say_damaged
    from boundby.machine.ensure import ensure_machine

    with measuring_progress(at_most_s=20) as progress:
        machine = ensure_machine(progress=progress, notice=say_damaged)
    return hardware_from_machine(machine, name=tr("this machine"))
