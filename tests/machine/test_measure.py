import pytest
import torch

from boundby.machine import matmul
from boundby.machine.bands import least_share
from boundby.machine.bandwidth import bandwidth_probes, working_sets
from boundby.machine.data import DataSource
from boundby.machine.functions import FUNCTIONS, function_elements, function_probes
from boundby.machine.matmul import matmul_probes, product_call, product_flops, usable_dtypes
from boundby.machine.measure import measure_machine
from boundby.machine.overhead import overhead_probes
from boundby.timing.clock import monotonic_ns


@pytest.fixture
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", ["mm", "mm_nt", "mm_tn"])
@pytest.mark.parametrize("shape", [(1, 5, 7, 3), (4, 5, 7, 3)])
def test_products_have_the_shape_and_the_result_they_claim(name, shape):
    call = product_call(DataSource(), name, shape, "fp32")
    out = call()
    left, right = call.args
    batch, m, n, k = shape
    assert left.shape[-2:] == (m, k)
    assert right.shape[-2:] == (k, n)
    assert torch.allclose(out, left @ right)
    assert right.is_contiguous() == (name != "mm_nt")
    assert left.is_contiguous() == (name != "mm_tn")
    assert product_flops(shape) == 2 * batch * m * n * k


@pytest.mark.parametrize(
    "spec", [(2, 3, 8, 4, 3, 1, 1), (2, 4, 9, 8, 3, 2, 2), (1, 6, 7, 5, 1, 1, 1), (2, 8, 6, 8, 3, 1, 8)]
)
def test_a_convolutions_product_is_its_own_flops(spec):
    one = matmul._convolution(DataSource(), "fp32", spec)
    out = one.forward()
    taps = one.weight[0].numel()
    assert product_flops(one.shape) == 2 * out.numel() * taps


def test_backward_probes_give_the_gradients_autograd_gives(no_grad):
    one = matmul._convolution(DataSource(), "fp32", (2, 4, 6, 4, 3, 1, 2))
    call = one.backward_call()
    with torch.enable_grad():
        x, weight = one.x.clone().requires_grad_(), one.weight.clone().requires_grad_()
        torch.nn.functional.conv2d(x, weight, padding=1, groups=2).backward(call.args[0])
    from_probe = call()
    assert torch.allclose(from_probe[0], x.grad, atol=1e-5)
    assert torch.allclose(from_probe[1], weight.grad, atol=1e-4)


def test_every_probe_runs_here_and_every_reading_has_its_probes(no_grad):
    data = DataSource()
    sets = [
        overhead_probes(data),
        function_probes(data, threads=1),
        matmul_probes(data, dtypes=("fp32",), memory_bytes=8 << 20),
        bandwidth_probes(data, memory_bytes=1 << 20),
    ]
    for one in sets:
        keys = [probe.key for probe in one.probes]
        for probe in one.probes:
            probe.call()
        assert {key for reading in one.readings for key in reading.keys} <= set(keys)


def test_function_probes_apply_the_function_they_name(no_grad):
    data = DataSource()
    probes = {probe.key: probe for probe in function_probes(data, threads=1).probes}
    for name in ("exp", "tanh", "gelu", "sigmoid", "erf"):
        call = probes[f"{name} fp32"].call
        expected = torch.nn.functional.gelu(call.args[0]) if name == "gelu" else getattr(torch, name)(call.args[0])
        assert torch.allclose(call(), expected)
    assert set(FUNCTIONS) >= {"add", "exp", "cos", "softmax", "layer_norm_backward", "dropout"}


def test_data_is_random_the_same_each_time_and_finite():
    first, second = DataSource(), DataSource()
    assert torch.equal(first.normal(100), second.normal(100))
    large = first.large(1 << 19)
    assert large.std() > 0
    assert bool(torch.isfinite(large).all())


def test_repeated_calls_do_not_let_numbers_run_away(no_grad):
    probes = bandwidth_probes(DataSource(), memory_bytes=1 << 16).probes
    for _ in range(50):
        for probe in probes:
            probe.call()
    for probe in probes:
        if probe.key.startswith("inplace"):
            values = probe.call()
            assert 0.1 < values.abs().min() <= values.abs().max() < 10


@pytest.mark.parametrize("memory", [1 << 16, 1 << 20, 100 << 20, 1 << 30, 1 << 40])
def test_working_sets_grow_to_what_memory_allows_and_no_further(memory):
    sizes = working_sets(memory)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] == 4096
    assert sizes[-1] <= min(memory, 256 << 20)
    assert sizes[-1] >= min(memory, 256 << 20) / 2


def test_functions_stay_in_cache_and_give_each_thread_work():
    assert function_elements(1) == 64 * 1024
    assert function_elements(8) == 256 * 1024
    assert function_elements(1000) == 1 << 20


def test_a_type_without_a_fast_path_is_found_within_a_bounded_time(monkeypatch):
    now = [0]
    tried: list[int] = []

    def product(data, name, shape, dtype):
        def call() -> None:
            tried.append(shape[1])
            # fp16 at 0.1 GFLOP/s: 42 s at 2048.
            now[0] += product_flops(shape) * (10 if dtype == "fp16" else 0.01) + 1000

        return call

    monkeypatch.setattr(matmul, "product_call", product)
    usable, _, (finding,) = usable_dtypes(DataSource(), clock=lambda: round(now[0]))
    assert usable == ("fp32", "bf16", "fp64", "int8")
    assert finding.code == "dtype-slow"
    assert "fp16" in finding.message
    assert now[0] < 1e9
    assert max(tried) <= 128


def test_a_type_that_cannot_be_multiplied_is_named(monkeypatch):
    real = matmul.product_call

    def product(data, name, shape, dtype):
        if dtype == "bf16":
            raise RuntimeError('"addmm_impl_cpu_" not implemented for BFloat16')
        return real(data, name, shape, dtype)

    monkeypatch.setattr(matmul, "product_call", product)
    usable, _, findings = usable_dtypes(DataSource())
    assert "bf16" not in usable
    assert "dtype-unusable" in [finding.code for finding in findings]


def test_measuring_in_process_leaves_settings_and_random_numbers_alone():
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    start = monotonic_ns()
    machine = measure_machine(threads=1, mode="quick", budget_s=0.0)
    assert machine.ceilings
    assert all(one.name != "parallel_region" for one in machine.ceilings)
    # Bands are for other runs too: a window or two of each that agree are no reason to be surer.
    assert all(
        one.high >= (1 + least_share(one)) ** 2 * 0.999 * one.low for one in machine.ceilings if one.kind != "anchor"
    )
    assert machine.description.measured_at is not None
    assert monotonic_ns() > start
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), before)
