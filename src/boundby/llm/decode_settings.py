"""The settings of an estimate of decoding, each held against its range."""

from __future__ import annotations

import math

from boundby.llm.engines import PARTITIONS
from boundby.llm.hardware import Hardware
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

LARGEST_BATCH = 1 << 20
_LARGEST_CONTEXT = 1 << 27
_MOST_DEVICES = 4096


def check_partition(name: str) -> None:
    """Refuses what is no way to cut a layer.

    Raises:
        BoundbyError: ``decode-setting``.
    """
    if name not in PARTITIONS:
        raise _setting(
            tr("the partition is {chosen}; expected one of {known}", chosen=f"{name!r}", known=", ".join(PARTITIONS))
        )


def check_settings(
    batch: int,
    context: int,
    prompt: int | None,
    launch_s: float | None,
    host_speed: float,
    devices: float,
    *,
    hardware: Hardware,
) -> None:
    """Refuses a setting out of its range.

    Args:
        batch: sequences decoded in one step.
        context: tokens in each one's cache.
        prompt: tokens of the prompt; None where it is the context.
        launch_s: what a launch costs, seconds; None where it was not given.
        host_speed: of one core of the host, 1 being a 2024 desktop.
        devices: over how many devices each product is divided.
        hardware: one of them, which says whether it has two dies.

    Raises:
        BoundbyError: ``decode-setting``.
    """
    if not 1 <= batch <= LARGEST_BATCH:
        raise _setting(
            tr(
                "the batch is {batch}; expected 1 to {most}",
                batch=f"{batch:,}",
                most=f"{LARGEST_BATCH:,}",
            )
        )
    if not 0 <= context <= _LARGEST_CONTEXT:
        raise _setting(
            tr(
                "the context is {context} tokens; expected 0 to {most}",
                context=f"{context:,}",
                most=f"{_LARGEST_CONTEXT:,}",
            )
        )
    if prompt is not None and not 1 <= prompt <= _LARGEST_CONTEXT:
        raise _setting(
            tr(
                "the prompt has {prompt} tokens; expected 1 to {most}",
                prompt=f"{prompt:,}",
                most=f"{_LARGEST_CONTEXT:,}",
            )
        )
    if launch_s is not None and not (math.isfinite(launch_s) and 0 <= launch_s <= 0.1):
        raise _setting(tr("a launch costs {cost} µs; expected 0 to 100,000", cost=f"{launch_s * 1e6:g}"))
    if not (math.isfinite(host_speed) and 0.01 <= host_speed <= 100):
        raise _setting(
            tr(
                "the host's speed is {host_speed}; expected 0.01 to 100, 1 being a 2024 desktop",
                host_speed=f"{host_speed:g}",
            )
        )
    if not (math.isfinite(devices) and (devices == 0.5 or (devices >= 1 and devices == int(devices)))):
        raise _setting(
            tr(
                "tensor parallel over {devices} devices; expected a whole number, or 0.5 for one die of two",
                devices=f"{devices:g}",
            )
        )
    if devices < 1 and hardware.dies not in (None, 2):
        raise _setting(
            tr(
                "tensor parallel over {devices} devices is one die of two, and {name} is one device to software; "
                "expected a whole number",
                devices=f"{devices:g}",
                name=hardware.name,
            )
        )
    if devices > _MOST_DEVICES:
        raise _setting(
            tr(
                "tensor parallel over {devices} devices; expected at most {most}",
                devices=f"{devices:g}",
                most=f"{_MOST_DEVICES:,}",
            )
        )


def _setting(what: str) -> BoundbyError:
    return BoundbyError(
        "decode-setting",
        tr("This cannot be decoded: {what}.", what=what),
        tr("Change that setting."),
        status=EXIT_USAGE,
    )
