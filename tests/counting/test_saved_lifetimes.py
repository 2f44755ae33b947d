"""Saved bytes against tensor lifetimes: what is really alive between forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from counting_cases import count
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

from boundby.capture.watcher import OpWatcher


class Lifetimes(OpWatcher):
    """Keeps a weak reference to every storage that an op returns."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[StorageWeakRef, int]] = {}

    def run_op(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        for one in torch.utils._pytree.tree_leaves(out):
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                self.seen.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        return out

    def alive(self, without: set[int]) -> int:
        return sum(size for key, (ref, size) in self.seen.items() if key not in without and not ref.expired())


class Checkpointed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.head = inner, nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return self.head(checkpoint(self.inner, x.relu(), use_reentrant=False))


class LastState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(16, 24), nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0])


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 64)),
        torch.randn(32, 64),
    ),
    "transformer block": lambda: (
        nn.Sequential(nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True), nn.Linear(32, 4)),
        torch.randn(4, 12, 32),
    ),
    "convolution": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3)),
        torch.randn(2, 3, 20, 20),
    ),
    "lstm": lambda: (LastState(), torch.randn(7, 3, 16)),
    "checkpointed": lambda: (
        Checkpointed(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))),
        torch.randn(16, 64),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_saved_bytes_are_what_stays_alive(name: str) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name]()
    with Lifetimes() as lifetimes:
        out = model(x)
    owned = {one.untyped_storage()._cdata for one in (x, out, *model.parameters(), *model.buffers())}
    alive = lifetimes.alive(without=owned)
    out.sum().backward()
    assert lifetimes.alive(without=owned | {one.grad.untyped_storage()._cdata for one in model.parameters()}) < alive
    seen = count(model, x)
    assert seen.saved_bytes is not None
    assert seen.saved_input_bytes in (0, x.untyped_storage().nbytes())
    assert alive == pytest.approx(seen.saved_bytes - seen.saved_input_bytes, rel=0.01)
