"""The share of a step that is spent waiting for its input, against what the script itself measures."""

from __future__ import annotations

from black_box import Runner, checked


def test_input_share_is_the_wait_for_input(runner: Runner) -> None:
    found = {}
    for name in ("sleeping", "computing", "host_code", "ready"):
        run = runner.watched("slow_input.py", name, options=())
        report, truth = checked(run.report), sorted(float(share) for share in run.text.split())
        share, bound = report["split"]["input"], report["verdict"]["bound"]
        # A step in ten is left out at each end. The script's own steps hold what watching takes between them, and the
        # machine may change its speed between watched and bare steps, which the share's band allows for.
        low, high = truth[len(truth) // 10], truth[-1 - len(truth) // 10]
        assert low - 0.1 < share["high"], name
        assert share["low"] < high + 0.1, name
        assert (bound != "input") if name == "ready" else bound in ("input", "unknown"), name
        found[name] = share["value"]
    # Its gradients, freed before the forward pass, are no input.
    assert found["ready"] < 0.05
    assert min(found[name] for name in ("sleeping", "computing", "host_code")) > found["ready"] + 0.2
