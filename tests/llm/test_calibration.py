"""Calibration: the split, the fit, the intervals, and errors on rows that it never saw."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from boundby.llm import fit as fitting
from boundby.llm.calibration import (
    PARAMETERS,
    Cell,
    Features,
    cell_of,
    coefficients,
    expected_step,
    shipped_factors,
)
from boundby.llm.engines import recognise_engine
from boundby.llm.features import observe, placed
from boundby.llm.hardware import find_hardware
from boundby.llm.rows import Row, is_held_out, read_rows, shipped_rows
from boundby.llm.spread import key_of, shipped_spread, spread_of, width
from boundby.llm.validate import compare_rows, encode_comparison, summarise, used_rows
from boundby.results.errors import BoundbyError
from boundby.results.language import choose_language

HEADER = "id,phase,model,model_key,hardware,n_dev,weight_fmt,engine,batch,mean_ctx,ms_per_step,source,note\n"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """A fit's matrices are small: threads that wait for each other where other tests run take ten times as long."""
    import_module("scipy.linalg")  # the limit holds for libraries that are there
    with threadpool_limits(1):
        yield


def test_no_held_out_row_was_used() -> None:
    assert used_rows()
    assert not [identity for identity in used_rows() if is_held_out(identity)]


def test_about_a_third_is_held_out_by_the_ids_alone() -> None:
    rows = shipped_rows()
    assert 0.2 < sum(row.held_out for row in rows) / len(rows) < 0.45
    assert [row.held_out for row in rows] == [replace(row, step_s=1.0, engine="x").held_out for row in rows]


def test_errors_on_rows_that_were_held_out() -> None:
    everything, _ = compare_rows(shipped_rows(), used_rows())
    unseen = [one for one in everything if one.row.held_out and one.row.single]
    assert len(unseen) >= 35
    found = summarise("unseen", unseen)
    assert found.mean <= 0.12
    assert found.median <= 0.08
    assert found.inside >= 0.9
    assert found.half_width <= 0.2
    assert found.mean < 0.6 * min(found.roofline_mean, found.share_mean, found.fixed_mean)


@pytest.mark.parametrize(("slow", "fast"), [("215", "216"), ("257", "256")])
def test_pairs_that_differ_in_graphs_or_host_have_the_measured_ratio(slow: str, fast: str) -> None:
    by_id = {one.row.id: one for one in compare_rows(shipped_rows(), used_rows())[0]}
    measured = by_id[slow].row.step_s / by_id[fast].row.step_s
    expected = by_id[slow].expected_s.value / by_id[fast].expected_s.value
    assert expected == pytest.approx(measured, rel=0.15)


def test_rows_that_cannot_be_compared_say_why() -> None:
    _, skipped = compare_rows(shipped_rows(), used_rows())
    reasons = {one.row.id: one.reason for one in skipped}
    assert "several tokens a step" in reasons["206"]
    assert "no shipped hardware" in reasons["239"]


def made_up(number: int, share: float, gap_s: float) -> fitting.Observation:
    """A step that an engine of known numbers would take, on a device and a model that vary with ``number``."""
    features = Features(
        weight_bytes=1e9 * (1 + number % 7),
        cache_bytes=0.0,
        unpacked_weights=0.0,
        launches=100 * (1 + number % 5),
        bytes_per_s=1e12,
        fp32_flops_per_s=5e13,
        graphs=True,
    )
    seconds = features.weight_bytes / (features.bytes_per_s * share) + features.launches * gap_s + 0.15e-3
    return fitting.Observation(
        id=str(number), cell=Cell(engine="e", family="e", kind="nvidia-hbm"), features=features, step_s=seconds
    )


def test_a_fit_finds_the_numbers_behind_made_up_rows() -> None:
    rows = [made_up(number, 0.7, 4e-6) for number in range(35)]
    found = coefficients(rows[0].cell, fitting.fit(rows))
    assert found.bandwidth_share == pytest.approx(0.7, rel=0.03)
    assert found.gap_s == pytest.approx(4e-6, rel=0.15)


def test_one_absurd_row_moves_a_fit_little() -> None:
    rows = [made_up(number, 0.7, 4e-6) for number in range(35)]
    rows[3] = replace(rows[3], step_s=rows[3].step_s * 20)
    assert coefficients(rows[0].cell, fitting.fit(rows)).bandwidth_share == pytest.approx(0.7, rel=0.05)


def test_the_quick_form_of_the_step_is_the_formula() -> None:
    import numpy as np

    rows = [observe(row) for row in shipped_rows() if row.id in used_rows()]
    values = np.array(
        [
            [getattr(coefficients(one.cell), name) for one in rows]
            for name in ("bandwidth_share", "attend", "unpack_flops", "gap_s", "issue_s", "host_s")
        ]
    )
    quick = fitting._step(np, fitting._columns(np, rows), values)
    slow = [expected_step(one.features, coefficients(one.cell)).step_s for one in rows]
    assert list(quick) == pytest.approx(slow)
    assert len(PARAMETERS) == len(values)


def test_parts_of_an_expected_step_add_up() -> None:
    for row in shipped_rows():
        if row.id in used_rows():
            one = observe(row)
            found = expected_step(one.features, coefficients(one.cell))
            parts = (
                found.weights_s + found.products_s + found.cache_s + found.unpack_s + found.launches_s + found.host_s
            )
            assert parts == pytest.approx(found.step_s)


def test_what_was_never_seen_has_wider_intervals() -> None:
    spread, kind = shipped_spread(), "nvidia-hbm"
    seen = width(spread, Cell(engine="torch-compile", family="torch-compile", kind=kind), known_engine=True)
    elsewhere = width(spread, Cell(engine="torch-compile", family="torch-compile", kind="apple"), known_engine=True)
    new = width(spread, Cell(engine="zippy", family="zippy", kind=kind), known_engine=False)
    assert seen > 0
    assert elsewhere > 0
    assert new > seen
    assert shipped_factors()


@given(st.lists(st.floats(-0.5, 0.5), min_size=30, max_size=80))
def test_intervals_hold_the_share_they_promise(errors: list[float]) -> None:
    cell = Cell(engine="e", family="e", kind="k")
    spread = spread_of([(cell, error) for error in errors], errors, errors)
    half = width(spread, cell, known_engine=True)
    # The file keeps four decimals of the scale and of the factor, whose product the width is.
    rounding = 0.5e-4 * (spread.factor + spread.scales[key_of(cell)]) + 1e-8
    assert sum(abs(error) <= half + rounding for error in errors) >= math.floor(0.9 * len(errors))


@pytest.mark.parametrize(
    ("published", "name", "graphs"),
    [
        ("llama.cpp May 2024", "llama.cpp-2024", False),
        ("llama.cpp Dec 2023", "llama.cpp-2023", False),
        ("llama.cpp no graphs", "llama.cpp-2023", False),
        ("llama.cpp CUDA graphs", "llama.cpp-graphs", True),
        ("Ollama / llama.cpp", "llama.cpp", True),
        ("vLLM 0.10 ROCm", "vllm", True),
        ("vLLM eager", "vllm-eager", False),
        ("gpt-fast compile", "torch-compile", True),
        ("HF/TinyChat fp16", "huggingface", False),
        ("NIM (TRT-LLM/vLLM)", "tensorrt-llm", True),
        ("Hazy megakernel", "megakernel", True),
        ("Zippy with CUDA graphs", "Zippy with CUDA graphs", True),
        ("Zippy eager", "Zippy eager", False),
        ("Minimal 2", "Minimal 2", False),
        ("SGLang without CUDA graphs", "vllm-eager", False),
        ("TensorRT-LLM, graphs off", "tensorrt-llm", False),
    ],
)
def test_published_names_of_engines_are_recognised(published: str, name: str, graphs: bool) -> None:
    found = recognise_engine(published)
    assert (found.name, found.graphs) == (name, graphs)


def test_a_chip_used_by_its_processor_is_one() -> None:
    chip = find_hardware("Apple M2 Pro")
    assert placed(chip, "llama.cpp CPU").kind == "cpu"
    assert cell_of(recognise_engine("llama.cpp"), placed(chip, "llama.cpp Metal")).kind == "apple"


def test_a_users_rows_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(HEADER + "a,decode,Llama-3.1-8B,,RTX 4090,1,q4_k_m,Zippy 3,1,512,8.1,me,\n")
    rows = read_rows(path)
    (one,), skipped = compare_rows(rows, frozenset())
    assert not skipped
    assert one.row.step_s == pytest.approx(8.1e-3)
    assert not one.engine_known
    assert b'"boundby.validation"' in encode_comparison([one], skipped)


def test_a_row_may_give_a_rate_and_lengths(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "model,hardware,weight_fmt,engine,value,unit,prompt_len,gen_len\n"
        "qwen3-8b,RTX 5090,fp8,vLLM,100,tok/s,500,200\nqwen3-8b,RTX 5090,fp8,vLLM,8,ms/tok,,\n"
    )
    first, second = read_rows(path)
    assert (first.step_s, first.context) == (0.01, 600)
    assert second.step_s == 0.008


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        ("150", "furlong", "unit is 'furlong'; expected one of tok/s, ms/tok"),
        ("150", "", "unit is ''; expected one of tok/s, ms/tok"),
        ("", "", "ms_per_step is ''"),
        ("", "tok/s", "value is ''"),
    ],
)
def test_a_value_without_a_known_unit_names_the_unit(tmp_path: Path, value: str, unit: str, told: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"model,hardware,weight_fmt,engine,value,unit\nqwen3-8b,RTX 5090,fp8,vLLM,{value},{unit}\n")
    with pytest.raises(BoundbyError) as raised:
        read_rows(path)
    assert raised.value.code == "damaged-rows"
    assert told in raised.value.message


def test_a_message_about_a_row_ends_as_its_language_does(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(HEADER + "a,decode,x,,y,1,bf16,vLLM,1,64,-3,,\n")
    ends = {}
    try:
        for language in ("en", "zh"):
            choose_language(language)
            with pytest.raises(BoundbyError) as raised:
                read_rows(path)
            ends[language] = raised.value.message[-1]
    finally:
        choose_language("en")
    assert ends == {"en": ".", "zh": "。"}


def test_a_row_may_bring_its_own_hardware_and_host(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    head = "model,hardware,bandwidth_gb_per_s,hardware_kind,host_speed,weight_fmt,engine,ms_per_step"
    path.write_text(
        f"{head}\nqwen3-8b,Novel 1,2000,nvidia-hbm,,bf16,vLLM,9\nqwen3-8b,Novel 1,2000,nvidia-hbm,0.2,bf16,vLLM,9\n"
    )
    (fast, slow), _ = compare_rows(read_rows(path), frozenset())
    assert fast.floor_s == pytest.approx(7_568_405_504 * 2 / 2e12, rel=0.01)
    assert slow.expected_s > fast.expected_s


def test_the_shipped_numbers_are_those_of_the_shipped_rows() -> None:
    again = fitting.fit([observe(row) for row in shipped_rows() if row.id in used_rows()])
    cells = {observe(row).cell for row in shipped_rows() if row.id in used_rows()}
    for cell in cells:
        now, shipped = coefficients(cell, again), coefficients(cell)
        assert now.bandwidth_share == pytest.approx(shipped.bandwidth_share, rel=0.02)
        assert now.gap_s == pytest.approx(shipped.gap_s, rel=0.05)


def test_what_a_row_may_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("model,hardware,weight_fmt,engine,ms_per_step\nqwen3-8b,RTX 5090,fp8,vLLM,7\n")
    (row,) = read_rows(path)
    assert isinstance(row, Row)
    assert (row.batch, row.devices, row.id) == (1, 1, "2")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        HEADER + "a,decode,x,,y,1,bf16,vLLM,1,64,fast,,\n",
        HEADER + "a,decode,x,,y,1,bf16,vLLM,1,64,-3,,\n",
        HEADER + "a,decode,x,,y,1,bf16,vLLM,-1,64,3,,\n",
        HEADER + "a,decode,x,,y,1,bf16,vLLM,1,nan,3,,\n",
    ],
)
def test_a_damaged_file_of_rows_is_one_clear_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(BoundbyError) as raised:
        read_rows(path)
    assert raised.value.code == "damaged-rows"
    assert "\n" not in raised.value.message
