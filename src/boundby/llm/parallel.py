"""Tensor parallelism: the all-reduces of a step, their floor and what to expect of them."""

from __future__ import annotations

from dataclasses import dataclass

from boundby.llm.hardware import Hardware
from boundby.llm.kernels import Work
from boundby.llm.structure import ModelStructure

# Bytes/s that one device sends while it receives as much: NVLink and Infinity Fabric as their makers print them, halved
# where they print both directions; PCIe 4.0 x16 for the rest.
_LINK_BYTES_PER_S = {"nvidia-hbm": 300e9, "amd-hbm": 200e9}
_PLAIN_LINK_BYTES_PER_S = 25e9
# One hop's latency: the floor, and what libraries' small all-reduces take in decoding.
_HOP_S = 1e-6
USUAL_ALL_REDUCE_S = 14e-6
_ACTIVATION_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce:
    """The all-reduces of a step over ``devices``: how many, bytes of each, the floor and what to expect of all (s)."""

    devices: int
    count: int
    bytes_each: float
    link_bytes_per_s: float
    floor_s: float
    expected_s: float


def all_reduces(model: ModelStructure, hardware: Hardware, work: Work, devices: float) -> AllReduce:
    """Two all-reduces a layer, after attention and after the feed-forward, and one that gathers the logits.

    Source:
        M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053, section 3. A ring moves 2 (n - 1) / n of the bytes through
        each link; the floor takes one hop, which a direct exchange needs.
    """
    count = 2 * len(model.layers) + 1
    each = work.tokens * model.hidden * _ACTIVATION_BYTES
    link = _LINK_BYTES_PER_S.get(hardware.kind, _PLAIN_LINK_BYTES_PER_S)
    moving = 2 * (devices - 1) / devices * each / link
    return AllReduce(
        devices=int(devices),
        count=count,
        bytes_each=each,
        link_bytes_per_s=link,
        floor_s=count * (_HOP_S + moving),
        expected_s=count * (USUAL_ALL_REDUCE_S + moving),
    )
