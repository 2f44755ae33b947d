"""Hardware: shipped data sheets, specs of the user's, machine files; what contradicts itself is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boundby.llm.hardware import (
    KINDS,
    check_hardware,
    find_hardware,
    hardware_from_machine,
    hardware_from_spec,
    hardware_names,
    read_hardware,
)
from boundby.results.errors import BoundbyError
from boundby.results.machine_file import decode_machine

MACHINE = Path(__file__).parents[1] / "report" / "files" / "machine-measured.json"


@pytest.mark.parametrize("name", hardware_names())
def test_every_shipped_device_passes_its_own_check_and_has_a_source(name: str) -> None:
    found = find_hardware(name)
    check_hardware(found)
    assert found.origin
    assert found.kind in KINDS - {"unknown"}


def test_names_are_found_whatever_their_case() -> None:
    assert find_hardware("nvidia h100 sxm5").name == "H100-SXM5"
    assert find_hardware("rtx4090").name == "RTX 4090"
    assert find_hardware("b200").name == "B200 (HGX)"
    assert find_hardware("RTX 3090 24GB").name == "RTX 3090"
    assert find_hardware("M2 Ultra").name == "Apple M2 Ultra"


@pytest.mark.parametrize("name", ["A100", "H100", "H101", "", "RTX 9999", "RTX 3080", "8GB", "apple"])
def test_an_ambiguous_or_unknown_name_is_an_error_that_lists_near_ones(name: str) -> None:
    with pytest.raises(BoundbyError) as raised:
        find_hardware(name)
    assert raised.value.code == "unknown-hardware"
    if name in ("A100", "H100"):
        assert raised.value.message.count(name) >= 3


def test_data_sheets_and_measurements_are_told_apart() -> None:
    assert find_hardware("H100-SXM5").source == "datasheet"
    assert find_hardware("i7-12700H (measured)").source == "measured"
    assert read_hardware(MACHINE).source == "measured"


def test_a_machine_file_gives_its_measured_ceilings() -> None:
    content = json.loads(MACHINE.read_text())
    found = read_hardware(MACHINE)
    reads = [one["value"] for one in content["ceilings"] if one["kind"] == "bandwidth"]
    assert min(reads) <= found.bytes_per_s <= max(reads)
    assert found.kind == "cpu"
    assert found.peaks["fp32"] == max(
        one["value"] for one in content["ceilings"] if one["kind"] == "matmul" and one["dtype"] == "fp32"
    )


def test_a_measured_device_is_of_the_kind_of_its_data_sheet() -> None:
    machine = decode_machine(MACHINE.read_bytes())
    described = replace(machine.description, device="cuda", device_name="NVIDIA H200")
    found = hardware_from_machine(replace(machine, description=described), name="x")
    assert (found.name, found.kind, found.source) == ("NVIDIA H200", "nvidia-hbm", "measured")
    assert found.memory_bytes == 141e9
    unknown = replace(described, device_name="Novel 1")
    assert hardware_from_machine(replace(machine, description=unknown), name="x").kind == "unknown"


def test_main_memory_is_what_torch_reads_and_not_the_fastest_stream() -> None:
    machine = decode_machine(MACHINE.read_bytes(), name="x")
    threads = machine.description.threads
    rates = (
        ("read", "torch", 47e9),
        ("read", "native", 59e9),
        ("triad", "torch", 58e9),
        ("inplace", "torch", 92e9),
        ("inplace", "native", 101e9),
    )
    sample = next(one for one in machine.ceilings if one.kind == "bandwidth" and one.unit == "byte/s")
    streams = tuple(
        replace(sample, name=name, stack=stack, value=rate, threads=threads, size_bytes=2**40, contradicted=False)
        for name, stack, rate in rates
    )
    others = tuple(one for one in machine.ceilings if one.kind != "bandwidth")
    assert hardware_from_machine(replace(machine, ceilings=(*others, *streams)), name="x").bytes_per_s == 47e9
    unread = tuple(one for one in streams if one.name != "read")
    assert hardware_from_machine(replace(machine, ceilings=(*others, *unread)), name="x").bytes_per_s == 58e9


def test_a_spec_can_build_on_a_shipped_device() -> None:
    found = hardware_from_spec({"name": "mine", "like": "RTX 4090", "bandwidth_gb_per_s": 950}, name="x")
    assert found.bytes_per_s == 950e9
    assert found.peaks["bf16"] == pytest.approx(165.2e12)
    assert found.source == "file"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"name": "H100-SXM5", "bandwidth_gb_per_s": 3350, "peak_tflops": {"bf16": 1979}}, "sparsity"),
        ({"name": "my card", "bandwidth_gb_per_s": 3350, "peak_tflops": {"bf16": 1979}}, "sparsity"),
        ({"name": "H100", "bandwidth_gb_per_s": 3350, "peak_tflops": {"fp8": 3958}}, "sparsity"),
        ({"name": "H100-SXM5", "bandwidth_gb_per_s": 3.35}, "contradicts"),
        ({"name": "my card", "bandwidth_gb_per_s": 3_350_000}, "none that a device has"),
        ({"name": "my card", "bandwidth_gb_per_s": 3350, "memory_gb": 0.08}, "none that a device has|times a second"),
        ({"name": "my card", "bandwidth_gb_per_s": 500, "peak_tflops": {"bf16": 90000}}, "FLOP a byte"),
        ({"name": "my card", "bandwidth_gb_per_s": 2222, "peak_tflops": {"bf16": 100, "fp8": 400}}, "sparsity"),
        ({"name": "my card"}, "no bandwidth"),
        ({"bandwidth_gb_per_s": -1}, "positive number"),
        ({"bandwidth_gb_per_s": True}, "positive number"),
        ({"bandwidth_gb_per_s": "fast"}, "positive number"),
        ({"bandwidth_gb_per_s": 500, "peak_tflops": {"fp12": 1}}, "'fp12'"),
        ({"bandwidth_gb_per_s": 500, "peak_tflops": 12}, "no object"),
        ({"bandwidth": 500}, "no field"),
        ({"bandwidth_gb_per_s": 500, "kind": "quantum"}, "quantum"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(BoundbyError, match=told) as raised:
        hardware_from_spec(spec, name="mine")
    assert raised.value.code == "hardware-spec"
    assert "\n" not in raised.value.message


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"null", b"\xff"])
def test_no_hardware_file_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(BoundbyError) as raised:
        read_hardware(path)
    assert raised.value.code == "hardware-spec"
