"""Final losses and random states are equal to the last bit, and the steps found are the natural ones."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from black_box import QUICK, SCRIPTS, Outcome, Runner, checked, words

from boundby.results.counts import REGION_NAME

# name: kind of step, optimizer steps (or outermost calls) that make one natural step
LOOPS = {
    "mlp_sgd": ("training", 1),
    "adam": ("training", 1),
    "adamw_fused": ("training", 1),
    "dropout": ("training", 1),
    "lbfgs": ("training", 1),
    "accumulation": ("training", 1),
    "gan": ("training", 2),
    "gan_three_critic_steps": ("training", 4),
    "loader": ("training", 1),
    "loader_with_workers": ("training", 1),
    "autocast": ("training", 1),
    "checkpointed": ("training", 1),
    "custom_function": ("training", 1),
    "evaluation_between": ("training", 1),
    "cached_generation": ("inference", 1),
    "forward_only": ("inference", 1),
    "marked_with": (None, 1),
    "marked_iterable": (None, 1),
    "two_lengths": ("training", 1),
    "random_lengths": ("training", 1),
    "compiled": ("training", 1),
}


@pytest.fixture(scope="module")
def outcomes(runner: Runner) -> dict[str, tuple[str, Outcome]]:
    """For each loop the line that plain Python prints (all in one process: each seeds itself) and the watched run."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plain = pool.submit(runner.plain, "loops.py", *LOOPS)
        runs = {name: pool.submit(runner.watched, "loops.py", name) for name in LOOPS}
        lines = plain.result().text.splitlines()
        return {name: (line, runs[name].result()) for name, line in zip(LOOPS, lines, strict=True)}


@pytest.mark.parametrize("name", LOOPS)
def test_results_are_bit_identical(outcomes: dict[str, tuple[str, Outcome]], name: str) -> None:
    plain, watched = outcomes[name]
    assert plain.startswith(f"{name} ")
    assert watched.text == f"{plain}\n", watched.stderr
    assert watched.status == 0


@pytest.mark.parametrize("name", LOOPS)
def test_steps_found(outcomes: dict[str, tuple[str, Outcome]], name: str) -> None:
    kind, events = LOOPS[name]
    report = checked(outcomes[name][1].report)
    step = report["step"]
    assert kind is None or step["kind"] == kind
    assert step["events_per_step"] == events
    assert step["steps_timed"] >= 1
    assert step["steps_watched"] >= 1
    assert step["time_s"]["low"] <= step["time_s"]["median"] <= step["time_s"]["high"]
    assert step["time_s"]["low"] > 0
    counts = report["counts"]
    assert counts["ops"] > 0
    assert counts["launches"] > 0
    # Only a compiled region is one op of several launches.
    compiled = any(one["name"] == REGION_NAME for one in counts["by_op"])
    assert compiled or counts["ops"] >= counts["launches"]
    assert report["reconciliation"] is not None, "known also where the ops of a step vary"
    assert report["reconciliation"]["value"] > 0


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "compiled"])
def test_time_is_charged_to_lines_of_the_script(outcomes: dict[str, tuple[str, Outcome]], name: str) -> None:
    report = checked(outcomes[name][1].report)
    own = [row for row in report["ops"] if row["path"] and row["path"].endswith("loops.py")]
    assert sum(row["time_s"] for row in own) > 0.5 * sum(row["time_s"] for row in report["ops"])
    lines = (SCRIPTS / "loops.py").read_text().splitlines()
    assert all(row["code"] is None or row["code"].strip() == lines[row["line"] - 1].strip() for row in own)
    if LOOPS[name][0] == "training":
        assert {row["phase"] for row in report["ops"]} >= {"forward", "backward", "optimizer"}


def step_counts(outcomes: dict[str, tuple[str, Outcome]], name: str) -> dict[str, Any]:
    counts: dict[str, Any] = checked(outcomes[name][1].report)["counts"]
    return counts


def test_matmul_flops_of_natural_steps(outcomes: dict[str, tuple[str, Outcome]]) -> None:
    sizes = [(20, 32), (32, 32), (32, 1)]
    forward = sum(2 * i * o for i, o in sizes)
    input_gradients = sum(2 * i * o for i, o in sizes[1:])
    row = 2 * forward + input_gradients  # forward, weight gradients, input gradients
    assert step_counts(outcomes, "mlp_sgd")["matmul_flops"] == 16 * row
    assert step_counts(outcomes, "accumulation")["matmul_flops"] == 4 * 8 * row
    assert step_counts(outcomes, "evaluation_between")["matmul_flops"] == 16 * row
    assert step_counts(outcomes, "forward_only")["matmul_flops"] == 16 * forward


def test_gan_step_holds_both_updates(outcomes: dict[str, tuple[str, Outcome]]) -> None:
    generator = 2 * (8 * 16 + 16 * 20)
    critic = 2 * (20 * 16 + 16)
    critic_update = generator + 2 * critic + 2 * critic + 2 * (2 * 16)  # two batches: forward, weights, inner gradients
    generator_update = generator + critic + generator + critic + critic + 2 * 16 * 20
    for name, critic_steps in (("gan", 1), ("gan_three_critic_steps", 3)):
        assert step_counts(outcomes, name)["matmul_flops"] == 16 * (critic_steps * critic_update + generator_update)


def test_steps_of_two_lengths_are_classes_or_said_to_vary(outcomes: dict[str, tuple[str, Outcome]]) -> None:
    report = checked(outcomes["two_lengths"][1].report)
    classes = report["step"]["classes"]
    assert len(classes) >= 2
    assert len({c["ops"] for c in classes}) >= 2


def test_generation_steps_grow_but_are_of_one_class(outcomes: dict[str, tuple[str, Outcome]]) -> None:
    report = checked(outcomes["cached_generation"][1].report)
    assert len({c["ops"] for c in report["step"]["classes"]}) == 1


@pytest.mark.parametrize(
    ("script", "module"), [("hf_trainer.py", "transformers"), ("lightning_module.py", "lightning")]
)
def test_training_frameworks(runner: Runner, script: str, module: str) -> None:
    pytest.importorskip(module)
    pair = runner.pair(script)
    assert pair.plain.status == pair.watched.status == 0, pair.watched.stderr
    plain, watched = (
        [line for line in text.splitlines() if line.startswith(("logged", "loss"))]
        for text in (pair.plain.text, pair.watched.text)
    )
    assert plain == watched
    assert plain[-1].startswith("loss")
    step = checked(pair.watched.report)["step"]
    assert (step["kind"], step["events_per_step"]) == ("training", 1)


def test_embedded_default_without_a_script(runner: Runner) -> None:
    done = runner.watched(options=QUICK)
    assert done.status == 0, done.stderr
    report = checked(done.report)
    assert report["step"]["kind"] == "training"
    assert words(report["verdict"]["sentence"]) in words(done.text + done.stderr)
