"""The share of a step that is spent waiting for its input, against what the script itself measures."""

from __future__ import annotations

from black_box import Runner, checked


def test_input_share_is_the_wait_for_input(runner: Runner) -> None:
    found = {}
    for name in ("sleeping", "computing", "host_code", "ready"):
        run = runner.watched("slow_input.py", name, options=())
        report, waits_s = checked(run.report), float(run.text.split()[-1])
        step_s, share = report["step"]["time_s"]["median"], report["split"]["input"]
        found[name] = share["value"]
        # The machine may change its speed between watched and bare steps, which the share's band allows for.
        assert share["low"] - 0.1 < waits_s / step_s < share["high"] + 0.1, name
        assert (report["verdict"]["bound"] == "input") == (name != "ready"), name
    # Its gradients, freed before the forward pass, are no input.
    assert found["ready"] < 0.05
    assert min(found[name] for name in ("sleeping", "computing", "host_code")) > found["ready"] + 0.2
