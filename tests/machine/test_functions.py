import pytest
import torch

from boundby.machine.data import DTYPES, DataSource, apart
from boundby.machine.functions import FUNCTIONS, MAKERS, function_arguments, function_elements, function_probes

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


@pytest.mark.parametrize("dtype", MAKERS)
@pytest.mark.parametrize("elements", [2, 4096, 65_536])
def test_what_functions_read_and_write_lies_apart_within_a_page(dtype, elements):
    arguments = function_arguments(DataSource(), elements, dtype)
    vectors = [getattr(arguments, name) for name in ("x", "y", "z", "positive", "small", "out")]
    for first in vectors:
        for second in vectors:
            distance = (second.data_ptr() - first.data_ptr()) % 4096
            assert first is second or 448 <= distance <= 4096 - 448


def test_vectors_apart_are_copies():
    given = (torch.arange(5), torch.rand(3, 4), torch.tensor([True, False]))
    copies = apart(*given)
    for vector, copy in zip(given, copies, strict=True):
        assert copy.dtype == vector.dtype
        assert torch.equal(copy, vector)
    copies[0].zero_()
    assert given[0].tolist() == [0, 1, 2, 3, 4]
