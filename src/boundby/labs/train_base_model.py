"""Trains the base model on random tokens: the script that ``boundby run`` explains when none is named.

    python -m boundby.labs.train_base_model --steps 80 --batch-size 32

A training loop as anyone would write it: nothing in it knows that it may be watched.
"""

from __future__ import annotations

import argparse

import torch

from boundby.labs.base_model import GPT, GPTConfig, count_parameters


def positive_int(text: str) -> int:
    """An integer of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def main() -> None:
    """Parses the arguments, trains, prints the loss now and then and the final loss."""
    parser = argparse.ArgumentParser(
        prog="python -m boundby.labs.train_base_model",
        description="Train the small GPT of the labs on random tokens.",
    )
    parser.add_argument("--steps", type=positive_int, default=80, help="optimizer steps (default %(default)s)")
    parser.add_argument("--batch-size", type=positive_int, default=32, help="sequences a step (default %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="learning rate (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and tokens (default %(default)s)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    config = GPTConfig()
    model = GPT(config, seed=args.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print(f"{count_parameters(model)} parameters, batch {args.batch_size}, {args.steps} steps")

    loss = torch.tensor(float("nan"))
    for step in range(args.steps):
        tokens = torch.randint(config.vocab_size, (args.batch_size, config.block_size + 1))
        loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
