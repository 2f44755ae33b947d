import pytest
import torch

from boundby.machine.data import DTYPES, LINE_BYTES, PAGE_BYTES, DataSource, placed
from boundby.machine.functions import BEHIND, FUNCTIONS, MAKERS, function_arguments, function_elements, function_probes

MODELS_USE = (
    "add", "mul", "div", "sqrt", "rsqrt", "exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "gelu", "silu",
    "softmax",
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_what_models_use_has_a_ceiling(dtype):
    readings = function_probes(DataSource(), threads=1).readings
    assert set(MODELS_USE) <= {reading.name for reading in readings if reading.dtype == dtype}


def test_every_ceiling_says_type_and_working_set_and_has_two_probes():
    readings = function_probes(DataSource(), threads=2).readings
    assert len({(reading.name, reading.dtype) for reading in readings}) == len(readings)
    for reading in readings:
        assert reading.size_bytes == function_elements(2) * DTYPES[reading.dtype].itemsize
        assert reading.arguments is None
        assert len(set(reading.keys)) == 2


@pytest.mark.parametrize("dtype", MAKERS)
def test_arguments_are_in_the_range_that_the_ceilings_are_stated_for(dtype):
    arguments = function_arguments(DataSource(), 4096, dtype)
    # Of bf16 the next number may be 1/256 away.
    assert (arguments.positive.min() >= 0.0996) & (arguments.positive.max() <= 4.02)
    assert arguments.small.abs().max() <= 3.02
    for numbers in (arguments.x, arguments.y, arguments.z):
        assert abs(numbers.float().mean()) < 0.1
        assert 0.9 < numbers.float().std() < 1.1
    assert arguments.mask.float().mean() == 0.5
    for name in MAKERS[dtype]:
        result = FUNCTIONS[name](arguments)()
        if isinstance(result, torch.Tensor):
            assert torch.isfinite(result).all(), name


def test_functions_of_other_types_are_the_same_functions():
    wide = function_arguments(DataSource(), 1024, "fp64")
    narrow = function_arguments(DataSource(), 1024, "bf16")
    for name in sorted(set(MAKERS["bf16"]) & set(MAKERS["fp64"]) - {"sum", "tanh"}):
        expected, got = FUNCTIONS[name](wide)().float(), FUNCTIONS[name](narrow)().float()
        torch.testing.assert_close(got, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("elements", [2, 4096, 65_536])
def test_no_function_writes_closely_behind_what_it_reads(elements):
    """Within a page, as far as that is not left to torch's allocator."""
    seen = 0
    for dtype, names in MAKERS.items():
        arguments = function_arguments(DataSource(), elements, dtype)
        for name in names:
            call = FUNCTIONS[name](arguments)
            tensors = [one for one in call.args if isinstance(one, torch.Tensor)]
            for result in (one for key, one in call.keywords.items() if key in ("out", "grad_input")):
                for read in tensors:
                    distance = (result.data_ptr() - read.data_ptr()) % PAGE_BYTES
                    assert 448 <= distance <= PAGE_BYTES - 448, (name, distance)
                    seen += 1
    assert seen > 100


def test_results_may_be_asked_to_lie_a_line_behind():
    arguments = function_arguments(DataSource(), 4096, "fp32", starts=BEHIND)
    for name in ("sigmoid", "add", "addcmul", "where", "compare", "softmax_backward"):
        call = FUNCTIONS[name](arguments)
        result = call.keywords.get("out", call.keywords.get("grad_input"))
        for read in (one for one in call.args if isinstance(one, torch.Tensor)):
            assert (result.data_ptr() - read.data_ptr()) % PAGE_BYTES == LINE_BYTES, name


class Slower:
    """A clock by which calls that write a line behind what they read take longer: as long as ``factor`` says."""

    def __init__(self, monkeypatch, factor: float) -> None:
        self.now_ns, self.factor = 0, factor
        monkeypatch.setattr("boundby.machine.functions.fastest_ns", self.fastest_ns)

    def fastest_ns(self, call, clock):
        call()
        behind = any(
            isinstance(one, torch.Tensor) and one.numel() > 2 and one.data_ptr() % PAGE_BYTES == LINE_BYTES
            for one in call.keywords.values()
        )
        return round(1000 * (self.factor if behind else 1.0))


@pytest.mark.parametrize(("factor", "measured"), [(1.0, False), (1.15, True)])
def test_functions_that_take_longer_a_line_behind_are_measured_there_too(monkeypatch, factor, measured):
    Slower(monkeypatch, factor)
    probes = function_probes(DataSource(), threads=1)
    keys = {probe.key for probe in probes.probes}
    sigmoid = next(one for one in probes.readings if (one.name, one.dtype) == ("sigmoid", "fp32"))
    assert sigmoid.at_times == ("sigmoid fp32 behind" if measured else None)
    assert ("sigmoid fp32 behind" in keys) == measured
    # What writes nothing of its own has no other place.
    assert not any(one.at_times for one in probes.readings if one.name in ("sum", "mean"))


@pytest.mark.parametrize("start", [0, 64, 448, 4032])
def test_a_placed_copy_begins_where_it_is_asked_to(start):
    for vector in (torch.arange(5), torch.rand(3, 4), torch.tensor([True, False]), torch.rand(9).bfloat16()):
        copy = placed(vector, start)
        assert copy.data_ptr() % PAGE_BYTES == start
        assert copy.dtype == vector.dtype
        assert torch.equal(copy, vector)
        copy.zero_()
        assert vector.any()


@pytest.mark.parametrize("start", [-64, 32, 4096])
def test_a_copy_begins_at_a_line_of_a_page(start):
    with pytest.raises(ValueError, match="multiple of 64"):
        placed(torch.ones(3), start)
