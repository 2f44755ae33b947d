"""Fused optimizers: predicted by stepping the script's own shapes, applied where torch is left the choice."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from made_up_rows import FixedProbe, bare_row, evidence_of, filled_report, optimizer

from boundby.capture.facts import FactsSeen, optimizer_facts
from boundby.remedies import fused_optimizer
from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.results.remedy import Predicted, ScriptFacts


def stepped(kind, **options):
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(4)))
    optimizer = kind(model.parameters(), lr=1e-3, **options)
    model(torch.ones(2, 16)).sum().backward()
    return optimizer


@pytest.fixture
def evidence(sample_report):
    def make(*optimizers, probe=None) -> Evidence:
        report = sample_report("overhead")
        facts = ScriptFacts(optimizers=tuple(optimizer_facts(one) for one in optimizers))
        return Evidence(report=report, machine=report.machine, facts=facts, probe=probe)

    return make


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_every_optimizer_with_a_fused_kernel_is_probed_on_its_own_shapes(evidence, kind):
    found = fused_optimizer.predict(evidence(stepped(kind), probe=TurnsProbe(budget_s=0.02)))
    assert isinstance(found, Predicted | CannotTell)  # undecided where the machine is busy
    if isinstance(found, Predicted):
        assert "8 parameters" in found.reason
        assert found.low <= found.speedup <= found.high


def test_an_optimizer_takes_as_long_as_its_ops_do_inside_the_step(sample_report):
    rows = (bare_row("addcdiv_", "16x16 16x16 16x16", 0.6, phase="optimizer"),)
    report = filled_report(sample_report("overhead"), rows)
    adam = optimizer("Adam", (16, 16))

    def found(base_s, *optimizers):
        evidence = evidence_of(report, probe=FixedProbe(0.25, base_s=base_s), optimizers=optimizers)
        return fused_optimizer.predict(evidence)

    # By itself it took 20 ms; inside the step of 100 ms its ops take 60.
    assert found(0.02, adam).speedup == pytest.approx(1 / (1 - 0.6 * 0.75))
    # What replaces it may take what it took by itself.
    assert found(0.02, adam).high > 1 / (1 - (0.6 - 0.02 * 0.25 / 0.1))
    # Its own Python comes on top of its ops.
    assert found(0.08, adam).speedup == pytest.approx(1 / (1 - 0.8 * 0.75))
    # Whose the ops are is not known where another optimizer stepped as well.
    assert found(0.02, adam, optimizer("RMSprop", (16, 16))).speedup == pytest.approx(1 / (1 - 0.2 * 0.75))


def test_without_probes_it_cannot_be_told(evidence):
    assert isinstance(fused_optimizer.predict(evidence(stepped(torch.optim.AdamW))), CannotTell)


@pytest.mark.parametrize(
    ("kind", "options"),
    [(torch.optim.AdamW, {"fused": True}), (torch.optim.RMSprop, {}), (torch.optim.Adafactor, {})],
)
def test_what_is_fused_already_or_has_no_such_kernel_is_left_alone(evidence, kind, options):
    assert isinstance(fused_optimizer.predict(evidence(stepped(kind, **options))), NotApplicable)


def test_without_an_optimizer_there_is_nothing_to_fuse(evidence):
    assert isinstance(fused_optimizer.predict(evidence()), NotApplicable)


MADE = {
    "torch.optim.AdamW(p)": (True, "fused AdamW"),
    "torch.optim.AdamW(iter(p), lr=0.1)": (True, "fused AdamW"),
    "torch.optim.SGD(p, 0.1)": (True, "fused SGD"),
    "torch.optim.AdamW(p, foreach=True)": (None, ""),
    "torch.optim.AdamW(p, fused=False)": (False, ""),
    "torch.optim.AdamW([c])": (None, "AdamW: "),
    "torch.optim.RMSprop(p)": ("absent", ""),
}
# Applied and stepped once in a child process for each optimizer, which finds all that takes long to import.
APPLIED = """
import os, sys
import torch, torch._dynamo
from boundby.remedies import fused_optimizer
from boundby.remedies.contract import Effects

def apply(make):
    effects = Effects()
    fused_optimizer.apply(effects)
    p = [torch.nn.Parameter(torch.ones(3))]
    c = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    optimizer = eval(make, {"torch": torch, "p": p, "c": c})
    for one in optimizer.param_groups[0]["params"]:
        one.grad = torch.ones_like(one)
    optimizer.step()
    print(make, "|", optimizer.defaults.get("fused", "absent"), "|", effects.text(), flush=True)

for make in sys.argv[1:]:
    if os.fork() == 0:
        apply(make)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"failed: {make}")
"""


@pytest.fixture(scope="module")
def applied() -> dict[str, list[str]]:
    """By the text that makes the optimizer: whether it is fused, and what is told."""
    command = [sys.executable, "-c", APPLIED, *MADE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [[part.strip() for part in line.split("|")] for line in done.stdout.splitlines()]
    return {make: rest for make, *rest in lines}


@pytest.mark.parametrize("make", MADE)
def test_optimizers_are_fused_where_the_script_leaves_it_to_torch(applied, make):
    fused, says = MADE[make]
    seen, text = applied[make]
    assert seen == str(fused)
    assert says in text
    assert bool(text) == bool(says)


def test_an_optimizer_whose_closure_makes_the_gradients_is_looked_at_once_they_are_there():
    model = torch.nn.Linear(3, 2)
    adam = torch.optim.AdamW(model.parameters())
    seen = FactsSeen()

    def closure():
        adam.zero_grad()
        loss = model(torch.ones(1, 3)).sum()
        loss.backward()
        return loss

    for _ in range(2):
        seen.optimizer(adam)
        adam.step(closure)
    (facts,) = seen.facts(inference=False).optimizers
    assert sorted(facts.shapes) == [(2,), (2, 3)]
