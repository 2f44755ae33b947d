import pytest
import torch

from boundby.machine import matmul
from boundby.machine.data import DataSource
from boundby.machine.matmul import matmul_probes, product_call, product_flops, square_sizes, usable_dtypes


class FakeProducts:
    """Products of known speed on a fake clock; ``slow`` says how many times as long each dtype takes as fp32."""

    def __init__(self, slow: dict[str, float]) -> None:
        self.slow = slow
        self.now = 0.0
        self.sizes: dict[str, list[int]] = {}
        self.spent: dict[str, float] = {}

    def clock(self) -> int:
        return round(self.now)

    def __call__(self, data, name, shape, dtype):
        def call() -> None:
            self.sizes.setdefault(dtype, []).append(shape[1])
            taken = product_flops(shape) * 0.01 * self.slow.get(dtype, 1.0) + 1000
            self.now += taken
            self.spent[dtype] = self.spent.get(dtype, 0.0) + taken

        return call


@pytest.mark.parametrize("dtype", matmul.TRIED_DTYPES)
@pytest.mark.parametrize("slowdown", [5, 50, 500, 5_000, 500_000, 5_000_000])
def test_a_slow_dtype_is_found_within_a_second_and_its_slowdown_told(monkeypatch, dtype, slowdown):
    products = FakeProducts({dtype: slowdown})
    monkeypatch.setattr(matmul, "product_call", products)
    usable, _, (finding,) = usable_dtypes(DataSource(), clock=products.clock)
    assert set(usable) == {"fp32", *matmul.TRIED_DTYPES} - {dtype}
    assert finding.code == "dtype-slow"
    assert finding.message.startswith(f"{dtype} matrix products")
    told = float(finding.message.split("are ")[1].split(" times")[0])
    # A call's own microsecond is there at small sizes; beside a product this slow it is nothing.
    assert told == pytest.approx(slowdown, rel=0.1)
    assert products.spent[dtype] < 1e9


def test_dtypes_of_about_fp32s_speed_are_usable(monkeypatch):
    products = FakeProducts({"fp64": 3.5, "int8": 0.25})
    monkeypatch.setattr(matmul, "product_call", products)
    usable, probes, findings = usable_dtypes(DataSource(), clock=products.clock)
    assert usable == ("fp32", *matmul.TRIED_DTYPES)
    assert probes.probes == ()
    assert findings == ()


@pytest.mark.parametrize("name", ["mm", "mm_nt", "mm_tn"])
def test_integer_products_are_exact_and_laid_out_as_named(name):
    call = product_call(DataSource(), name, (1, 5, 7, 33), "int8")
    out = call()
    left, right = call.args
    assert left.dtype == right.dtype == torch.int8
    assert torch.equal(out, (left.int() @ right.int()))
    assert left.min() < 0 < left.max()
    assert right.is_contiguous() == (name != "mm_nt")
    assert left.is_contiguous() == (name != "mm_tn")


def test_batches_of_integer_products_do_not_exist():
    with pytest.raises(ValueError, match="batches of int8"):
        product_call(DataSource(), "mm", (2, 4, 4, 4), "int8")


def test_integer_probes_run_and_are_called_by_their_dtype():
    probes = matmul_probes(DataSource(), dtypes=("int8",), memory_bytes=1 << 20)
    integer = [one for one in probes.readings if one.dtype == "int8"]
    assert {one.name for one in integer} >= {"mm", "mm_nt", "matmul/mm int8"}
    by_key = {probe.key: probe for probe in probes.probes}
    for reading in integer:
        for key in reading.keys:
            by_key[key].call()


def test_a_full_sweep_is_finer_and_holds_to_the_memory_it_was_given():
    for dtype in ("fp32", *matmul.TRIED_DTYPES):
        short, full = (square_sizes(dtype, 1 << 30, full=full) for full in (False, True))
        assert list(full) == sorted(set(full))
        assert set(short) < set(full)
        assert len(full) == len(set(full))
        small = square_sizes(dtype, 32 << 20, full=True)
        assert max(small) <= 1024
        assert set(short) <= set(small)


def test_each_dtypes_call_time_stands_beside_its_rates():
    probes = matmul_probes(DataSource(), dtypes=("fp32", "fp64"), memory_bytes=1 << 20)
    times = {one.name: one for one in probes.readings if one.kind == "overhead"}
    assert set(times) == {"matmul/mm fp32", "matmul/mm fp64"}
    for one in times.values():
        assert one.unit == "s"
        assert one.keys == (f"mm tiny {one.dtype}",)
