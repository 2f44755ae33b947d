from dataclasses import replace

import pytest

from boundby.machine.noise import FEWEST_ROUNDS, noise_findings
from boundby.machine.rounds import Rounds
from boundby.results.machine import Ceiling


def rounds_of(**fields) -> Rounds:
    return Rounds(**{"windows": {}, "rounds": FEWEST_ROUNDS, "dropped": 0, **fields})


def ceilings_of(steady: int, unsteady: int) -> list[Ceiling]:
    one = {"kind": "overhead", "name": "view", "threads": 1, "unit": "s", "value": 1.0, "low": 1.0, "high": 1.0}
    return [Ceiling(**one, unsteady=place >= steady) for place in range(steady + unsteady)]


@pytest.mark.parametrize(
    ("rounds", "ceilings", "codes"),
    [
        (rounds_of(), ceilings_of(9, 1), []),
        (rounds_of(), ceilings_of(8, 1), ["machine-unsteady"]),
        (rounds_of(rounds=FEWEST_ROUNDS - 1), [], ["machine-busy"]),
        (rounds_of(dropped=3), [], ["clock-stepped-back"]),
        (rounds_of(broken=(("rand", "no kernel"),)), [], ["op-unavailable"]),
    ],
)
def test_what_is_said_of_a_measuring(rounds, ceilings, codes):
    assert [one.code for one in noise_findings(rounds, ceilings)] == codes


def test_what_is_counted_are_ceilings():
    (one,) = noise_findings(rounds_of(), ceilings_of(5, 3))
    assert one.message.startswith("3 of 8 ceilings moved by more than a quarter")
    (one,) = noise_findings(rounds_of(broken=(("a", "no kernel"), ("b", "other"))), [])
    assert "a, b (no kernel)" in one.message


def test_a_sweep_that_ends_in_a_cache_is_said_to():
    def stream(size: int) -> Ceiling:
        (one,) = ceilings_of(1, 0)
        return replace(one, kind="bandwidth", name="read", unit="byte/s", size_bytes=size)

    (one,) = noise_findings(rounds_of(), [stream(4 << 20), stream(1 << 20)])
    assert one.code == "main-memory-unmeasured"
    assert "4 MiB" in one.message
    assert noise_findings(rounds_of(), [stream(4 << 20), stream(64 << 20)]) == ()
