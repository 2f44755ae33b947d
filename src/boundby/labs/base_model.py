"""The small GPT that the labs measure and that ``boundby run`` explains when no script is named.

A character-level decoder of 2 layers, width 64, 4 heads, context 96 and 44 characters, written with the plain modules
that a first training script would use: a step of it at batch 1 is a few hundred tiny ops, at batch 32 a mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class GPTConfig:
    """The sizes of the model; the defaults are the base model.

    Args:
        vocab_size: number of distinct tokens.
        block_size: longest context, in tokens.
        n_layer: number of decoder blocks.
        n_head: attention heads; divides ``d_model``.
        d_model: width of the residual stream, in elements.

    Raises:
        ValueError: a size is below 1, or ``n_head`` does not divide ``d_model``.
    """

    vocab_size: int = 44
    block_size: int = 96
    n_layer: int = 2
    n_head: int = 4
    d_model: int = 64

    def __post_init__(self) -> None:
        sizes = (self.vocab_size, self.block_size, self.n_layer, self.n_head, self.d_model)
        if min(sizes) < 1:
            raise ValueError(f"every size of a GPTConfig is at least 1, not {sizes}")
        if self.d_model % self.n_head:
            raise ValueError(f"n_head divides d_model, but {self.n_head} does not divide {self.d_model}")


class CausalSelfAttention(nn.Module):
    """Multi-head attention in which a token sees itself and what came before it, written out op by op.

    The scores are formed, masked and normalised one after the other, as a lecture does, so that what fusing them would
    save is there to see.
    """

    future: Tensor

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model)
        self.proj = nn.Linear(config.d_model, config.d_model)
        future = torch.ones(config.block_size, config.block_size, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, tokens, d_model) to the same shape."""
        batch, tokens, width = x.shape
        q, k, v = (
            part.view(batch, tokens, self.n_head, width // self.n_head).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // self.n_head)
        weights = scores.masked_fill(self.future[:tokens, :tokens], float("-inf")).softmax(dim=-1)
        out: Tensor = self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))
        return out


class Block(nn.Module):
    """A pre-norm decoder block: attention and a four times wider MLP, each added to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.d_model)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.d_model)
        self.mlp = nn.Sequential(
            nn.Linear(config.d_model, 4 * config.d_model),
            nn.GELU(),
            nn.Linear(4 * config.d_model, config.d_model),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Maps (batch, tokens, d_model) to the same shape."""
        x = x + self.attn(self.ln_1(x))
        out: Tensor = x + self.mlp(self.ln_2(x))
        return out


class GPT(nn.Module):
    """A decoder-only transformer with learned positions, whose output layer is the token table transposed.

    Example:
        >>> model = GPT(GPTConfig(), seed=0)
        >>> model(torch.zeros(1, 96, dtype=torch.long)).shape
        torch.Size([1, 96, 44])

    Args:
        config: the sizes.
        seed: fixes the initial weights. They are drawn from a generator of their own state: the global random
            numbers that follow are those that would have come without the model.
    """

    def __init__(self, config: GPTConfig, *, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.tok = nn.Embedding(config.vocab_size, config.d_model)
            self.pos = nn.Embedding(config.block_size, config.d_model)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layer))
            self.ln_f = nn.LayerNorm(config.d_model)
            self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
            for table in (self.tok, self.pos):
                nn.init.normal_(table.weight, std=0.02)
            self.head.weight = self.tok.weight

    def forward(self, idx: Tensor) -> Tensor:
        """Maps token numbers (batch, tokens) to logits (batch, tokens, vocab_size).

        Raises:
            ValueError: there are more tokens than ``block_size``.
        """
        tokens = idx.size(1)
        if tokens > self.config.block_size:
            raise ValueError(f"the context is {self.config.block_size} tokens at most, not {tokens}")
        x = self.tok(idx) + self.pos(torch.arange(tokens, device=idx.device))
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.ln_f(x))
        return logits

    def loss(self, idx: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats of ``targets`` (batch, tokens) given ``idx`` (batch, tokens); a 0-dim tensor."""
        logits = self(idx)
        return functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


def count_parameters(model: nn.Module) -> int:
    """The number of trainable parameters, in elements, shared ones once."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
