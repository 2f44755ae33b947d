"""Bytes that the values of indices and masks decide are told apart: all that other values change is among them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from counting_cases import F32, count

ROWS, WIDTH, PICKED = 64, 8, 6
SAME = torch.zeros(PICKED, dtype=torch.int64)
SPREAD = torch.arange(PICKED) * 7


def table() -> torch.Tensor:
    return torch.ones(ROWS, WIDTH)


def mask(kept: int) -> torch.Tensor:
    return torch.arange(ROWS) < kept


def columns(index: torch.Tensor) -> torch.Tensor:
    return index.unsqueeze(1) % ROWS


Call = Callable[[torch.Tensor], object]
BY_INDEX: dict[str, Call] = {
    "embedding": lambda i: F.embedding(i, table()),
    "index_select": lambda i: table().index_select(0, i),
    "take": lambda i: table().take(i),
    "gather": lambda i: table().gather(0, columns(i)),
    "indexing": lambda i: table()[i],
    "put": lambda i: table().index_put_((i,), torch.zeros(WIDTH)),
    "accumulate": lambda i: table().index_put_((i,), torch.zeros(WIDTH), accumulate=True),
    "scatter": lambda i: table().scatter_(0, columns(i), 1.0),
    "scatter_add": lambda i: table().scatter_add_(0, columns(i), torch.zeros(PICKED, 1)),
    "index_add": lambda i: table().index_add_(0, i, torch.zeros(PICKED, WIDTH)),
    "index_copy": lambda i: table().index_copy_(0, i, torch.zeros(PICKED, WIDTH)),
}
BY_MASK: dict[str, Call] = {
    "masked_select": lambda m: torch.ones(ROWS).masked_select(m),
    "mask": lambda m: table()[m],
}


# Of each, the part of its result that is as large as 3 or 30 ones among zeros make it.
BY_SIZE: dict[str, Call] = {
    "nonzero": lambda m: m.nonzero(),
    "unique": lambda m: torch.unique(m.cumsum(0), return_inverse=True, return_counts=True),
    "unique_dim": lambda m: torch.unique(m.cumsum(0).unsqueeze(1), dim=0, return_inverse=True),
    "unique_consecutive": lambda m: torch.unique_consecutive(m.cumsum(0)),
    "bincount": lambda m: torch.bincount(m.cumsum(0), minlength=2),
    "repeat_interleave": lambda m: torch.repeat_interleave(m.long()),
    "to_sparse": lambda m: m.float().to_sparse(),
}


def apart(call: Call, value: torch.Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """The bytes read and written that the value's shape decides, and those that its elements do."""
    seen = count(lambda: call(value))
    indexed = (seen.indexed_bytes_read, seen.indexed_bytes_written)
    return (seen.bytes_read - indexed[0], seen.bytes_written - indexed[1]), indexed


@pytest.mark.parametrize("name", BY_INDEX)
def test_other_indices_change_nothing_but_the_indexed_bytes(name: str) -> None:
    (fixed, few), (also_fixed, many) = (apart(BY_INDEX[name], index) for index in (SAME, SPREAD))
    assert fixed == also_fixed
    assert max(many) > max(few) > 0


@pytest.mark.parametrize("name", BY_MASK)
def test_a_mask_decides_what_is_read_and_what_comes_out(name: str) -> None:
    call = BY_MASK[name]
    (_, few), (_, many) = (apart(call, mask(kept)) for kept in (3, 30))
    assert many[0] == 10 * few[0] > 0
    assert many[1] == 10 * few[1] > 0


@pytest.mark.parametrize("name", BY_SIZE)
def test_a_result_of_a_size_that_values_decide_is_indexed_and_nothing_else_of_the_op(name: str) -> None:
    (fixed, few), (also_fixed, many) = (apart(BY_SIZE[name], mask(kept)) for kept in (3, 30))
    assert fixed == also_fixed
    assert many[1] > few[1] > 0


def test_equal_rows_of_a_sparse_gradient_are_added_up_by_the_indices_values() -> None:
    def gradient(index: torch.Tensor) -> object:
        weight = table().requires_grad_()
        F.embedding(index, weight, sparse=True).sum().backward()
        assert weight.grad is not None
        return weight.grad.coalesce()

    (fixed, few), (also_fixed, many) = (apart(gradient, index) for index in (SAME, SPREAD))
    assert fixed == also_fixed
    # A row of the table, and its number.
    row = F32 * WIDTH + 8
    assert (few[1], many[1]) == (row, PICKED * row)


def test_a_size_that_is_asked_for_is_not_decided_by_values() -> None:
    ones = mask(ROWS).long()
    assert count(lambda: torch.bincount(ones, minlength=ROWS)).indexed_bytes_written == 0
    assert count(lambda: torch.repeat_interleave(ones, output_size=ROWS)).indexed_bytes_written == 0


def test_what_no_value_decides_is_not_indexed() -> None:
    functional = count(lambda: table().index_add(0, SPREAD, torch.zeros(PICKED, WIDTH)))
    assert functional.indexed_bytes_read == functional.indexed_bytes_written == 0
    assert count(lambda: table() @ table().t()).indexed_bytes_read == 0


def test_without_values_the_most_they_can_be_is_counted() -> None:
    with torch.device("meta"):
        weight, index = torch.ones(ROWS, WIDTH), torch.zeros(PICKED, dtype=torch.int64)
    seen = count(lambda: F.embedding(index, weight))
    assert seen.indexed_bytes_read == F32 * PICKED * WIDTH
