from dataclasses import replace

import pytest

from boundby.report.machine_table import render_machine
from boundby.results.machine import Ceiling, Finding, Machine, MachineDescription, Measuring

ABOUT = MachineDescription(
    cpu="a processor",
    usable_cores=2,
    logical_cores=2,
    memory_bytes=8 << 30,
    memory_limit_bytes=None,
    os="Linux",
    python="3.12",
    torch="2.9",
    threads=2,
    affinity=(0, 1),
)


def ceiling(kind: str, name: str, value: float, unit: str, *, dtype: str | None = "fp32", **more) -> Ceiling:
    threads = more.pop("threads", 2)
    low, high = 0.995 * value, 1.005 * value
    return Ceiling(
        kind=kind, name=name, dtype=dtype, threads=threads, value=value, low=low, high=high, unit=unit, **more
    )


def square(n: int, rate: float, **more) -> Ceiling:
    return ceiling("matmul", "mm", rate, "flop/s", shape=(1, n, n, n), **more)


def stream(name: str, size: int, rate: float, **more) -> Ceiling:
    return ceiling("bandwidth", name, rate, "byte/s", size_bytes=size, **more)


LARGE = 256 << 20
CEILINGS = (
    *(square(n, rate) for n, rate in ((64, 50e9), (128, 150e9), (512, 200e9))),
    square(512, 110e9, threads=1),
    ceiling("matmul", "fma", 230e9, "flop/s", stack="native"),
    ceiling("matmul", "mm_sustained", 180e9, "flop/s", shape=(1, 512, 512, 512)),
    stream("copy", 1 << 20, 170e9),
    stream("read", LARGE, 60e9),
    stream("copy", LARGE, 50e9),
    stream("copy", LARGE, 40e9, threads=1),
    stream("inplace_sustained", LARGE, 77e9),
    stream("copy", LARGE - 4096, 55e9, stack="native"),
    stream("copy_nt", LARGE - 4096, 62.5e9, stack="native"),
    ceiling("function", "exp", 1e-9, "s"),
    ceiling("function", "exp", 0.5e-9, "s", stack="torch.compile"),
    ceiling("function", "exp/denormal_result", 33e-9, "s", arguments="numbers far below 0"),
    ceiling("overhead", "pointwise", 1e-6, "s", dtype=None),
    ceiling("overhead", "pointwise", 9e-6, "s", dtype=None, threads=1),
)
MACHINE = Machine(
    description=ABOUT,
    ceilings=CEILINGS,
    measuring=Measuring(mode="default", seconds=17.7, rounds=12, unconfirmed=3, peak_memory_bytes=900 << 20),
)


def shown(machine: Machine = MACHINE, width: int = 100) -> str:
    return render_machine(machine, width=width, color=False, unicode=True)


def row(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


def test_how_it_was_measured_is_told():
    assert "default measuring: 18 s, 12 rounds, at most 900 MiB of memory; 3 still moved when time was up" in shown()
    unknown = replace(MACHINE, measuring=replace(MACHINE.measuring, peak_memory_bytes=None, unconfirmed=0))
    assert "default measuring: 18 s, 12 rounds\n" in shown(unknown)
    assert "measuring:" not in shown(replace(MACHINE, measuring=None))


def test_the_tables_are_of_torch_at_its_own_threads():
    text = shown()
    assert row(text, "mm") == ["mm", "200"]
    assert row(text, "copy") == ["copy", "170", "50.0"]
    assert "fma" not in text
    assert "copy_nt" not in text
    assert "77" not in text
    assert "9.00 µs" not in text


def test_shapes_sizes_hardware_threads_and_endurance_stand_under_the_products():
    text = shown()
    assert "fastest mm (m x n x k): fp32 512x512x512" in text
    assert "half of the fastest square's rate from n of: fp32 99" in text
    assert "of the hardware's multiply-adds (native code): fp32 87%" in text
    assert "of the fastest mm after seconds without a rest: fp32 90%" in text
    assert "2 threads against 1: fp32 1.8x; serial share 8.9-11%" in text


def test_streams_are_compared_with_the_faster_native_one_of_their_size():
    text = shown()
    assert "of what the hardware moves (native code) at 256 MiB: copy 80%" in text
    assert "2 threads against 1: copy 1.2x; serial share 58-62%" in text


def test_compiled_functions_have_their_row_and_slow_ranges_none():
    text = shown()
    assert row(text, "compiled") == ["compiled", "0.500"]
    assert "denormal" not in text


def test_a_fine_sweep_is_thinned_to_what_fits_and_keeps_its_largest_size():
    sizes = [4096 << place for place in range(18)]
    fine = replace(MACHINE, ceilings=tuple(stream("read", size, 60e9) for size in sizes))
    text = shown(fine)
    (heads,) = [line for line in text.splitlines() if "512 MiB" in line and "KiB" in line]
    assert heads.count("iB") <= 8


@pytest.mark.parametrize("count", [0, 2, 5])
def test_a_few_findings_are_told_and_the_rest_counted(count):
    findings = tuple(Finding(code=f"code-{place}", message=f"Message {place}.") for place in range(count))
    text = shown(replace(MACHINE, findings=findings))
    assert [f"[code-{place}]" in text for place in range(count)] == [place < 3 for place in range(count)]
    assert ("and 2 more" in text) == (count == 5)


def test_what_a_parallel_region_costs_is_told_in_short():
    region = ceiling("overhead", "parallel_region", 2.6e-6, "s", dtype=None)
    text = " ".join(shown(replace(MACHINE, ceilings=(*CEILINGS, region))).split())
    assert "threads take 2.60 µs to share an op out and to wait for each other (parallel region)" in text
    assert "parallel region" not in shown()
