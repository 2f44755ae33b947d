"""Passes over memory, against hand counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import boundby
from boundby import BoundbyError

N = 4096
x, a, b, c = (torch.rand(N) for _ in range(4))


@pytest.mark.parametrize(
    ("fn", "args", "unfused", "fused"),
    [
        (lambda a, b, c: a * b + c, (a, b, c), (4, 2), (3, 1)),
        (lambda a, b, c: torch.addcmul(c, a, b), (a, b, c), (3, 1), (3, 1)),
        (lambda x: x.sin().square() + x.cos().square(), (x,), (6, 5), (1, 1)),
        (lambda x: x.cos().cos(), (x,), (2, 2), (1, 1)),
        (lambda x: F.gelu(x, approximate="tanh"), (x,), (1, 1), (1, 1)),
        (lambda x: x.view(64, 64).t(), (x,), (0, 0), (1, 0)),
        (lambda x: x * x, (x,), (1, 1), (1, 1)),
        (lambda x: (x, x.exp()), (x,), (1, 1), (1, 1)),
        (lambda a, b: (a + b, a - b), (a, b), (4, 2), (2, 2)),
    ],
)
def test_hand_counts(
    fn: Callable[..., Any],
    args: tuple[torch.Tensor, ...],
    unfused: tuple[int, int],
    fused: tuple[int, int],
) -> None:
    found = boundby.passes(fn, *args)
    assert (found.read, found.written) == unfused
    assert (found.fused_read, found.fused_written) == fused
    assert (found.total, found.fused_total) == (sum(unfused), sum(fused))
    assert found.size_bytes == x.nbytes


def test_what_is_changed_in_place_is_read_and_written() -> None:
    y = torch.rand(N)
    found = boundby.passes(lambda y: y.mul_(2.0).add_(1.0), y)
    assert (found.total, found.fused_read, found.fused_written, found.gain) == (4, 1, 1, 2)


def test_what_is_given_as_out_is_written_and_not_read() -> None:
    found = boundby.passes(torch.add, a, b, out=torch.empty(N))
    assert (found.read, found.written, found.fused_read, found.fused_written) == (2, 1, 2, 1)


def test_what_a_function_encloses_and_a_modules_own_tensors_are_read() -> None:
    assert boundby.passes((lambda kept: lambda x: x + kept)(a), x).fused_read == 2
    layer = torch.nn.Linear(64, 64, bias=False)
    assert boundby.passes(layer, torch.rand(64, 64), size_bytes=4 * 64 * 64).fused_read == 2


def test_an_expanded_tensor_counts_its_distinct_elements() -> None:
    found = boundby.passes(lambda row, x: x + row, torch.rand(64).expand(64, 64), torch.rand(64, 64))
    assert found.fused_read == 1 + 64 / N


def test_under_inference_mode() -> None:
    with torch.inference_mode():
        found = boundby.passes(lambda x: x.exp().neg(), torch.rand(N))
    assert (found.total, found.fused_total) == (4, 2)


def test_a_call_without_tensors() -> None:
    with pytest.raises(BoundbyError) as caught:
        boundby.passes(lambda: 3)
    assert caught.value.code == "no-tensors"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(("sin", "exp", "neg", "square", "sigmoid")), min_size=1, max_size=6))
def test_a_chain_makes_two_passes_a_link_and_two_in_all_when_fused(names: list[str]) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for name in names:
            x = getattr(x, name)()
        return x

    found = boundby.passes(chain, x)
    assert (found.launches, found.total, found.fused_total) == (len(names), 2 * len(names), 2)
    assert found.gain == len(names)
