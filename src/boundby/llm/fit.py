"""Fitting the calibrated numbers to published rows; needs numpy and scipy, which predictions do not.

Each number is a base times factors for the engine's family, the engine, the kind of hardware, and the family on that
kind. The logarithms of all factors are drawn towards 0 (ridge), so that an engine or a kind with few rows stays near
what others do. Errors are relative; rows far off count less than by their square.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from boundby.llm.calibration import PARAMETERS, PRIORS, PRODUCTS_SHARE, Cell, Features, Fitted, factor_keys, prior_value

_SIGMA = 0.07
_ITERATIONS = 60
# Half the weight for figures derived from words or of a single weak source.
_WEAK_WEIGHT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A row ready for fitting: its cell, its physics and what was measured (s)."""

    id: str
    cell: Cell
    features: Features
    step_s: float
    weak: bool = False


def fit(observations: Sequence[Observation]) -> Fitted:
    """The factors that fit best: penalised least squares of log errors, tamed by a pseudo-Huber loss.

    Args:
        observations: the rows to calibrate on.
    """
    import numpy as np
    from scipy.optimize import least_squares

    keys: dict[tuple[str, ...], int] = {}
    members = [
        [[keys.setdefault(key, len(keys)) for key in factor_keys(name, one.cell)] for name in PARAMETERS]
        for one in observations
    ]
    deviations = np.array([PRIORS["deviation"][key[0]][key[1]] for key in keys])
    design = np.zeros((len(PARAMETERS), len(observations), len(keys)))
    for row, per_parameter in enumerate(members):
        for parameter, indices in enumerate(per_parameter):
            design[parameter, row, indices] = 1.0
    prior = np.array([[math.log(prior_value(name, one.cell)) for one in observations] for name in PARAMETERS])
    columns = _columns(np, observations)
    weights = np.array([_WEAK_WEIGHT if one.weak else 1.0 for one in observations])
    measured = np.log([one.step_s for one in observations])

    def residuals(scaled: Any) -> Any:
        logs = prior + design @ (scaled * deviations)
        error = (np.log(_step(np, columns, np.exp(logs))) - measured) / _SIGMA
        tamed = np.sign(error) * np.sqrt(2 * weights * (np.sqrt(1 + error**2) - 1))
        return np.concatenate([tamed, scaled])

    found = least_squares(residuals, np.zeros(len(keys)), method="trf", max_nfev=_ITERATIONS).x * deviations
    return {key: round(float(found[index]), 4) for key, index in keys.items()}


def _columns(np: Any, observations: Sequence[Observation]) -> dict[str, Any]:
    features = [one.features for one in observations]
    return {
        "weights": np.array([one.weight_bytes / one.bytes_per_s for one in features]),
        "compute": np.array([one.compute_s / PRODUCTS_SHARE for one in features]),
        "cache": np.array([one.cache_bytes / one.bytes_per_s for one in features]),
        "attend": np.array([one.attention_flops / one.fp32_flops_per_s for one in features]),
        "unpack": np.array([one.unpacked_weights / one.fp32_flops_per_s for one in features]),
        "launches": np.array([float(one.launches) for one in features]),
        "issued": np.array([0.0 if one.graphs else one.launches / one.host_speed for one in features]),
        "host": np.array([1 / one.host_speed for one in features]),
    }


def _step(np: Any, columns: dict[str, Any], values: Any) -> Any:
    """`boundby.llm.calibration.expected_step` for all rows at once; a test holds the two together."""
    share, attend, unpack, gap, issue, host = values
    share = np.minimum(share, PRIORS["highest_share"])
    device = (
        columns["weights"] / share
        + columns["compute"]
        + columns["cache"] / share
        + columns["attend"] * attend
        + columns["unpack"] * unpack
        + columns["launches"] * gap
    )
    return np.maximum(device, columns["issued"] * issue) + columns["host"] * host


def cross_validate(
    observations: Sequence[Observation],
    group: Callable[[Observation], Hashable],
    predict: Callable[[Fitted, Observation], float],
) -> list[tuple[Observation, float]]:
    """Log errors (predicted over measured) of each row by a fit that saw none of its group.

    Args:
        observations: the rows.
        group: which rows are left out together.
        predict: the step in seconds by a fit.
    """
    errors = []
    for left_out in dict.fromkeys(group(one) for one in observations):
        fitted = fit([one for one in observations if group(one) != left_out])
        errors += [(one, math.log(predict(fitted, one) / one.step_s)) for one in observations if group(one) == left_out]
    return errors
