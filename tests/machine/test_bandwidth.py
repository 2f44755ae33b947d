import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from boundby.machine.bandwidth import FULL_LARGEST_BYTES, FULL_STEP, bandwidth_probes, working_sets
from boundby.machine.data import DataSource
from boundby.machine.memory import memory_allowance
from boundby.machine.probe import Window
from boundby.machine.rounds import take_rounds


@given(st.integers(1, 1 << 42), st.integers(2, 8), st.integers(1 << 12, 1 << 34))
def test_working_sets_lie_between_4_kib_and_what_is_allowed(memory, step, largest):
    sizes = working_sets(memory, step=step, largest_bytes=largest)
    bound = max(4096, min(memory, largest))
    assert sizes[0] == 4096
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] <= bound
    assert sizes[-1] >= bound / max(2, step) - 4096


def test_a_full_sweep_doubles():
    sizes = working_sets(1 << 40, step=FULL_STEP, largest_bytes=FULL_LARGEST_BYTES)
    assert sizes == tuple(4096 << place for place in range(18))


class Counting(DataSource):
    """A source that remembers how many bytes it handed out in all."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def large(self, elements: int, *, dtype: str = "fp32") -> torch.Tensor:
        whole = super().large(elements, dtype=dtype)
        self.bytes += whole.numel() * whole.element_size()
        return whole


# The host may claim a cache of 500 MB: what is there to measure with is a quarter of what the control group allows.
@pytest.mark.parametrize(("step", "largest"), [(4, 256 << 20), (FULL_STEP, FULL_LARGEST_BYTES)])
def test_a_sweep_in_one_gigabyte_of_memory_finishes_whatever_cache_is_claimed(step, largest):
    data = Counting()
    allowed = memory_allowance(1 << 30)
    with torch.no_grad():
        probes = bandwidth_probes(data, memory_bytes=allowed // 4, step=step, largest_bytes=largest)
        rounds = take_rounds(probes.probes, deadline_ns=0)
    assert data.bytes <= allowed // 4 + (64 << 10)
    assert rounds.rounds == 1
    assert rounds.broken == ()
    assert all(rounds.windows[probe.key] for probe in probes.probes)


def test_counted_bytes_are_those_the_docstring_states():
    probes = bandwidth_probes(DataSource(), memory_bytes=1 << 16)
    windows = [Window(seconds=2.0), Window(seconds=1.0)]
    counted = {one.name: one.formula(windows) for one in probes.readings if one.size_bytes == 1 << 16}
    size = 1 << 16
    assert counted["read"] == counted["write"] == size
    assert counted["inplace"] == 2 * size
    # Two tensors share the working set of a copy, three that of a triad, and each of their bytes is counted once.
    assert counted["copy"] == size
    assert counted["triad"] == pytest.approx(size, abs=12)
