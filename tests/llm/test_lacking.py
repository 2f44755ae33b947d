"""What estimates of several devices and of batches lack: arithmetic on the shipped rows, and on a users own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.llm.decode import estimate_decode
from boundby.llm.formats import weight_format
from boundby.llm.hardware import find_hardware
from boundby.llm.kernels import Work, step_kernels
from boundby.llm.lacking import LEAST_ERROR, lacks
from boundby.llm.models import find_model, model_names
from boundby.llm.rows import Row, shipped_rows
from boundby.llm.validate import Compared, compare_rows, used_rows
from boundby.report.validate_page import lack_text, render_validation

B200 = find_hardware("B200 (HGX)")


@pytest.fixture(scope="module")
def compared() -> list[Compared]:
    return compare_rows(shipped_rows(), used_rows())[0]


def test_the_worst_groups_come_worst_first_and_each_has_a_reason(compared: list[Compared]) -> None:
    found = lacks(compared)
    errors = [abs(one.worst.error) for one in found]
    assert errors == sorted(errors, reverse=True)
    assert min(errors) >= LEAST_ERROR
    assert all(one.reasons for one in found)
    assert all(row.kind != "one device, batch 1" and not row.used for one in found for row in one.rows)
    every = [one for one in compared if one.kind != "one device, batch 1"]
    assert found[0].worst == max(every, key=lambda one: abs(one.error))


def test_what_is_told_is_arithmetic_on_the_parts(compared: list[Compared]) -> None:
    found = {lack.worst.model: " ".join(lack.reasons) for lack in reversed(lacks(compared, most=20))}
    assert "One setting is published with 3 times" in found["deepseek-v3"]
    assert "a sparse layer are missing" in found["deepseek-v3"]
    row = next(one for one in compared if one.row.id == "292")
    needed = (row.row.step_s - row.expected_s.value + row.all_reduce_s) / row.all_reduces
    assert f"each would take {needed * 1e6:.2g} µs at batch 1" in found["llama-3.1-70b"]


def test_a_model_that_meets_all_lacks_nothing(compared: list[Compared]) -> None:
    assert lacks([replace(one, error=0.1) for one in compared]) == ()
    assert lacks([one for one in compared if one.kind == "one device, batch 1"]) == ()


def test_the_page_tells_them_after_the_farthest(compared: list[Compared]) -> None:
    text = render_validation(compared, [], each=False, width=100, color=False, unicode=True)
    assert text.index("Farthest off") < text.index("What the model lacks")
    assert "deepseek-v3 nvfp4 experts, 8 x B200 (HGX)" in lack_text(lacks(compared)[0])


def test_units_are_in_ascii_only_where_the_terminal_is(compared: list[Compared]) -> None:
    shown, plain = (
        render_validation(compared, [], each=False, width=100, color=False, unicode=unicode)
        for unicode in (True, False)
    )
    assert re.search(r"\d\s+µs", shown)
    assert not re.search(r"\d\s+us\b", shown)
    assert re.search(r"\d\s+us\b", plain)
    assert plain.isascii()
    assert re.search(r"gives\s+21\.32\s+tok/s\.", shown)


def test_a_users_own_rows_are_explained_too() -> None:
    row = Row(
        id="mine",
        model="llama-3.1-8b",
        hardware="MI300X",
        devices=4,
        weights="bf16",
        engine="vLLM",
        batch=8,
        context=512,
        step_s=0.1,
    )
    (found,) = lacks(compare_rows([row], frozenset())[0])
    assert "Were all-reduces alone to blame" in found.reasons[0]


@pytest.mark.parametrize(("name", "copies"), [("deepseek-v3", 8.0), ("llama-3.1-70b", 1.0), ("qwen2.5-0.5b", 4.0)])
def test_keys_and_values_that_several_devices_need_are_kept_by_each(name: str, copies: float) -> None:
    model = find_model(name)
    assert model.cache_bytes(1000, devices=8) == pytest.approx(copies * model.cache_bytes(1000))
    one = estimate_decode(model, B200, context=1000, devices=8).step
    assert one.cache_bytes == pytest.approx(copies * model.cache_bytes(1000) / 8)


@given(
    st.sampled_from(model_names()),
    st.sampled_from([0.5, 1, 2, 3, 4, 8, 16, 64]),
    st.integers(1, 64),
    st.integers(1, 9999),
)
def test_a_device_reads_no_less_than_its_part_and_no_more_than_all(
    name: str, devices: float, batch: int, context: int
) -> None:
    model = find_model(name)
    work = Work(batch=batch, context=context, weights=weight_format("bf16"), cache_element_bytes=2)
    whole = sum(one.bytes_read for one in step_kernels(model, B200, work, partition="fused"))
    mine = sum(one.bytes_read for one in step_kernels(model, B200, work, partition="fused", devices=devices))
    assert whole / devices * (1 - 1e-9) <= mine <= whole * max(1, 1 / devices) * (1 + 1e-9)
