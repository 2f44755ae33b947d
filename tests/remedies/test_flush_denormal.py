"""Denormal numbers: offered only where they slow what the script computes and flushing mends it; never promised."""

from __future__ import annotations

import pytest
from made_up_rows import FixedProbe, applied, bare_row, evidence_of, filled_report

from boundby.remedies import flush_denormal
from boundby.remedies.contract import CannotTell, NotApplicable
from boundby.results.machine import Ceiling

ROWS = (bare_row("mul", "64x64 64x64", 0.5), bare_row("_softmax", "64x64", 0.2))


def function(name: str, seconds: float, arguments: str | None = None) -> Ceiling:
    return Ceiling(
        kind="function",
        name=name,
        dtype="fp32",
        value=seconds,
        low=seconds,
        high=seconds,
        unit="s",
        arguments=arguments,
        windows=9,
    )


def slow(name: str) -> tuple[Ceiling, ...]:
    return function(name, 1e-10), function(f"{name}/denormal", 1e-8, "denormal numbers")


@pytest.fixture
def evidence(sample_report):
    def make(*ceilings, rows=ROWS, probe=None):
        return evidence_of(filled_report(sample_report("overhead"), rows), probe=probe, ceilings=ceilings)

    return make


@pytest.mark.parametrize("ceilings", [(), slow("sqrt"), (function("mul", 1e-10), function("mul/large", 1e-8, "large"))])
def test_where_no_function_of_the_step_is_slow_on_them_it_does_not_apply(evidence, ceilings):
    assert isinstance(flush_denormal.predict(evidence(*ceilings, probe=FixedProbe(1.0))), NotApplicable)


@pytest.mark.parametrize("name", ["mul", "exp"])
@pytest.mark.parametrize(("flushed", "kind"), [(1.0, CannotTell), (90.0, NotApplicable)])
def test_it_is_offered_where_flushing_mends_what_they_slow(evidence, monkeypatch, name, flushed, kind):
    monkeypatch.setattr(
        "boundby.machine.ranges.flushed_factors", lambda data, ceilings: {(f"{name}/denormal", "fp32"): flushed}
    )
    found = flush_denormal.predict(evidence(*slow(name), probe=FixedProbe(1.0)))
    assert isinstance(found, kind)
    assert name in found.reason


def test_on_this_machine_the_look_at_flushing_is_real(evidence):
    found = flush_denormal.predict(evidence(*slow("mul"), probe=FixedProbe(1.0)))
    assert isinstance(found, NotApplicable | CannotTell)


def test_without_a_look_it_cannot_be_told(evidence):
    assert isinstance(flush_denormal.predict(evidence(*slow("mul"))), CannotTell)


def test_applied_denormal_numbers_are_zero_in_every_thread():
    found = applied(
        "flush_denormal",
        """
        torch.set_num_threads(2)
        from boundby.machine.ranges import denormal_state
        found["state"] = denormal_state()
        """,
    )
    if found["refused"]:
        assert found["state"] == "kept"
    else:
        assert found["state"] == "flushed"
        assert found["seen"] == {"denormal numbers flushed to zero": 1}
