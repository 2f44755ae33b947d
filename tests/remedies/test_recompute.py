"""Recomputation: the forward pass of blocks again, the memory it may free, gradients equal to the last bit."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import textwrap

import pytest
from made_up_rows import STEP_S, report_of, row

from boundby.remedies import recompute
from boundby.remedies.contract import CannotTell, Compared, Evidence, NotApplicable
from boundby.remedies.ranking import advice_for
from boundby.results.interval import interval
from boundby.results.remedy import ScriptFacts

BACKWARD = row("mm", "8x8 8x8", 0.1, phase="backward", module="blocks.0.fc")


@pytest.fixture
def evidence(sample_report):
    def make(*rows, probe=None, host=0.3, **counts) -> Evidence:
        report = report_of(sample_report("overhead"), *rows, host=host)
        report = dataclasses.replace(report, counts=dataclasses.replace(report.counts, **counts))
        return Evidence(report=report, machine=report.machine, facts=ScriptFacts(), probe=probe)

    return make


def two_blocks(share: float = 0.1, container: str = "blocks", written: int = 1 << 20):
    return [
        row("addmm", "8x8", share / 2, module=f"{container}.{number}.fc", bytes_written=written) for number in (0, 1)
    ]


def test_the_forward_pass_of_blocks_runs_twice(evidence):
    found = recompute.predict(evidence(*two_blocks(0.25), BACKWARD, row("add", "8", 0.5, module="head")))
    assert found.speedup == pytest.approx(1 / 1.25)
    assert found.low < found.speedup < found.high < 1.0
    assert advice_for(found) == "skip"
    assert "2 MiB" in found.reason
    assert "blocks.* (2 blocks)" in found.change
    assert "memory" in found.change


def test_noting_blocks_costs_what_a_probe_says(evidence):
    def probe(base, changed, *, budget_s=None):
        base(), changed()
        return Compared(base_s=1e-4, changed_s=1e-4 + 0.01 * STEP_S, ratio=interval(2.0))

    plain = recompute.predict(evidence(*two_blocks(0.25), BACKWARD))
    found = recompute.predict(evidence(*two_blocks(0.25), BACKWARD, probe=probe))
    # Half by block, half by its ops: two blocks and two ops.
    assert 1 / found.speedup - 1 / plain.speedup == pytest.approx(0.01 * (2 + 2 / recompute.PROBED_OPS) / 2)


def test_what_is_saved_bounds_what_is_freed(evidence):
    assert "1 MiB" in recompute.predict(evidence(*two_blocks(), BACKWARD, saved_bytes=1 << 20)).reason


def test_those_first_that_free_most_for_a_second(evidence):
    slow, quick = two_blocks(0.4, "encoder.layer"), two_blocks(0.05, "decoder.layer")
    groups = recompute.repeated_blocks(evidence(*slow, *quick, BACKWARD))
    assert [one.container for one in groups] == ["decoder.layer", "encoder.layer"]
    assert [one.count for one in groups] == [2, 2]


def test_a_step_of_which_too_little_is_known_is_not_predicted(evidence):
    assert isinstance(
        recompute.predict(evidence(*two_blocks(0.0), row("mm", "8", 0.0, phase="backward"), host=0.0)), CannotTell
    )


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ([*two_blocks()], {}),
        ([BACKWARD, row("addmm", "8x8", 0.3, module="net.0"), row("addmm", "8x8", 0.3, module="net.2")], {}),
        ([BACKWARD, row("addmm", "8x8", 0.3, module="blocks.0.fc")], {}),
        ([BACKWARD, *two_blocks()], {"recomputed_flops": 8}),
    ],
)
def test_where_there_is_nothing_to_compute_again(evidence, rows, counts):
    assert isinstance(recompute.predict(evidence(*rows, **counts)), NotApplicable)


def test_gradients_are_equal_to_the_last_bit_and_blocks_are_seen_to_run_again():
    code = """
        import copy
        import torch
        from torch import nn
        from boundby.remedies import recompute
        from boundby.remedies.contract import Effects

        class Block(nn.Module):
            def __init__(self, norm):
                super().__init__()
                self.fc, self.norm, self.drop = nn.Linear(8, 8), norm(8), nn.Dropout(0.5)
            def forward(self, x, *, scale=1.0):
                return x + scale * self.drop(torch.tanh(self.fc(self.norm(x))))

        class Net(nn.Module):
            def __init__(self, norm):
                super().__init__()
                self.blocks = nn.ModuleList(Block(norm) for _ in range(3))
                self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
            def forward(self, x):
                for block in self.blocks:
                    x = block(x, scale=0.5)
                return self.head(x)

        def gradients(net):
            torch.manual_seed(1)
            net.zero_grad()
            net(torch.ones(4, 8)).sum().backward()
            return [one.grad.clone() for one in net.parameters()]

        net, normed = Net(nn.LayerNorm), Net(nn.BatchNorm1d)
        before = gradients(net), gradients(normed)
        effects = Effects()
        recompute.apply(effects)
        normed.load_state_dict(normed.state_dict())
        calls = []
        hook = nn.modules.module.register_module_forward_pre_hook(lambda module, args: calls.append(module))
        after = gradients(net), gradients(copy.deepcopy(normed))
        hook.remove()
        print(sum(one is net.blocks[0] for one in calls))
        print(all(torch.equal(a, b) for a, b in zip(before[0], after[0], strict=True)))
        print(effects.seen)
        print(effects.refused)
        net.eval()
        net(torch.ones(4, 8)).sum().backward()
        with torch.no_grad():
            net.train()(torch.ones(4, 8))
        print(effects.seen)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    heard, equal, seen, refused, later = done.stdout.splitlines()
    assert heard == "1"
    assert equal == "True"
    assert seen == later == "{'a block computed again': 3}"
    assert refused == "['blocks with running statistics would count each batch twice']"
