"""Sizes that change from step to step, for which an op prepares anew."""

from __future__ import annotations

import pytest
import torch
from small_training import MANY
from torch import nn

from boundby.capture.shape_setup import ShapesMet

pytestmark = pytest.mark.usefixtures("nothing_stays")


@pytest.mark.parametrize("changing", [True, False])
def test_convolutions_of_changing_sizes_are_told_with_what_preparing_takes(rounds, changing):
    model = nn.Conv1d(4, 4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    before = torch.get_rng_state()
    rounds.arm()
    for index in range(MANY):
        loss = model(torch.ones(2, 4, 20 + index * changing)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    set_ups = rounds.trace().habits.set_ups
    assert torch.equal(torch.get_rng_state(), before)
    assert [(one.op, one.place.path) for one in set_ups] == [("convolution", __file__)] * changing
    assert all(0 <= one.time_s.low <= one.time_s.value for one in set_ups)


def test_an_lstm_and_a_bf16_product_are_probed_and_a_float32_one_is_not():
    met = ShapesMet()
    weights = [torch.zeros(16, 3), torch.zeros(16, 4)]
    for size in (5, 6):
        met.begin_step()
        met.note(torch.ops.aten.mkldnn_rnn_layer.default, (torch.zeros(size, 2, 3), *weights), "net.py", 1)
        for line, dtype in ((2, torch.bfloat16), (3, torch.float32)):
            product = (torch.zeros(size, 8, dtype=dtype), torch.zeros(8, 4, dtype=dtype))
            met.note(torch.ops.aten.mm.default, product, "net.py", line)
    found = met.found()
    assert {(one.op, one.place.line, one.sizes) for one in found} == {("mkldnn_rnn_layer", 1, 2), ("mm", 2, 2)}


def test_layers_of_other_sizes_at_one_line_are_no_change():
    met = ShapesMet()
    for _ in range(2):
        met.begin_step()
        for size in (5, 6):
            product = (torch.zeros(size, 8, dtype=torch.bfloat16), torch.zeros(8, 4, dtype=torch.bfloat16))
            met.note(torch.ops.aten.mm.default, product, "net.py", 1)
    assert met.found() == ()
