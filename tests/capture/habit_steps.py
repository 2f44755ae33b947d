"""Steps that the tests of habits watch, and how many."""

from __future__ import annotations

import torch
from small_training import MANY, codes, net

from boundby.capture.schedule import Limits

# Enough rounds for three looks at what is left behind.
ROUNDS = Limits(warmup=2, timed=8, watched=8)


def habits_of(session, body=None, *, around=None, steps=MANY):
    """What a session sees of a loop of training steps that calls ``body(loss, output)`` in each."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    session.arm()
    for _ in range(steps):
        with around() if around else torch.enable_grad():
            output = model(torch.randn(4, 8))
            loss = output.square().mean()
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
        if body is not None:
            body(loss, output)
    trace = session.trace()
    assert "capture-failed" not in codes(trace)
    return trace.habits
