"""A training step of the small GPT on random tokens, to be called as often as one likes."""

from __future__ import annotations

import torch

import boundby
from boundby.labs.base_model import GPT, GPTConfig
from boundby.results.module_tree import CallCounts


class TrainingStep:
    """Forward, cross-entropy, backward and AdamW on one batch of random tokens.

    The first call makes the optimizer's state: it is no step like the others.

    Args:
        config: the sizes of the model.
        batch: sequences in the batch.
        device: where it runs; ``meta`` for shapes without numbers, which can be counted and not timed.
    """

    def __init__(self, config: GPTConfig, *, batch: int, device: str = "cpu") -> None:
        made = GPT(config, seed=0)
        is_tied = made.head.weight is made.tok.weight
        self.model = made.to(device)
        if is_tied:  # a move to another device may have made two of the table
            self.model.head.weight = self.model.tok.weight
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        generator = torch.Generator().manual_seed(batch)
        tokens = torch.randint(config.vocab_size, (batch, config.block_size + 1), generator=generator).to(device)
        self._inputs, self._targets = tokens[:, :-1], tokens[:, 1:]

    def __call__(self) -> None:
        """One step."""
        loss = self.model.loss(self._inputs, self._targets)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()

    def count(self) -> CallCounts:
        """The counts of a step; runs one."""
        return boundby.count(self)
