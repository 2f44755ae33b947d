"""What the tests of a session share: a small model, its training, and a look at all global state."""

from __future__ import annotations

import sys
import warnings

import sympy  # noqa: F401  # torch imports it late, and it adds a filter to the warnings
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import dataloader

from boundby.capture import marks
from boundby.capture.schedule import Limits

SMALL = Limits(warmup=2, timed=4, watched=2)
MANY = 60  # more steps than SMALL plans, whatever settles or prepares in between


def global_state():
    return (
        dict(torch_module._global_forward_pre_hooks),
        dict(torch_optimizer._global_optimizer_pre_hooks),
        dict(torch_optimizer._global_optimizer_post_hooks),
        dataloader._BaseDataLoaderIter.__next__,
        list(warnings.filters),
        list(sys.meta_path),
        marks._listener,
        torch._C._len_torch_dispatch_stack(),
        torch._C._autograd._profiler_enabled(),
        torch.is_grad_enabled(),
    )


def net(width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 1))


def training(model, optimizer, steps: int, width: int = 8):
    """The losses of ``steps`` training steps on random batches."""
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(4, width)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def codes(trace) -> list[str]:
    return [finding.code for finding in trace.findings]
