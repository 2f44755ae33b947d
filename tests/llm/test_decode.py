"""Decode steps on paper: exact values, and what must hold for any model on any device."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.llm.decode import estimate_decode
from boundby.llm.engines import PARTITIONS, Partition, engine_names
from boundby.llm.formats import cache_bytes_per_element, weight_format
from boundby.llm.hardware import find_hardware, hardware_from_spec, hardware_names
from boundby.llm.kernels import Work, launches_of, step_kernels
from boundby.llm.models import find_model, model_names
from boundby.results.errors import BoundbyError

H100 = find_hardware("H100-SXM5")

# Partition, launch cost (us): serial step (ms), share of launches (%), overlapped step (ms).
LAB_VALUES: dict[str, dict[tuple[Partition, int], tuple[str, str, str]]] = {
    "llama-3.1-8b": {
        ("unfused", 2): ("5.29", "15", "4.52"),
        ("unfused", 4): ("6.07", "26", "4.52"),
        ("unfused", 8): ("7.62", "41", "4.52"),
        ("fused", 2): ("5.04", "10", "4.52"),
        ("fused", 4): ("5.56", "19", "4.52"),
        ("fused", 8): ("6.59", "31", "4.52"),
        ("megakernel", 8): ("4.53", "0", "4.52"),
    },
    "llama-3.2-1b": {
        ("unfused", 2): ("1.14", "34", "0.75"),
        ("unfused", 4): ("1.53", "51", "0.78"),
        ("unfused", 8): ("2.31", "68", "1.56"),
        ("fused", 2): ("1.01", "26", "0.75"),
        ("fused", 4): ("1.27", "41", "0.75"),
        ("fused", 8): ("1.80", "58", "1.05"),
        ("megakernel", 8): ("0.76", "1", "0.75"),
    },
}


def test_a_megakernel_pays_its_one_launch() -> None:
    found = estimate_decode(find_model("llama-3.2-1b"), H100, partition="megakernel", launch_s=100e-6)
    cost = next(one for one in found.launch_costs if one.partition == "megakernel")
    assert f"{cost.serial_s * 1e6:.0f}" == "848"
    assert f"{cost.overlapped_s * 1e6:.0f}" == "748"
    assert cost.overhead == pytest.approx(100 / 848, rel=1e-3)


@pytest.mark.parametrize("name", LAB_VALUES)
def test_the_lectures_values_are_exact(name: str) -> None:
    found = estimate_decode(find_model(name), H100, context=1024, weights="bf16")
    shown = {
        (one.partition, round(one.launch_s * 1e6)): (
            f"{one.serial_s * 1e3:.2f}",
            f"{one.overhead * 100:.0f}",
            f"{one.overlapped_s * 1e3:.2f}",
        )
        for one in found.launch_costs
    }
    assert LAB_VALUES[name] == {key: shown[key] for key in LAB_VALUES[name]}


def test_the_lectures_floors_and_launches() -> None:
    eight, one = (estimate_decode(find_model(name), H100) for name in LAB_VALUES)
    assert (f"{eight.step.floor_s * 1e3:.2f}", f"{one.step.floor_s * 1e3:.3f}") == ("4.52", "0.748")
    assert (eight.parameters_streamed, one.parameters_streamed) == (7_504_924_672, 1_235_814_400)
    assert [launches_of(cut, 32) for cut in PARTITIONS] == [387, 259, 1]
    assert [launches_of(cut, 16) for cut in PARTITIONS] == [195, 131, 1]


@settings(deadline=None, max_examples=60)
@given(
    model=st.sampled_from(model_names()),
    hardware=st.sampled_from(hardware_names()),
    batch=st.integers(1, 4096),
    context=st.integers(0, 200_000),
    weights=st.sampled_from(["bf16", "q4_k_m", "int4-g128", "fp8", "4.25bpw", "mxfp4", "8bit"]),
    engine=st.sampled_from([None, *engine_names()]),
    devices=st.sampled_from([1, 2, 8]),
)
def test_what_holds_for_any_step(
    model: str, hardware: str, batch: int, context: int, weights: str, engine: str | None, devices: int
) -> None:
    structure, device = find_model(model), find_hardware(hardware)
    found = estimate_decode(
        structure, device, batch=batch, context=context, weights=weights, engine=engine, devices=devices
    )
    band = found.step.step_s
    assert found.step.floor_s <= band.low <= band.value <= band.high
    assert 0 < found.step.mbu.value <= 1 + 1e-9
    assert found.step.mfu is None or 0 < found.step.mfu.value <= 1 + 1e-9
    assert found.step.tokens_per_s.value == pytest.approx(batch * found.step.tokens_per_s_user.value)
    assert sum(kernel.bytes_read for kernel in found.kernels) == pytest.approx(
        found.step.weight_bytes + found.step.cache_bytes
    )
    for cost in found.launch_costs:
        assert cost.overlapped_s <= cost.serial_s
    for less, more in pairwise(found.sweep):
        assert less.step_s.value <= more.step_s.value * (1 + 1e-9)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt-oss-20b", "deepseek-v3", "gemma-2-9b"])
def test_partitions_cut_the_same_bytes(name: str) -> None:
    work = Work(batch=3, context=5000, weights=weight_format("q4_0"), cache_element_bytes=2)
    totals = [
        sum(kernel.bytes_read for kernel in step_kernels(find_model(name), H100, work, partition=cut))
        for cut in PARTITIONS
    ]
    assert totals[1:] == pytest.approx(totals[:1] * 2)


def test_experts_are_touched_as_the_batch_grows() -> None:
    found = estimate_decode(find_model("mixtral-8x7b"), H100)
    read = [one.experts_read for one in found.sweep]
    assert read[0] == pytest.approx(2)
    # Of 8 experts, two for each of two tokens: 8 (1 - (6/8)^2).
    assert read[1] == pytest.approx(3.5)
    assert read[-1] == pytest.approx(8)


def test_compute_binds_at_the_ridge_and_memory_is_full_where_caches_fill_it() -> None:
    model = find_model("llama-3.1-8b")
    found = estimate_decode(model, H100)
    # 2 FLOP a weight of 2 bytes: at 989 TFLOP/s and 3.35 TB/s products take as long as reading from 295.2 rows on.
    assert found.compute_bound_batch == 296
    assert found.memory_full_batch == math.floor((0.9 * 80e9 - 2 * 8_030_261_248) / (131_072 * 1024))
    assert estimate_decode(model, find_hardware("RTX 4070 Ti")).memory_full_batch == 0


@pytest.mark.parametrize(
    ("name", "bits", "head"),
    [
        ("q4_0", 4.5, 6.5625),
        ("q8_0", 8.5, 8.5),
        ("int4-g128", 4 + 20 / 128, 16),
        ("torchao-int4-g32", 5.0, 5.0),
        ("mxfp4", 16, 16),
        ("BFloat16", 16, 16),
        ("3.5bpw", 3.5, 6),
        ("4bit", 4.5, 4.5),
    ],
)
def test_formats_have_their_real_bits(name: str, bits: float, head: float) -> None:
    found = weight_format(name)
    assert (bits, head) == (found.body_bits, found.head_bits)


def test_a_mixture_of_k_quants_streams_about_as_much_as_its_file() -> None:
    # Llama-3-8B in Q4_K_M is a file of 4.58 GiB, of which the input table (4.5 bits) is not streamed.
    found = estimate_decode(find_model("llama-3.1-8b"), H100, weights="q4_k_m")
    table = 128_256 * 4096 * 4.5 / 8
    assert found.step.weight_bytes == pytest.approx(4.58 * 2**30 - table, rel=0.01)


# GiB of Llama-3-8B as llama.cpp's quantize tool lists them (tools/quantize/quantize.cpp).
LISTED_GIB = {
    "q2_k": 2.96,
    "q3_k_s": 3.41,
    "q3_k_m": 3.74,
    "q3_k_l": 4.03,
    "q4_0": 4.34,
    "q4_1": 4.78,
    "q4_k_s": 4.37,
    "q4_k_m": 4.58,
    "q5_0": 5.21,
    "q5_1": 5.65,
    "q5_k_s": 5.21,
    "q5_k_m": 5.33,
    "q6_k": 6.14,
    "q8_0": 7.96,
}


@pytest.mark.parametrize(
    ("name", "weights", "size"),
    [
        *(("llama-3.1-8b", weights, gib * 2**30) for weights, gib in LISTED_GIB.items()),
        # Files as published: TheBloke/Llama-2-7B-GGUF; ggml-org/gpt-oss-20b-GGUF (llama.cpp discussion 15396).
        ("llama-2-7b", "q4_0", 3.83e9),
        ("gpt-oss-20b", "gguf-mxfp4", 11.27 * 2**30),
    ],
)
def test_a_model_takes_what_its_file_takes(name: str, weights: str, size: float) -> None:
    assert estimate_decode(find_model(name), H100, weights=weights).model_bytes == pytest.approx(size, rel=0.02)


@pytest.mark.parametrize(
    "weights", ["int4-g128", "int4-column", "nf4", "nf4-single", "4.5bpw", "torchao-int4-g32", "fp8"]
)
def test_formats_of_products_alone_leave_the_input_table_in_16_bits(weights: str) -> None:
    form, model = weight_format(weights), find_model("llama-3.1-8b")
    found = estimate_decode(model, H100, weights=weights)
    assert form.table_bits == 16
    # What is stored beside what a step reads is the table.
    assert found.model_bytes - found.step.weight_bytes == pytest.approx(2 * model.embedding)


@pytest.mark.parametrize("weights", ["q4_k_m", "q2_k", "q8_0"])
def test_a_tied_table_is_stored_once_in_the_bits_of_the_head(weights: str) -> None:
    found = estimate_decode(find_model("llama-3.2-1b"), H100, weights=weights)
    assert found.model_bytes == pytest.approx(found.step.weight_bytes)


def test_a_quantised_table_makes_room() -> None:
    found = estimate_decode(
        find_model("llama-3.1-8b"), find_hardware("RTX 4060"), weights="q4_k_m", engine="llama.cpp", context=16384
    )
    assert found.step.fits is True


@pytest.mark.parametrize(
    ("name", "weights", "engine", "bits"),
    [
        ("llama-3.1-8b", "mxfp4", None, "16"),
        ("llama-3.1-8b", "nvfp4-experts", None, "16"),
        ("llama-3.1-8b", "mxfp4", "llama.cpp", "8.5"),
        ("gpt-oss-20b", "mxfp4", None, None),
        ("llama-3.1-8b", "nvfp4", None, None),
    ],
)
def test_a_format_for_experts_says_where_there_are_none(
    name: str, weights: str, engine: str | None, bits: str | None
) -> None:
    found = estimate_decode(find_model(name), H100, weights=weights, engine=engine)
    told = [note for note in found.notes if "format for experts" in note]
    assert [f"counted at {bits} bits" in note for note in told] == ([True] if bits else [])


def test_what_does_not_fit_is_the_first_note_and_speaks_of_nothing_that_follows() -> None:
    found = estimate_decode(find_model("llama-3.1-8b"), find_hardware("RTX 4060"), devices=3, context=200_000)
    assert found.step.fits is False
    assert found.notes[0].startswith("Weights and cache do not fit")
    assert not [note for note in found.notes if "follows" in note]


@pytest.mark.parametrize(
    ("name", "context", "told"),
    [("llama-3.1-8b", 1_000_000, True), ("llama-3.1-8b", 131_072, False), ("gemma-2-2b", 8193, True)],
)
def test_a_context_beyond_the_models_own_is_told(name: str, context: int, told: bool) -> None:
    notes = estimate_decode(find_model(name), H100, context=context).notes
    assert any("is beyond the" in note for note in notes) is told


def test_half_a_device_is_a_die_of_two() -> None:
    model = find_model("llama-3.1-8b")
    whole, half = (estimate_decode(model, find_hardware("MI250X"), devices=devices) for devices in (1, 0.5))
    assert half.step.floor_s == pytest.approx(2 * whole.step.floor_s)
    with pytest.raises(BoundbyError, match="one device to software") as raised:
        estimate_decode(model, H100, devices=0.5)
    assert raised.value.code == "decode-setting"
    like = hardware_from_spec({"like": "MI250X (2 GCD)", "name": "mine"}, name="mine")
    unknown = hardware_from_spec({"bandwidth_gb_per_s": 2000}, name="mine")
    assert all(estimate_decode(model, one, devices=0.5).devices == 0.5 for one in (like, unknown))


@pytest.mark.parametrize("name", ["fp12", "", "int4-g3", "99bpw", "q9_9", "int5-column"])
def test_an_unknown_format_is_one_clear_line(name: str) -> None:
    for read in (weight_format, cache_bytes_per_element):
        with pytest.raises(BoundbyError) as raised:
            read(name)
        assert raised.value.code == "unknown-format"


@pytest.mark.parametrize(
    "setting",
    [
        {"batch": 0},
        {"batch": -3},
        {"batch": 10**9},
        {"context": -1},
        {"context": 10**12},
        {"prompt": 0},
        {"launch_s": -1.0},
        {"launch_s": math.nan},
        {"host_speed": 0.0},
        {"devices": 0},
        {"devices": 1.5},
        {"devices": math.inf},
        {"devices": 10**6},
    ],
)
def test_a_setting_out_of_range_is_one_clear_line(setting: dict[str, Any]) -> None:
    with pytest.raises(BoundbyError) as raised:
        estimate_decode(find_model("llama-3.2-1b"), H100, **setting)
    assert raised.value.code == "decode-setting"


def test_more_devices_read_less_and_talk_more() -> None:
    model = find_model("llama-3.1-70b")
    found = [estimate_decode(model, H100, engine="vllm", devices=devices) for devices in (2, 4, 8)]
    assert [one.step.floor_s for one in found] == sorted((one.step.floor_s for one in found), reverse=True)
    for one in found:
        assert one.all_reduce is not None
        assert one.all_reduce.count == 161
        assert one.all_reduce.floor_s < one.all_reduce.expected_s


@pytest.mark.parametrize(
    ("model", "hardware", "weights", "engine", "tokens", "seconds"),
    [
        # github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference, pp1024; TensorRT-LLM 0.5, time to first token.
        ("llama-3.1-8b", "Apple M2 Ultra", "q4_k_m", "llama.cpp-2024", 1024, 1024 / 994.04),
        ("llama-3.1-8b", "Apple M2 Ultra", "f16", "llama.cpp-2024", 1024, 1024 / 1175.4),
        ("llama-2-7b", "L40S", "fp8", "tensorrt-llm", 128, 0.014),
        ("llama-2-7b", "L40S", "fp8", "tensorrt-llm", 2048, 0.073),
    ],
)
def test_published_prefills_lie_inside(
    model: str, hardware: str, weights: str, engine: str, tokens: int, seconds: float
) -> None:
    place = find_hardware(hardware)
    found = estimate_decode(find_model(model), place, weights=weights, engine=engine, prompt=tokens).prefill
    assert found.expected_s is not None
    assert found.floor_s is not None
    assert found.floor_s < found.expected_s.low <= seconds <= found.expected_s.high


def test_a_slow_host_hurts_where_kernels_are_issued_one_by_one() -> None:
    model = find_model("qwen3-0.6b")
    fast, slow = (estimate_decode(model, H100, engine="huggingface", host_speed=speed) for speed in (1.0, 0.25))
    assert slow.step.step_s.value > 3 * fast.step.step_s.value
    graph_fast, graph_slow = (estimate_decode(model, H100, engine="vllm", host_speed=speed) for speed in (1.0, 0.25))
    assert graph_slow.step.step_s.value < slow.step.step_s.value / 2
    assert graph_slow.step.step_s.value > graph_fast.step.step_s.value


def test_an_unknown_engine_lists_near_ones() -> None:
    with pytest.raises(BoundbyError, match=r"near: vllm") as raised:
        estimate_decode(find_model("llama-3.2-1b"), H100, engine="vlm")
    assert raised.value.code == "unknown-engine"


@pytest.mark.parametrize("batch", [1, 8, 64, 256, 1024])
@pytest.mark.parametrize("context", [128, 4096])
def test_a_step_is_bound_by_what_binds_most_of_its_kernels_floors(batch: int, context: int) -> None:
    found = estimate_decode(find_model("llama-3-8b"), find_hardware("H100-SXM5"), batch=batch, context=context)
    computing = sum(one.floor_s for one in found.kernels if one.bound == "compute")
    assert found.step.bound == ("compute" if computing > found.step.floor_s / 2 else "memory")
    if found.step_compute_bound_batch is not None:
        assert (batch >= found.step_compute_bound_batch) == (found.step.bound == "compute")
