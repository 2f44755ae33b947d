"""From floors to expected times: few calibrated numbers an engine, on top of what is physics.

A step takes::

    GPU time = (weights + cache) / (B e) + FLOPs / (0.6 P) + attention FLOPs * a / F
               + unpacked weights * c / F + launches * g
    step     = max(GPU time, launches * i / host speed) + h / host speed

with B the bandwidth, P the dense peak and F the fp32 rate of the device (physics), and calibrated: e, the share of
bandwidth that reading reaches; a, how many times its FLOPs attention takes on the fp32 units; c, FLOP to unpack a
quantised weight; g, what a kernel adds on the device (start, ramp, tail); i, what the host takes to issue one where no
graph is replayed; h, the host's time a step. Products are added to reading, not hidden behind it: within a kernel they
overlap in part, and at batch 1 they are under 2% of the step, so that no row of the calibration could tell.

e and g depend on the engine and on the kind of hardware, the others on the engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from boundby.llm.engines import Engine
from boundby.llm.hardware import Hardware

PARAMETERS = ("share", "attend", "unpack", "gap", "issue", "host")
Fitted = Mapping[tuple[str, ...], float]

# Of the dense peak that thin products reach; assumed.
PRODUCTS_SHARE = 0.6
# What a kernel of a replayed graph saves on the device against one launched into a stream. Source: "Getting Started
# with CUDA Graphs", NVIDIA developer blog (2019): 3.8 us a kernel in a stream, 3.4 in a graph.
REPLAY_SAVES_S = 0.4e-6
# fp32 FLOP a byte of bandwidth, where a device's fp32 rate is not known: the median of the shipped devices.
_USUAL_FP32_PER_BYTE = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What physics says of a step on one device: bytes, weights to unpack, launches; rates in SI units.

    ``newly_replayed``: a graph is replayed, and the calibrated numbers are those of the engine without.
    """

    weight_bytes: float
    cache_bytes: float
    unpacked_weights: float
    launches: int
    bytes_per_s: float
    fp32_flops_per_s: float
    attention_flops: float = 0.0
    compute_s: float = 0.0
    graphs: bool
    newly_replayed: bool = False
    host_speed: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Where a calibrated number belongs: the engine, its family, the kind of hardware."""

    engine: str
    family: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """The calibrated numbers for one engine on one kind of hardware; times in seconds."""

    bandwidth_share: float
    attend: float
    unpack_flops: float
    gap_s: float
    issue_s: float
    host_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A modelled step, in seconds, with its parts; they add up to ``step_s``."""

    step_s: float
    weights_s: float
    products_s: float
    cache_s: float
    unpack_s: float
    launches_s: float
    host_s: float


def expected_step(features: Features, coefficients: Coefficients) -> Expected:
    """The step that the model expects; the formula is at the head of this module."""
    rate = features.bytes_per_s * coefficients.bandwidth_share
    weights = features.weight_bytes / rate
    cached = features.cache_bytes / rate + features.attention_flops * coefficients.attend / features.fp32_flops_per_s
    compute = features.compute_s / PRODUCTS_SHARE
    unpack = features.unpacked_weights * coefficients.unpack_flops / features.fp32_flops_per_s
    gaps = features.launches * max(0.0, coefficients.gap_s - (REPLAY_SAVES_S if features.newly_replayed else 0.0))
    device = weights + compute + cached + unpack + gaps
    issue = 0.0 if features.graphs else features.launches * coefficients.issue_s / features.host_speed
    waiting = max(0.0, issue - device)
    host = coefficients.host_s / features.host_speed
    return Expected(
        step_s=device + waiting + host,
        weights_s=weights,
        products_s=compute,
        cache_s=cached,
        unpack_s=unpack,
        launches_s=gaps + waiting,
        host_s=host,
    )


@cache
def shipped_data() -> dict[str, Any]:
    """The file of the shipped calibration."""
    data: dict[str, Any] = msgspec.json.decode(
        resources.files("boundby.llm").joinpath("data/calibration.json").read_bytes()
    )
    return data


PRIORS: Mapping[str, Any] = msgspec.json.decode(
    resources.files("boundby.llm").joinpath("data/priors.json").read_bytes()
)


def cell_of(engine: Engine, hardware: Hardware) -> Cell:
    """The cell of an engine on a device."""
    name = engine.calibrated_as
    family = next((one for one in PRIORS["families"] if name.startswith(one)), name)
    return Cell(engine=name, family=family, kind=hardware.kind)


def factor_keys(parameter: str, cell: Cell) -> tuple[tuple[str, ...], ...]:
    """The factors that a number of a cell is made of."""
    return (
        ("base", parameter),
        ("family", parameter, cell.family),
        ("engine", parameter, cell.engine),
        ("kind", parameter, cell.kind),
        ("family on kind", parameter, cell.family, cell.kind),
    )


def prior_value(parameter: str, cell: Cell) -> float:
    """Where a number starts from before any row is seen."""
    engines: Mapping[str, float] = PRIORS["engine"].get(parameter, {})
    return float(engines.get(cell.engine, engines.get(cell.family, PRIORS["base"][parameter])))


def coefficients(cell: Cell, fitted: Fitted | None = None) -> Coefficients:
    """The calibrated numbers of a cell; those that ship where no fit is given.

    Factors that no row told of are 1: an engine never seen gets the usual numbers of its kind of hardware.
    """
    factors = shipped_factors() if fitted is None else fitted
    share, attend, unpack, gap, issue, host = (
        prior_value(name, cell) * math.exp(sum(factors.get(key, 0.0) for key in factor_keys(name, cell)))
        for name in PARAMETERS
    )
    return Coefficients(
        bandwidth_share=min(share, PRIORS["highest_share"]),
        attend=attend,
        unpack_flops=unpack,
        gap_s=gap,
        issue_s=issue,
        host_s=host,
    )


@cache
def shipped_factors() -> Fitted:
    """The fit that ships, of the rows that are not held out."""
    return {tuple(entry["of"]): float(entry["log"]) for entry in shipped_data()["factors"]}


def fp32_rate(hardware: Hardware) -> float:
    """The device's fp32 rate in FLOP/s; the usual one for its bandwidth where it is not known."""
    return hardware.peaks.get("fp32") or hardware.bytes_per_s * _USUAL_FP32_PER_BYTE
