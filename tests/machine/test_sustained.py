import pytest
import torch

from boundby.machine import sustained
from boundby.machine.data import DataSource
from boundby.machine.sustained import sustained_ceilings
from boundby.results.machine import Ceiling


def product(dtype: str, shape: tuple[int, int, int, int], rate: float, *, name: str = "mm", **more) -> Ceiling:
    fields = {"unit": "flop/s"} | more
    return Ceiling(kind="matmul", name=name, dtype=dtype, shape=shape, value=rate, low=rate, high=rate, **fields)


class FakeMachine:
    """A clock and loads of known speed: each call takes ``cost_s`` times what ``slowness`` says of the time so far."""

    def __init__(self, monkeypatch, *, cost_s: float = 1e-3, slowness=lambda second: 1.0) -> None:
        self.now_s = 0.0
        self.switches = 0
        self.begun: float | None = None
        self.cost_s, self.slowness = cost_s, slowness
        self.shapes: list[tuple[str, str, tuple[int, ...]]] = []
        monkeypatch.setattr(sustained, "product_call", self.product_call)
        monkeypatch.setattr(sustained, "taking_turns", lambda calls: self.load())

    def clock(self) -> int:
        return round(self.now_s * 1e9)

    def product_call(self, data, name, shape, dtype):
        self.shapes.append((name, dtype, shape))
        return self.load()

    def load(self):
        start: list[float] = []

        def call() -> None:
            start.append(self.now_s)
            self.now_s += self.cost_s * self.slowness(self.now_s - start[0])

        return call

    def run(self, *ceilings: Ceiling, seconds: float = 5.0, threads: int = 1):
        return sustained_ceilings(
            DataSource(), ceilings, threads=threads, memory_bytes=1 << 20, seconds=seconds,
            clock=self.clock, interruptions=lambda: self.switches,
        )  # fmt: skip


def test_the_fastest_shape_of_each_dtype_runs_for_the_time_given(monkeypatch):
    machine = FakeMachine(monkeypatch)
    ceilings, findings = machine.run(
        product("fp32", (1, 512, 512, 512), 90e9),
        product("fp32", (1, 2048, 192, 64), 95e9, name="mm_nt"),
        product("fp32", (1, 64, 64, 64), 200e9, name="conv"),
        product("fp32", (1, 1, 64, 64), 1e12, name="mv", unit="byte/s"),
        product("fp32", (1, 256, 256, 256), 1e12, threads=2),
        product("bf16", (1, 512, 512, 512), 200e9),
        product("fp16", (1, 128, 128, 128), 4e9),
    )
    assert machine.shapes == [("mm_nt", "fp32", (1, 2048, 192, 64)), ("mm", "bf16", (1, 512, 512, 512))]
    assert [(one.name, one.dtype) for one in ceilings] == [
        ("mm_sustained", "fp32"),
        ("mm_sustained", "bf16"),
        ("inplace_sustained", "fp32"),
    ]
    assert ceilings[1].value == pytest.approx(2 * 512**3 / 1e-3, rel=1e-3)
    assert ceilings[2].value == pytest.approx(2 * (1 << 20) / 1e-3, rel=1e-3)
    assert findings == ()
    assert machine.now_s == pytest.approx(3 * 5.1, rel=0.02)


def test_a_machine_that_slows_down_is_found_and_the_ceiling_is_what_it_ends_at(monkeypatch):
    machine = FakeMachine(monkeypatch, slowness=lambda second: 1.0 if second < 2 else 1.25)
    ceilings, (finding,) = machine.run(product("fp32", (1, 512, 512, 512), 1e12))
    assert finding.code == "throttles"
    assert "fp32 matrix products lost 20%, streams through memory lost 20%" in finding.message
    assert "Within 5 s" in finding.message
    assert ceilings[0].value == pytest.approx(2 * 512**3 / 1.25e-3, rel=1e-2)


@pytest.mark.parametrize(
    "slowness",
    [
        lambda second: 1.0 + 0.02 * second / 5,
        lambda second: 1.3 if second < 2 else 1.0,
        # Up and down by as much as it ends lower.
        lambda second: (1.0 if second < 2.5 else 1.15) * (1.0 if int(second / 0.2) % 2 else 1.4),
    ],
    ids=["steady", "faster", "spread"],
)
def test_a_machine_that_does_not_clearly_slow_down_is_not_said_to(monkeypatch, slowness):
    _, findings = FakeMachine(monkeypatch, slowness=slowness).run(product("fp32", (1, 512, 512, 512), 1e12))
    assert findings == ()


def test_windows_that_other_processes_interrupt_are_left_out(monkeypatch):
    machine = FakeMachine(monkeypatch)

    def slowness(second: float) -> float:
        # From two seconds on, another process takes the core in half of the windows.
        if second > 2 and round(second * 12.5) % 2:
            machine.switches += 1
            return 3.0
        return 1.0

    machine.slowness = slowness
    ceilings, findings = machine.run(product("fp32", (1, 512, 512, 512), 1e12))
    assert findings == ()
    assert ceilings[0].value == pytest.approx(2 * 512**3 / 1e-3, rel=1e-3)


def test_interrupted_throughout_gives_a_ceiling_and_no_verdict(monkeypatch):
    machine = FakeMachine(monkeypatch)

    def slowness(second: float) -> float:
        machine.switches += 1
        return 1.0 if second < 2 else 2.0

    machine.slowness = slowness
    ceilings, findings = machine.run(product("fp32", (1, 512, 512, 512), 1e12))
    assert findings == ()
    assert ceilings[0].value == pytest.approx(2 * 512**3 / 2e-3, rel=1e-2)


def test_a_call_longer_than_the_time_is_made_twice_and_no_more(monkeypatch):
    machine = FakeMachine(monkeypatch, cost_s=30.0)
    ceilings, findings = machine.run(product("fp32", (1, 512, 512, 512), 1e12), seconds=1.0)
    assert machine.now_s == pytest.approx(4 * 30)
    assert len(ceilings) == 2
    assert findings == ()


def test_a_clock_that_steps_back_ends_it_without_a_ceiling(monkeypatch):
    machine = FakeMachine(monkeypatch, slowness=lambda second: -1.0)
    assert machine.run(product("fp32", (1, 512, 512, 512), 1e12)) == ((), ())


def test_it_runs_here():
    with torch.no_grad():
        ceilings, _ = sustained_ceilings(
            DataSource(),
            [product("fp32", (1, 64, 64, 64), 1e9, threads=torch.get_num_threads())],
            threads=torch.get_num_threads(),
            memory_bytes=1 << 20,
            seconds=0.1,
        )
    assert [one.kind for one in ceilings] == ["matmul", "bandwidth"]
    for one in ceilings:
        assert 0 < one.low <= one.value <= one.high
