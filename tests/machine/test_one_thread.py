import pytest
import torch

from boundby.machine.bandwidth import bandwidth_probes
from boundby.machine.data import DataSource
from boundby.machine.functions import function_probes
from boundby.machine.matmul import matmul_probes
from boundby.machine.one_thread import at_one_thread, scaling_probes
from boundby.machine.overhead import overhead_probes
from boundby.machine.probe import Probe, ProbeSet, Reading, Window, join, seconds_of
from boundby.machine.rounds import read_ceilings, take_rounds
from boundby.scaling.serial_shares import serial_shares


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def everything() -> ProbeSet:
    data = DataSource()
    with torch.no_grad():
        return join(
            (
                overhead_probes(data),
                function_probes(data, threads=2),
                matmul_probes(data, dtypes=("fp32", "fp64"), memory_bytes=8 << 20),
                bandwidth_probes(data, memory_bytes=4 << 20),
            )
        )


def test_a_call_at_one_thread_leaves_the_setting_alone(two_threads):
    seen = []

    def call() -> None:
        seen.append(torch.get_num_threads())

    at_one_thread(call, 2, 3)()
    assert seen == [1, 1, 1]
    assert torch.get_num_threads() == 2

    def broken() -> None:
        raise RuntimeError("no such op here")

    with pytest.raises(RuntimeError, match="no such op"):
        at_one_thread(broken, 2)()
    assert torch.get_num_threads() == 2


def test_a_few_of_each_kind_are_chosen_and_each_has_its_probes(everything):
    chosen = scaling_probes(everything, threads=2)
    names = {(one.kind, one.name, one.dtype) for one in chosen.readings}
    assert {("matmul", "mm", "fp32"), ("matmul", "mm", "fp64"), ("bandwidth", "triad", "fp32")} <= names
    assert {("function", "exp", "fp32"), ("overhead", "view/view", None)} <= names
    assert {one.shape for one in chosen.readings if one.kind == "matmul"} == {(1, 512, 512, 512)}
    keys = [probe.key for probe in chosen.probes]
    assert len(set(keys)) == len(keys) < 50
    assert not set(keys) & {probe.key for probe in everything.probes}
    named = {key for one in chosen.readings for key in (*one.keys, one.at_times) if key is not None}
    assert named == set(keys)


def test_they_take_turns_with_the_others_and_give_the_serial_share(everything, two_threads):
    chosen = scaling_probes(everything, threads=2)
    wanted = {key.split(" at one")[0] for one in chosen.readings for key in one.keys}
    both = [probe for probe in (*everything.probes, *chosen.probes) if probe.key in wanted or probe in chosen.probes]
    with torch.no_grad():
        rounds = take_rounds(both, deadline_ns=0)
    assert torch.get_num_threads() == 2
    assert rounds.broken == ()
    alone = read_ceilings(chosen.readings, rounds, threads=1)
    together = read_ceilings(everything.readings, rounds, threads=2)
    shares = serial_shares((*together, *alone))
    assert {share.one.kind for share in shares} >= {"matmul", "function", "overhead"}
    for share in shares:
        assert (share.one.threads, share.many.threads) == (1, 2)


def test_an_op_called_several_times_is_read_as_one():
    reading = Reading(kind="overhead", name="view/view", keys=("a",), formula=seconds_of, unit="s")
    chosen = scaling_probes(ProbeSet(probes=(Probe(key="a", call=int),), readings=(reading,)), threads=4)
    (copy,) = chosen.readings
    assert copy.formula([Window(seconds=64e-6)]) == pytest.approx(1e-6)


def test_one_thread_adds_nothing(everything):
    assert scaling_probes(everything, threads=1) == ProbeSet()


def test_what_has_no_probe_or_another_stack_is_left_out():
    reading = Reading(kind="overhead", name="view/view", keys=("a",), formula=seconds_of, unit="s")
    other = Reading(kind="overhead", name="view/view", keys=("b",), formula=seconds_of, unit="s", stack="numpy")
    assert scaling_probes(ProbeSet(probes=(Probe(key="b", call=int),), readings=(reading, other)), threads=4) == (
        ProbeSet()
    )
