"""Probes of a device with a queue, on a stand-in whose queue is a list: what is queued, waited for and subtracted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from boundby.machine.accelerator import FEW, LONG, MANY, SHORT, accelerator_probes, measure_accelerator
from boundby.machine.ensure import ensure_machine
from boundby.machine.probe import Window
from boundby.machine.rounds import Rounds, read_ceilings
from boundby.results.errors import BoundbyError
from boundby.timing.device import Accelerator, Cpu, DeviceProperties, device_of


class Queue:
    """A device on the CPU that counts waits and graphs; ``graphs`` says whether it can capture any."""

    kind = "cpu"

    def __init__(self, *, graphs: bool) -> None:
        self.waits = 0
        self._graphs = graphs

    def synchronize(self) -> None:
        self.waits += 1

    def properties(self) -> DeviceProperties:
        return DeviceProperties(name="a queue", memory_bytes=None)

    def graph(self, work: Callable[[], object]) -> Callable[[], object] | None:
        return work if self._graphs else None


@pytest.fixture(autouse=True)
def _small_products(monkeypatch):
    """A processor without arithmetic in half precision takes seconds for a product of the real sizes."""
    monkeypatch.setattr("boundby.machine.accelerator.SQUARES", (128,))


def probes_of(*, graphs: bool = True, memory_bytes: int = 16 << 20):
    device = Queue(graphs=graphs)
    probes, findings = accelerator_probes(device, memory_bytes=memory_bytes)
    return device, probes, findings


def test_each_call_of_a_probe_waits_for_what_it_queued():
    device, probes, _ = probes_of()
    assert {one.dtype for one in probes.readings if one.kind == "matmul"} == {"fp32", "bf16", "fp16", "fp64"}
    for probe in probes.probes:
        before = device.waits
        probe.call()
        assert device.waits == before + 1, probe.key


def test_ceilings_come_from_the_difference_of_many_and_few():
    _, probes, findings = probes_of()
    assert not findings
    # A wait takes 10 us, a launch 2 us, one in a graph 0.5 us, a product 1 ms, a pass 100 us.
    seconds = {}
    for probe in probes.probes:
        *name, count = probe.key.split()
        each = {"launch": 2e-6, "graph": 0.5e-6, "mm": 1e-3}.get(name[0], 100e-6)
        seconds[probe.key] = 10e-6 + int(count) * each
    rounds = Rounds(windows={key: [Window(seconds=s)] for key, s in seconds.items()}, rounds=1, dropped=0)
    ceilings = {
        (one.kind, one.name, one.dtype, one.size_bytes): one
        for one in read_ceilings(probes.readings, rounds, threads=1)
    }
    assert ceilings["launch", "back_to_back", None, None].value == pytest.approx(2e-6)
    assert ceilings["launch", "launch_and_wait", None, None].value == pytest.approx(12e-6)
    assert ceilings["launch", "synchronize", None, None].value == pytest.approx(10e-6)
    assert ceilings["launch", "graph_kernel", None, None].value == pytest.approx(0.5e-6)
    assert ceilings["matmul", "mm", "fp32", None].value == pytest.approx(2 * 128**3 / 1e-3)
    assert ceilings["bandwidth", "inplace", "fp32", 1 << 20].value == pytest.approx(2 * (1 << 20) / 100e-6)
    assert ceilings["bandwidth", "read", "fp32", 1 << 20].value == pytest.approx((1 << 20) / 100e-6)
    assert ceilings["bandwidth", "copy", "fp32", 1 << 20].value == pytest.approx((1 << 20) / 100e-6)


def test_without_graphs_there_is_no_ceiling_for_them():
    _, probes, _ = probes_of(graphs=False)
    assert "graph_kernel" not in {one.name for one in probes.readings}
    assert {"back_to_back", "synchronize"} <= {one.name for one in probes.readings}


def test_probes_take_no_more_memory_than_they_may(monkeypatch):
    monkeypatch.setattr("boundby.machine.accelerator.SQUARES", (1024,))
    _, probes, _ = probes_of(memory_bytes=4 << 20)
    assert max(one.size_bytes or 0 for one in probes.readings) <= 4 << 20
    assert not any(one.dtype == "fp32" and one.kind == "matmul" for one in probes.readings)


def test_keys_of_probes_are_those_of_the_readings():
    _, probes, _ = probes_of()
    keys = [probe.key for probe in probes.probes]
    assert len(keys) == len(set(keys))
    assert {key for one in probes.readings for key in one.keys} == set(keys)
    assert FEW < MANY
    assert SHORT < LONG


def test_a_dtype_that_the_device_refuses_is_named_and_left_out(monkeypatch):
    plain = torch.mm

    def picky(left, right, **options):
        if left.dtype is torch.float64:
            raise RuntimeError("not implemented for 'Double'")
        return plain(left, right, **options)

    monkeypatch.setattr(torch, "mm", picky)
    _, probes, findings = probes_of()
    assert [one.code for one in findings] == ["dtype-unusable"]
    assert "fp64" in findings[0].message
    assert "fp64" not in {one.dtype for one in probes.readings}


def test_a_full_device_is_no_refusal_of_a_dtype(monkeypatch):
    def full(*args, **options):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "mm", full)
    _, probes, findings = probes_of()
    assert not findings
    assert not [one for one in probes.readings if one.kind == "matmul"]


def test_the_processor_has_nothing_to_wait_for_and_no_graphs():
    cpu = device_of("cpu")
    assert isinstance(cpu, Cpu)
    assert cpu.synchronize() is cpu.graph(lambda: None) is None


HERE = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"


@pytest.mark.parametrize("name", sorted({"cuda", "mps", "xpu", "warp-drive"} - {HERE}))
def test_a_device_that_is_not_there_is_a_clear_error(name):
    with pytest.raises(BoundbyError) as caught:
        device_of(name)
    assert caught.value.code == "no-device"
    assert name in caught.value.message


def test_the_device_that_is_here_runs_every_probe():
    """An accelerator where there is one, else the processor."""
    device = device_of(HERE)
    assert isinstance(device, Cpu if HERE == "cpu" else Accelerator)
    probes, _ = accelerator_probes(device, memory_bytes=2 << 20)
    for probe in probes.probes:
        probe.call()
    assert ("graph_kernel" in {one.name for one in probes.readings}) == (device.graph(lambda: None) is not None)


def test_a_device_is_measured_and_described_as_itself(monkeypatch):
    """The stand-in is known by a name of its own; ceilings come from real windows on the CPU."""
    monkeypatch.setattr("boundby.machine.accelerator.device_of", lambda name: Queue(graphs=True))
    monkeypatch.setattr("boundby.machine.accelerator.MOST_MEMORY_BYTES", 2 << 20)
    machine = measure_accelerator("queue", budget_s=0.1)
    assert (machine.description.device, machine.description.device_name) == ("queue", "a queue")
    found = {(one.kind, one.name) for one in machine.ceilings}
    assert {("launch", "launch_and_wait"), ("launch", "synchronize")} <= found
    assert all(one.low <= one.value <= one.high for one in machine.ceilings)


def test_a_device_that_is_not_here_is_told_through_the_measuring_process():
    with pytest.raises(BoundbyError) as caught:
        ensure_machine(device="warp-drive", again=True, budget_s=5.0)
    assert caught.value.code == "no-device"
