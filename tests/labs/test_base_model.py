"""The base model: its shapes, its parameters by arithmetic, its seed, and how many ops a training step of it takes."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from boundby.labs.base_model import GPT, GPTConfig, count_parameters


class AtenCounter(TorchDispatchMode):
    """Counts the aten ops that reach it, views included."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "aten":
            self.ops[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def parameters_by_arithmetic(vocab: int, block: int, layers: int, width: int) -> int:
    """Token table (shared with the output), positions, per block two norms, attention and MLP, and the last norm."""
    attention = (3 * width * width + 3 * width) + (width * width + width)
    mlp = (4 * width * width + 4 * width) + (4 * width * width + width)
    return vocab * width + block * width + layers * (2 * 2 * width + attention + mlp) + 2 * width


def random_tokens(batch: int, seed: int = 0) -> torch.Tensor:
    config = GPTConfig()
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(config.vocab_size, (batch, config.block_size + 1), generator=generator)


def train(model: GPT, tokens: torch.Tensor, steps: int) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def count_step_ops(batch: int) -> Counter[str]:
    """Ops of the second training step: the first one also makes the optimizer's state."""
    model = GPT(GPTConfig())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = random_tokens(batch)
    counter = AtenCounter()
    for step in range(2):
        optimizer.zero_grad(set_to_none=True)
        with counter:
            model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
            optimizer.step()
        if step == 0:
            counter.ops.clear()
    return counter.ops


def test_the_defaults_are_the_base_model() -> None:
    config = GPTConfig()
    assert (config.n_layer, config.d_model, config.n_head) == (2, 64, 4)
    assert (config.block_size, config.vocab_size) == (96, 44)


@pytest.mark.parametrize("width", [32, 64, 256])
def test_parameters_are_those_of_the_arithmetic(width: int) -> None:
    model = GPT(GPTConfig(d_model=width))
    assert count_parameters(model) == parameters_by_arithmetic(44, 96, 2, width)


def test_frozen_parameters_are_not_counted() -> None:
    model = GPT(GPTConfig())
    model.pos.weight.requires_grad_(False)
    assert count_parameters(model) == parameters_by_arithmetic(44, 96, 2, 64) - 96 * 64


def test_logits_have_a_row_a_token() -> None:
    model = GPT(GPTConfig())
    assert model(random_tokens(3)[:, :17]).shape == (3, 17, 44)


def test_the_first_loss_is_that_of_guessing() -> None:
    tokens = random_tokens(8)
    loss = GPT(GPTConfig()).loss(tokens[:, :-1], tokens[:, 1:]).item()
    assert loss == pytest.approx(math.log(44), rel=0.02)


def test_a_token_does_not_see_the_future() -> None:
    model = GPT(GPTConfig())
    tokens = random_tokens(1)[:, :96]
    changed = tokens.clone()
    changed[0, 50:] = (changed[0, 50:] + 1) % 44
    assert torch.equal(model(changed)[0, :50], model(tokens)[0, :50])
    assert not torch.equal(model(changed)[0, 50:], model(tokens)[0, 50:])


def test_the_same_seed_gives_the_same_losses() -> None:
    tokens = random_tokens(2)
    first = train(GPT(GPTConfig(), seed=7), tokens, steps=3)
    assert train(GPT(GPTConfig(), seed=7), tokens, steps=3) == first
    assert train(GPT(GPTConfig(), seed=8), tokens, steps=3) != first


def test_making_a_model_leaves_the_global_random_numbers_alone() -> None:
    torch.manual_seed(3)
    plain = torch.rand(4)
    torch.manual_seed(3)
    GPT(GPTConfig(), seed=11)
    assert torch.equal(torch.rand(4), plain)


def test_training_on_one_batch_lowers_the_loss() -> None:
    losses = train(GPT(GPTConfig()), random_tokens(2), steps=20)
    assert losses[-1] < losses[0]


def test_a_training_step_is_about_600_ops() -> None:
    ops = count_step_ops(batch=1)
    assert 550 <= ops.total() <= 650
    # One addcdiv_ a parameter tensor: AdamW on the CPU goes through them one by one.
    assert ops["addcdiv_"] == len(list(GPT(GPTConfig()).parameters()))


def test_the_batch_hardly_changes_the_ops() -> None:
    # At batch 1 some views stand where a larger batch needs a copy.
    assert count_step_ops(batch=4).total() == pytest.approx(count_step_ops(batch=1).total(), rel=0.02)
    assert count_step_ops(batch=4) == count_step_ops(batch=16)


@pytest.mark.parametrize(
    "sizes", [{"n_layer": 0}, {"vocab_size": -1}, {"n_head": 3}], ids=["no-layer", "negative-vocabulary", "heads"]
)
def test_sizes_that_make_no_model_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"GPTConfig|n_head"):
        GPTConfig(**sizes)


def test_a_context_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="96 tokens at most, not 97"):
        GPT(GPTConfig())(random_tokens(1))


def run_training(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "boundby.labs.train_base_model", *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )


def test_the_training_script_ends_with_a_loss_that_its_seed_fixes() -> None:
    runs = [run_training("--steps", "4", "--batch-size", "2", "--seed", "5") for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0]
    assert re.search(r"^final loss \d+\.\d{6}$", runs[0].stdout, re.MULTILINE)
    assert runs[1].stdout == runs[0].stdout


def test_the_training_script_refuses_no_steps() -> None:
    run = run_training("--steps", "0")
    assert run.returncode == 2
    assert "must be at least 1" in run.stderr
