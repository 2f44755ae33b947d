"""Habits of real steps, whatever they are: those of a plain loop, of inference, and that looking changes nothing."""

from __future__ import annotations

import pytest
import torch
from habit_steps import habits_of
from small_training import MANY, SMALL, net, training

from boundby.capture.habits import growing_lines
from boundby.capture.session import Session

pytestmark = pytest.mark.usefixtures("nothing_stays")


def test_a_plain_loop_has_no_habits(rounds):
    seen = habits_of(rounds)
    assert (seen.modes, seen.held, seen.padding, seen.growing, seen.compilations) == ((), (), (), (), ())
    assert seen.writes is None or seen.writes.lines == ()
    assert seen.parameter_dtypes == ("float32",)
    # Two linear layers, the transposing of their weights, an activation, the square and the mean.
    assert seen.nodes == 7
    assert len(seen.steps) == 8
    numbers = [one.number for one in seen.steps]
    assert numbers == sorted(set(numbers))
    moments = [one.at_s for one in seen.steps]
    assert moments == sorted(set(moments))


def test_lines_that_do_more_in_each_step_are_told(rounds):
    history = []
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    rounds.arm()
    for _ in range(MANY):
        output = model(torch.randn(4, 8))
        history.append(output.detach())
        loss = (output - torch.cat(history).mean()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    growing = rounds.trace().habits.growing
    assert growing[0].place.path == __file__
    assert growing[0].bytes[1] > growing[0].bytes[0]
    assert growing_lines([], []) == ()


def test_inference_names_the_dtypes_and_the_line_of_the_forward_pass(session):
    model = net()
    session.arm()
    with torch.no_grad():
        for _ in range(MANY):
            model(torch.randn(4, 8))
    trace, facts = session.trace(), session.facts()
    assert trace.habits.parameter_dtypes == ("float32",)
    assert facts.forward_path == __file__


def test_results_are_the_same_with_habits_looked_for():
    def losses(watched):
        torch.manual_seed(0)
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        session = Session(limits=SMALL)
        if watched:
            session.arm()
        found = training(model, optimizer, MANY)
        session.disarm()
        return found

    assert losses(True) == losses(False)
