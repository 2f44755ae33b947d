"""Padding: what is told by an embedding's index, and by attention masks."""

from __future__ import annotations

import pytest
import torch
from small_training import MANY
from torch import nn

from boundby.capture.padding import PaddingCounts

pytestmark = pytest.mark.usefixtures("nothing_stays")


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8, padding_idx=0)
        self.out = nn.Linear(8, 2)

    def forward(self, ids):
        return self.out(self.embedding(ids))


def test_indices_that_are_padding_are_counted(session):
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    ids = torch.arange(1, 17).view(2, 8)
    ids[1, 4:] = 0
    session.arm()
    for _ in range(MANY):
        loss = model(ids).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    (one,) = session.trace().habits.padding
    assert one.told_by == "padding_idx"
    assert one.padded / one.tokens == 0.25
    assert one.place.path == __file__


def attention_padding(mask, *, causal=False):
    counts = PaddingCounts()
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    q = torch.randn(2, 1, 4, 8)
    args, kwargs = (q, q, q, 0.0, causal), {"attn_mask": mask}
    if counts.looks_at(op, args, kwargs):
        counts.look(op, args, kwargs, __file__, 1)
    return [(one.padded, one.tokens) for one in counts.found()]


def test_keys_that_no_query_sees_are_padding():
    keys = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool).view(2, 1, 1, 4)
    assert attention_padding(keys) == [(2, 8)]
    additive = torch.zeros(2, 1, 1, 4).masked_fill(~keys, torch.finfo(torch.float32).min)
    assert attention_padding(additive) == [(2, 8)]
    assert attention_padding(keys.expand(2, 1, 4, 4)) == [(2, 8)]


def test_causal_masks_and_no_masks_say_nothing_of_padding():
    assert attention_padding(torch.ones(4, 4, dtype=torch.bool).tril()) == [(0, 4)]
    assert attention_padding(None, causal=True) == []


def test_embeddings_without_padding_say_nothing():
    counts = PaddingCounts()
    op = torch.ops.aten.embedding.default
    assert not counts.looks_at(op, (torch.ones(3, 2), torch.zeros(4, dtype=torch.long)), {})
    assert not counts.looks_at(torch.ops.aten.mm.default, (torch.ones(2, 2), torch.ones(2, 2)), {})


def test_tensors_without_values_are_passed_over():
    counts = PaddingCounts()
    op = torch.ops.aten.embedding.default
    args = (torch.ones(3, 2, device="meta"), torch.zeros(4, dtype=torch.long, device="meta"), 0)
    assert counts.looks_at(op, args, {})
    counts.look(op, args, {}, None, None)
    assert counts.found() == ()
