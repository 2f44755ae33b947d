"""Whether a device computes in bf16 itself, or only holds it: by what the processor, or torch, says of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

# Instructions that multiply in bf16: x86's in vectors and in tiles, Arm's.
_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "svebf16"})


def computes_in_bf16(device: str, *, cpuinfo: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Whether products in bf16 have hardware of their own there; None where nothing says.

    Args:
        device: the type that torch knows the device by.
        cpuinfo: what the operating system says of the processor.
    """
    if device == "cpu":
        return _processor_does(cpuinfo)
    import torch

    ask: Any = getattr(torch.get_device_module(device), "is_bf16_supported", None)
    if ask is None:
        return None
    try:
        return bool(ask(including_emulation=False))
    except TypeError:  # Torch before 2.4, and devices other than CUDA, know no emulation.
        return bool(ask())


def _processor_does(cpuinfo: Path) -> bool | None:
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return None if found is None else not _FLAGS.isdisjoint(found.group(1).split())
