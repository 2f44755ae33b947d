import random
import subprocess
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from boundby.machine.anchors import NAMES, Anchors, anchor_memory


@pytest.fixture
def anchors():
    made = Anchors(torch.get_num_threads(), memory_bytes=1 << 20)
    yield made
    made.close()


def test_a_reading_has_all_four_probes(anchors):
    reading = anchors.read()
    assert set(reading.seconds) == set(NAMES)
    assert all(seconds > 0 for seconds in reading.seconds.values())
    assert anchors.read().at_s > reading.at_s > 0


def test_a_fake_clock_gives_its_own_seconds(anchors):
    ticks = iter(range(0, 10**9, 1000))
    reading = anchors.read(lambda: next(ticks))
    assert reading.seconds == dict.fromkeys(NAMES, pytest.approx(1e-6))


def test_no_random_number_is_drawn_and_no_setting_changed():
    torch.manual_seed(3)
    random.seed(3)
    before = (torch.get_rng_state(), random.getstate())
    Anchors(1, memory_bytes=1 << 20).read()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32


class Count(TorchDispatchMode):
    """Someone's own dispatch mode."""

    def __init__(self) -> None:
        super().__init__()
        self.ops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("made_inside", [False, True])
@pytest.mark.parametrize(
    "mode",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.device("meta"),
        Count,
    ],
)
def test_they_run_inside_any_mode_and_leave_it_on(mode, made_inside, anchors):
    with mode() as entered:
        if made_inside:
            anchors = Anchors(1, memory_bytes=1 << 20)
        states = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
        anchors.read()
        assert states == (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
        )
        if isinstance(entered, Count):
            assert entered.ops == 0
            torch.ones(2)
            assert entered.ops > 0
    anchors.read()


def test_a_default_dtype_and_deterministic_algorithms_do_not_matter():
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    try:
        Anchors(1, memory_bytes=1 << 20).read()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)


def test_closing_gives_the_memory_back():
    made = Anchors(1, memory_bytes=8 << 20)
    storage = made._large.untyped_storage()
    made.close()
    assert made.closed
    assert storage.nbytes() == 8 << 20
    assert sys.getrefcount(storage) <= 2
    with pytest.raises(RuntimeError, match="closed"):
        made.read()


def test_numbers_stay_the_same_over_many_readings(anchors):
    before = anchors._cached.clone()
    for _ in range(20):
        anchors.read()
    assert torch.equal(anchors._cached, before)


def test_little_memory_means_a_small_buffer():
    assert anchor_memory(None) == 64 << 20
    assert anchor_memory(512 << 20) == 16 << 20
    assert anchor_memory(0) >= 1 << 20


def test_a_reading_does_not_change_what_a_script_computes():
    script = """
import torch
from boundby.machine.anchors import Anchors
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
anchors = Anchors(1, memory_bytes=1 << 20) if {read} else None
for _ in range(3):
    model(torch.randn(4, 8)).square().sum().backward()
    if anchors: anchors.read()
print(model.weight.grad.sum().item().hex(), torch.rand(1).item())
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script.format(read=read)], capture_output=True, text=True, check=True
        ).stdout
        for read in (True, False)
    }
    assert len(outputs) == 1
