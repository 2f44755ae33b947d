"""Training and inference loops as people write them; each prints its final loss to the last bit.

    python loops.py NAME [NAME ...]

Every loop seeds itself, so a loop gives the same loss alone as after others.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import boundby

STEPS = 30
LOOPS: dict[str, Callable[[], torch.Tensor]] = {}


def loop(function: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    LOOPS[function.__name__] = function
    return function


def mlp(dropout: float = 0.0) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(20, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)
    )


def batch(rows: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, 20)
    return x, x.sum(1, keepdim=True).sin()


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    loss = torch.zeros(())
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


@loop
def mlp_sgd() -> torch.Tensor:
    model = mlp()
    return train(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))


@loop
def adam() -> torch.Tensor:
    model = mlp()
    return train(model, torch.optim.Adam(model.parameters(), lr=1e-2))


@loop
def adamw_fused() -> torch.Tensor:
    model = mlp()
    return train(model, torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True))


@loop
def dropout() -> torch.Tensor:
    model = mlp(dropout=0.3)
    return train(model, torch.optim.Adam(model.parameters(), lr=1e-2))


@loop
def lbfgs() -> torch.Tensor:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    loss = torch.zeros(())
    for _ in range(STEPS):
        x, y = batch(64)

        def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            optimizer.zero_grad()
            value = F.mse_loss(model(x), y)
            value.backward()
            return value

        loss = optimizer.step(closure)
    return loss


@loop
def accumulation() -> torch.Tensor:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for micro in range(4 * STEPS):
        x, y = batch(8)
        loss = F.mse_loss(model(x), y)
        (loss / 4).backward()
        if micro % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    return loss


def adversarial(critic_steps: int) -> torch.Tensor:
    generator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 20))
    critic = nn.Sequential(nn.Linear(20, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
    d_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
    g_loss = torch.zeros(())
    for _ in range(STEPS):
        for _ in range(critic_steps):
            d_opt.zero_grad()
            fake = generator(torch.randn(16, 8)).detach()
            d_loss = critic(fake).mean() - critic(torch.randn(16, 20)).mean()
            d_loss.backward()
            d_opt.step()
        g_opt.zero_grad()
        g_loss = -critic(generator(torch.randn(16, 8))).mean()
        g_loss.backward()
        g_opt.step()
    return g_loss


@loop
def gan() -> torch.Tensor:
    return adversarial(critic_steps=1)


@loop
def gan_three_critic_steps() -> torch.Tensor:
    return adversarial(critic_steps=3)


class Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return 8 * STEPS

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(20) + i / len(self)
        return x, x.sum(0, keepdim=True).sin()


def from_loader(workers: int) -> torch.Tensor:
    model = mlp(dropout=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for x, y in DataLoader(Rows(), batch_size=8, shuffle=True, num_workers=workers):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


@loop
def loader() -> torch.Tensor:
    return from_loader(0)


@loop
def loader_with_workers() -> torch.Tensor:
    return from_loader(2)


@loop
def autocast() -> torch.Tensor:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = torch.zeros(())
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
    return loss


@loop
def checkpointed() -> torch.Tensor:
    blocks = nn.ModuleList([nn.Sequential(nn.Linear(20, 20), nn.Dropout(0.2), nn.GELU()) for _ in range(3)])
    head = nn.Linear(20, 1)
    optimizer = torch.optim.Adam([*blocks.parameters(), *head.parameters()], lr=1e-2)
    loss = torch.zeros(())
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        loss = F.mse_loss(head(x), y)
        loss.backward()
        optimizer.step()
    return loss


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


@loop
def custom_function() -> torch.Tensor:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for _ in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        loss = Square.apply(model(x) - y).mean()
        loss.backward()
        optimizer.step()
    return loss


@loop
def evaluation_between() -> torch.Tensor:
    model = mlp(dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss = torch.zeros(())
    for step in range(2 * STEPS):
        model.train()
        x, y = batch()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            model.eval()
            with torch.no_grad():
                held_out = [F.mse_loss(model(a), b).item() for a, b in (batch(64) for _ in range(4))]
            random.random()
            np.random.rand(len(held_out))
    return loss


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.qkv = nn.Linear(32, 96, bias=False)
        self.out = nn.Linear(32, 50)

    def forward(
        self, tokens: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        q, k, v = self.qkv(self.embed(tokens)).chunk(3, dim=-1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.out(y[:, -1]), (k, v)


@loop
def cached_generation() -> torch.Tensor:
    model = Decoder().eval()
    with torch.inference_mode():
        tokens = torch.randint(0, 50, (2, 12))
        cache = None
        logits = torch.zeros(())
        for _ in range(2 * STEPS):
            logits, cache = model(tokens, cache)
            tokens = torch.multinomial(logits.softmax(-1), 1)
        return logits.logsumexp(-1).mean()


@loop
def forward_only() -> torch.Tensor:
    model = mlp(dropout=0.1)
    return torch.stack([model(batch()[0]).mean().detach() for _ in range(2 * STEPS)]).mean()


@loop
def marked_with() -> torch.Tensor:
    weight = torch.randn(20, 1, requires_grad=True)
    loss = torch.zeros(())
    for _ in range(STEPS):
        with boundby.step():
            x, y = batch()
            loss = F.mse_loss(x @ weight, y)
            (gradient,) = torch.autograd.grad(loss, weight)
            with torch.no_grad():
                weight -= 0.05 * gradient
    return loss


@loop
def marked_iterable() -> torch.Tensor:
    weight = torch.randn(20, 1, requires_grad=True)
    loss = torch.zeros(())
    for x, y in boundby.step(batch() for _ in range(STEPS)):
        loss = F.mse_loss(x @ weight, y)
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= 0.05 * gradient
    return loss


@loop
def two_lengths() -> torch.Tensor:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = torch.zeros(())
    for step in range(2 * STEPS):
        x, y = batch()
        optimizer.zero_grad()
        for _ in range(1 + 2 * (step % 2)):
            x = x * 1.01
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


@loop
def random_lengths() -> torch.Tensor:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss = torch.zeros(())
    for _ in range(2 * STEPS):
        x, y = batch()
        optimizer.zero_grad()
        for _ in range(random.randint(1, 9)):
            x = x * 1.01
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss


@loop
def compiled() -> torch.Tensor:
    model = mlp()
    return train(torch.compile(model), torch.optim.Adam(model.parameters(), lr=1e-2))


def digest() -> str:
    """All random states and the settings a tool could leave changed, in a few characters."""
    state = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    state.update(repr((random.getstate(), np.random.get_state())).encode())
    flags = (
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
    )
    return f"{state.hexdigest()[:16]} {flags}"


def main() -> None:
    for name in sys.argv[1:]:
        torch.manual_seed(1)
        random.seed(2)
        np.random.seed(3)
        loss = LOOPS[name]()
        print(name, loss.item().hex(), digest(), flush=True)


if __name__ == "__main__":
    main()
