"""Calibrates the model of decode steps on the shipped rows that are not held out, and writes the file that ships.

    python benchmarks/calibrate_decode.py

Held-out rows (boundby.llm.rows.is_held_out) are not read. The errors that make the intervals are those of fits that had
not seen the row: in twelve folds by a hash of the id for cells with rows, with each device left out for hardware that
is new, with each engine left out for engines that are.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import msgspec

from boundby.llm.calibration import Fitted, coefficients, expected_step
from boundby.llm.features import observe
from boundby.llm.fit import Observation, cross_validate, fit
from boundby.llm.rows import shipped_rows
from boundby.llm.spread import spread_of
from boundby.results.errors import BoundbyError

TARGET = Path(__file__).parents[1] / "src/boundby/llm/data/calibration.json"
FOLDS = 12


def main() -> None:
    rows = {row.id: row for row in shipped_rows() if row.single and row.known_steps and not row.held_out}
    observations = []
    for row in rows.values():
        try:
            observations.append(observe(row))
        except BoundbyError as error:
            print(f"left out: row {row.id}: {error.message}")
    fitted = fit(observations)
    folds = cross_validate(observations, _fold, _predict)
    hardware = cross_validate(observations, lambda one: rows[one.id].hardware, _predict)
    engines = cross_validate(observations, lambda one: one.cell.family, _predict)
    spread = spread_of([(one.cell, error) for one, error in folds], [e for _, e in hardware], [e for _, e in engines])
    for name, errors in (("folds", folds), ("hardware left out", hardware), ("engine left out", engines)):
        sizes = sorted(abs(math.expm1(error)) for _, error in errors)
        print(f"{name}: mean {sum(sizes) / len(sizes):.1%}, median {sizes[len(sizes) // 2]:.1%}")
    content = {
        "about": "Written by benchmarks/calibrate_decode.py; rows by their ids in measured.csv.",
        "rows": [one.id for one in observations],
        "spread": msgspec.to_builtins(spread),
        "factors": [{"of": list(key), "log": value} for key, value in fitted.items()],
    }
    TARGET.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _fold(observation: Observation) -> int:
    return int(hashlib.md5(observation.id.encode()).hexdigest(), 16) % FOLDS


def _predict(fitted: Fitted, observation: Observation) -> float:
    return expected_step(observation.features, coefficients(observation.cell, fitted)).step_s


if __name__ == "__main__":
    main()
