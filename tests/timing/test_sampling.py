import subprocess
import sys
from collections.abc import Callable
from itertools import chain, cycle, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.timing.clock import clock_resolution_ns, monotonic_ns
from boundby.timing.sampling import STEPS_PER_WINDOW, find_loops, interleave, sample, warm_up


class FakeClock:
    """Nanoseconds that only the code under test moves."""

    def __init__(self, step_ns: int = 1) -> None:
        self.now_ns = 0
        self.step_ns = step_ns

    def __call__(self) -> int:
        return self.now_ns // self.step_ns * self.step_ns

    def work(self, costs_ns) -> Callable[[], None]:
        """A callable that takes these times, one after the other."""
        costs = iter(costs_ns)

        def call() -> None:
            self.now_ns += next(costs)

        return call


@settings(deadline=None)
@given(st.integers(1_000, 5_000_000))
def test_a_steady_call_is_timed_exactly(cost_ns):
    clock = FakeClock()
    samples = sample(clock.work(repeat(cost_ns)), windows=4, clock=clock)
    assert samples.seconds == pytest.approx([cost_ns * 1e-9] * 4)
    assert samples.dropped == 0
    assert samples.warmed_up


@settings(deadline=None)
@given(st.integers(100, 100_000), st.integers(1, 5_000))
def test_a_window_lasts_a_thousand_steps_of_the_clock(cost_ns, step_ns):
    clock = FakeClock(step_ns)

    def ticking() -> int:
        clock.now_ns += step_ns
        return clock()

    call = clock.work(repeat(cost_ns))
    samples = sample(call, windows=2, window_s=1e-9, clock=ticking)
    assert samples.loops * cost_ns >= 0.75 * STEPS_PER_WINDOW * step_ns


def test_a_long_call_is_timed_once_a_window():
    clock = FakeClock()
    assert find_loops(clock.work(repeat(50_000_000)), window_s=1e-3, clock=clock) == 1


def test_a_clock_that_never_moves_does_not_hang():
    assert find_loops(lambda: None, window_s=1e-3, clock=lambda: 0) > 1
    assert clock_resolution_ns(lambda: 0) == 1


def test_warm_up_runs_until_the_windows_agree():
    clock = FakeClock()
    falling = chain([9000, 5000, 3000, 2000, 1100], repeat(1000))
    windows, agreed = warm_up(clock.work(falling), 1, clock=clock)
    assert (windows, agreed) == (8, True)


def test_warm_up_is_bounded_and_says_so():
    clock = FakeClock()
    assert warm_up(clock.work(cycle([1000, 2000])), 1, clock=clock, max_windows=10) == (10, False)
    clock = FakeClock()
    samples = sample(clock.work(cycle([1_000_000, 3_000_000])), windows=3, window_s=1e-6, clock=clock)
    assert not samples.warmed_up


def test_samples_of_a_clock_that_steps_back_are_dropped_and_counted():
    clock = FakeClock()
    # The last of three windows ends before it began, as after a correction of the time of day.
    costs = chain(repeat(1_000_000, 12), [-5_000_000])
    samples = sample(clock.work(costs), windows=9, clock=clock)
    assert samples.dropped == 1
    assert len(samples.seconds) == 8
    assert all(seconds > 0 for seconds in samples.seconds)


def test_several_calls_take_turns():
    clock, order = FakeClock(), []

    def call(name: str) -> Callable[[], None]:
        def run() -> None:
            clock.now_ns += 2_000_000
            order.append(name)

        return run

    interleave([call("a"), call("b"), call("c")], windows=3, clock=clock)
    assert order[-9:] == list("abcabcabc")


def test_a_slow_spell_hits_interleaved_calls_alike():
    clock = FakeClock()

    def call() -> None:
        # The machine is half as fast after the first 40 ms.
        clock.now_ns += 1_000_000 if clock.now_ns < 40_000_000 else 2_000_000

    first, second = interleave([call, call], windows=30, clock=clock)
    assert sum(first.seconds) == pytest.approx(sum(second.seconds), rel=0.05)


def test_the_real_clock_is_monotonic_and_fine():
    assert 1 <= clock_resolution_ns(monotonic_ns) < 1_000_000
    samples = sample(lambda: sum(range(100)), windows=3)
    assert len(samples.seconds) == 3
    assert all(seconds > 0 for seconds in samples.seconds)


def test_timing_does_not_need_torch():
    code = (
        "import sys, boundby.timing.sampling, boundby.timing.statistics, boundby.timing.clock;"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
