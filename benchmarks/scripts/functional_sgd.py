"""Fits a two-layer network written as pure functions: torch.func gradients, vmap, a hand-written momentum update."""

import functools
import itertools
import sys

import torch
from torch.func import grad_and_value, vmap


def init(generator, sizes):
    return [(torch.randn(i, o, generator=generator) / i**0.5, torch.zeros(o)) for i, o in itertools.pairwise(sizes)]


def predict(params, x):
    for weight, bias in params[:-1]:
        x = torch.tanh(x @ weight + bias)
    weight, bias = params[-1]
    return x @ weight + bias


def loss_of_row(params, x, y):
    return (predict(params, x) - y).square().sum()


def loss_of_batch(params, x, y):
    return vmap(functools.partial(loss_of_row, params))(x, y).mean()


class Regression(torch.nn.Module):
    """Holds nothing: a module only so that a forward pass has a name."""

    def forward(self, params, x, y):
        return grad_and_value(loss_of_batch)(params, x, y)


def main():
    generator = torch.Generator().manual_seed(5)
    params = init(generator, [16, 128, 128, 4])
    speed = [tuple(torch.zeros_like(p) for p in layer) for layer in params]
    target = torch.randn(16, 4, generator=generator) / 4
    objective = Regression()
    loss = torch.zeros(())
    for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 60):
        x = torch.randn(256, 16, generator=generator)
        gradients, loss = objective(params, x, torch.sin(x @ target))
        speed = [
            tuple(0.9 * s + g for s, g in zip(layer_s, layer_g, strict=True))
            for layer_s, layer_g in zip(speed, gradients, strict=True)
        ]
        params = [
            tuple(p - 0.01 * s for p, s in zip(layer_p, layer_s, strict=True))
            for layer_p, layer_s in zip(params, speed, strict=True)
        ]
        if step % 20 == 19:
            print(f"step {step + 1}: {loss.item():.4f}")
    print("final loss", loss.item().hex())


if __name__ == "__main__":
    main()
