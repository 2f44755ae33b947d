import numpy as np
import pytest
import torch

from boundby.machine.data import DataSource
from boundby.machine.overhead import LONG_CHAIN, SHORT_CHAIN, overhead_probes
from boundby.machine.probe import Window
from boundby.machine.rounds import Rounds, read_ceilings


@pytest.fixture(scope="module")
def probes():
    with torch.no_grad():
        return overhead_probes(DataSource())


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def calls_of(probes, kind):
    prefix = f"overhead {kind}/"
    return {probe.key.removeprefix(prefix): probe.call for probe in probes.probes if probe.key.startswith(prefix)}


def test_every_probe_has_a_key_of_its_own_and_every_ceiling_a_name_of_its_own(probes):
    keys = [probe.key for probe in probes.probes]
    assert len(set(keys)) == len(keys)
    names = [(reading.stack, reading.name) for reading in probes.readings]
    assert len(set(names)) == len(names)


def test_the_kinds_that_a_step_is_made_of_are_there(probes):
    names = {reading.name for reading in probes.readings if reading.stack == "torch"}
    assert names >= {
        "view", "pointwise", "pointwise_out", "reduction", "matmul", "index", "foreach", "foreach_tensor",
        "autograd_off", "autograd_on", "autograd_node", "autograd_backward", "module_call", "python_call",
        "page_fault", "allocation",
    }  # fmt: skip
    assert {reading.name for reading in probes.readings if reading.stack == "numpy"} >= {"ufunc", "ufunc_out"}
    assert {reading.stack for reading in probes.readings} == {"torch", "numpy"}


def test_ops_with_out_write_to_it_and_those_without_make_a_tensor(probes):
    for call in calls_of(probes, "pointwise_out").values():
        assert call() is call.keywords["out"]
    for call in calls_of(probes, "pointwise").values():
        first, second = call(), call()
        assert first.data_ptr() != second.data_ptr()


def test_ufuncs_are_numpys_on_numpys_arrays(probes):
    for kind in ("ufunc", "ufunc_out"):
        calls = calls_of(probes, kind)
        assert set(calls) == {"add", "multiply", "exp"}
        for name, call in calls.items():
            result = call()
            assert isinstance(call.func, np.ufunc)
            assert (result is call.keywords.get("out")) == (kind == "ufunc_out")
            assert result.dtype == np.float32
            np.testing.assert_allclose(result, getattr(np, name)(*call.args))


def test_what_grad_mode_adds_is_the_difference_of_chains_with_it_and_without(probes):
    wanted = ("autograd_off", "autograd_on", "autograd_node", "autograd_backward")
    readings = [reading for reading in probes.readings if reading.name in wanted]
    costs = {"chain": 2e-6, "chain with grad": 3e-6, "chain and back": 5e-6}
    windows = {
        f"overhead {name} {length}": [Window(seconds=1e-6 + cost * length)]
        for name, cost in costs.items()
        for length in (SHORT_CHAIN, LONG_CHAIN)
    }
    ceilings = read_ceilings(readings, Rounds(windows=windows, rounds=1, dropped=0), threads=1)
    values = {one.name: one.value for one in ceilings}
    assert values == pytest.approx(dict(zip(wanted, (2e-6, 3e-6, 1e-6, 2e-6), strict=True)))


def test_a_page_fault_is_what_fresh_memory_takes_more_over_the_faults_it_makes(probes):
    (reading,) = [one for one in probes.readings if one.name == "page_fault"]
    fresh, touched = reading.keys
    windows = {fresh: [Window(seconds=2e-3, faults=1000)], touched: [Window(seconds=1e-3, faults=0)]}
    (ceiling,) = read_ceilings([reading], Rounds(windows=windows, rounds=1, dropped=0), threads=1)
    assert ceiling.value == pytest.approx(1e-6)
    windows[fresh] = [Window(seconds=2e-3, faults=0)]
    assert read_ceilings([reading], Rounds(windows=windows, rounds=1, dropped=0), threads=1) == ()
