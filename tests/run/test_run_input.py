"""The share of a step that is spent waiting for its input, against what the script itself measures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from black_box import Runner, checked


def test_input_share_is_the_wait_for_input(runner: Runner) -> None:
    names = ("sleeping", "computing", "host_code", "ready")
    with ThreadPoolExecutor(2) as pool:
        runs = dict(
            zip(names, pool.map(lambda name: runner.watched("slow_input.py", name, options=()), names), strict=True)
        )
    for name in names:
        truth = float(runs[name].text.split()[-1])
        share = checked(runs[name].report)["split"]["input"]
        assert share["value"] == pytest.approx(truth, abs=0.1), name
    least = min(checked(runs[name].report)["split"]["input"]["value"] for name in names[:3])
    assert least > checked(runs["ready"].report)["split"]["input"]["value"] + 0.2
    assert checked(runs["sleeping"].report)["verdict"]["bound"] == "input"
