"""Costs read from the texts of generated kernels, by arithmetic."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.capture.compiled.indices import UnreadableError, evaluate, reached, read_expression
from boundby.capture.compiled.kernels import ArrayFact, read_kernel
from boundby.capture.compiled.launches import listening, read_kernels

LARGE = ArrayFact(1_000_000, 4)


def kernel(parameters: str, body: str) -> str:
    return f'#include "prefix.h"\nextern "C"  void  kernel({parameters})\n{{\n{body}\n}}\n'


def loop(name: str, size: object, body: str, step: int = 1) -> str:
    head = f"for(int64_t {name}=static_cast<int64_t>(0L); {name}<static_cast<int64_t>({size}); "
    return f"{head}{name}+=static_cast<int64_t>({step}L))\n{{\n{body}\n}}\n"


IN_OUT = "const float* in_ptr0, float* out_ptr0"


def test_each_element_is_read_once_and_written_once():
    body = loop(
        "x0",
        "50L",
        "auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
        "auto tmp1 = in_ptr0[static_cast<int64_t>(x0)];\n"
        "auto tmp2 = float(tmp0 * tmp1);\n"
        "auto tmp3 = std::exp(tmp2);\n"
        "out_ptr0[static_cast<int64_t>(x0)] = tmp3;",
    )
    cost = read_kernel(kernel(IN_OUT, body)).cost([LARGE, LARGE])
    assert (cost.bytes_read, cost.bytes_written, cost.pointwise_flops) == (200, 200, 100)


def test_vectors_and_what_they_leave_over_are_one_loop():
    body = loop(
        "x0",
        "50L",
        "if(C10_LIKELY(x0 >= static_cast<int64_t>(0) && x0 < static_cast<int64_t>(48L)))\n{\n"
        "auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));\n"
        "auto tmp1 = tmp0.sin();\n"
        "tmp1.store(out_ptr0 + static_cast<int64_t>(x0));\n}\n"
        "if(C10_UNLIKELY(x0 >= static_cast<int64_t>(48L) && x0 < static_cast<int64_t>(50L)))\n{\n"
        "for (int64_t x0_tail = static_cast<int64_t>(48L);x0_tail < static_cast<int64_t>(50L); x0_tail++)\n{\n"
        "auto tmp0 = in_ptr0[static_cast<int64_t>(x0_tail)];\n"
        "auto tmp1 = std::sin(tmp0);\n"
        "out_ptr0[static_cast<int64_t>(x0_tail)] = tmp1;\n}\n}",
        step=16,
    )
    cost = read_kernel(kernel(IN_OUT, body)).cost([LARGE, LARGE])
    assert (cost.bytes_read, cost.bytes_written, cost.pointwise_flops) == (200, 200, 50)


def test_a_part_of_an_array_counts_as_that_part():
    body = loop(
        "x0",
        "64L",
        loop(
            "x1",
            "10L",
            "auto tmp0 = in_ptr0[static_cast<int64_t>(10L + x1 + 64L*x0)];\n"
            "out_ptr0[static_cast<int64_t>(x1 + 10L*x0)] = tmp0;",
        ),
    )
    cost = read_kernel(kernel(IN_OUT, body)).cost([LARGE, LARGE])
    assert (cost.bytes_read, cost.bytes_written, cost.pointwise_flops) == (4 * 640, 4 * 640, 0)


def test_a_table_is_read_by_rows_and_never_beyond_its_size():
    text = kernel(
        "const int64_t* in_ptr0, const float* in_ptr1, float* out_ptr0",
        loop(
            "x0",
            "50L",
            loop(
                "x1",
                "8L",
                "auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                "auto tmp1 = in_ptr1[static_cast<int64_t>(x1 + 8L*tmp0)];\n"
                "out_ptr0[static_cast<int64_t>(x1 + 8L*x0)] = tmp1;",
            ),
        ),
    )
    ids = ArrayFact(50, 8)
    read = read_kernel(text)
    assert read.cost([ids, LARGE, LARGE]).bytes_read == 8 * 50 + 4 * 8 * 50
    assert read.cost([ids, ArrayFact(8 * 3, 4), LARGE]).bytes_read == 8 * 50 + 4 * 8 * 3


def test_what_a_kernel_wrote_it_need_not_fetch():
    body = loop("x0", "10L", "out_ptr0[static_cast<int64_t>(x0)] = tmp0;") + loop(
        "x0", "10L", "auto tmp0 = out_ptr0[static_cast<int64_t>(x0)];\nin_out_ptr0[static_cast<int64_t>(x0)] = tmp0;"
    )
    read = read_kernel(kernel("float* in_out_ptr0, float* out_ptr0", body))
    assert read.cost([LARGE, LARGE]).bytes_read == 0
    assert read.cost([LARGE, LARGE]).bytes_written == 80


def test_an_array_changed_in_place_is_read_and_written():
    body = loop(
        "x0", "10L", "auto tmp0 = in_out_ptr0[static_cast<int64_t>(x0)];\nin_out_ptr0[static_cast<int64_t>(x0)] = tmp0;"
    )
    cost = read_kernel(kernel("float* in_out_ptr0", body)).cost([LARGE])
    assert (cost.bytes_read, cost.bytes_written) == (40, 40)


def test_the_same_memory_under_two_names_is_known_as_such():
    body = loop("x0", "10L", "out_ptr0[static_cast<int64_t>(x0)] = tmp0;") + loop(
        "x0", "10L", "auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\nout_ptr1[static_cast<int64_t>(x0)] = tmp0;"
    )
    read = read_kernel(kernel("const float* in_ptr0, float* out_ptr0, float* out_ptr1", body))
    mine, other = ArrayFact(10, 4, storage=1), ArrayFact(10, 4, storage=2)
    assert read.cost([mine, mine, other]).bytes_read == 0
    assert read.cost([other, mine, mine]).bytes_read == 40


def test_scattered_additions_touch_the_whole_target():
    body = loop("x0", "10L", "atomic_add_vec<float, 2, 1>(out_ptr0, tmp12, tmp9);")
    cost = read_kernel(kernel("float* out_ptr0", body)).cost([ArrayFact(100, 4)])
    assert (cost.bytes_read, cost.bytes_written) == (400, 400)


def test_sizes_given_as_arguments():
    body = loop(
        "x0", "ks0", "auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\nout_ptr0[static_cast<int64_t>(x0)] = tmp0;"
    )
    read = read_kernel(kernel(IN_OUT + ", const int64_t ks0", body))
    assert [read.cost([LARGE, LARGE, size]).bytes_read for size in (7, 11)] == [28, 44]


def test_a_template_is_not_read():
    with pytest.raises(UnreadableError):
        read_kernel(kernel("const float* X, const float* W, float* Y", ""))
    with pytest.raises(UnreadableError):
        read_kernels("triton_poi_0 = async_compile.triton('triton_poi_0', '''\n''', device_str='cuda')\n")


def test_an_index_in_an_unknown_variable_is_not_guessed_at():
    body = loop("x0", "10L", "auto tmp0 = in_ptr0[static_cast<int64_t>(x0 + begin)];")
    with pytest.raises(UnreadableError):
        read_kernel(kernel(IN_OUT, body)).cost([LARGE, LARGE])


def test_other_arguments_than_the_kernel_has():
    with pytest.raises(UnreadableError):
        read_kernel(kernel(IN_OUT, "")).cost([LARGE])


def test_calls_are_noted_and_names_put_back():
    calls_made = []

    def plain(*args):
        calls_made.append(args)
        return "done"

    names = {"cpp_fused_0": plain, "other": None}
    text = read_kernel(kernel("const int64_t ks0", ""))
    with listening(names, {"cpp_fused_0": text}) as calls:
        assert names["cpp_fused_0"](3) == "done"
    assert names["cpp_fused_0"] is plain
    assert calls == [("cpp_fused_0", [3])]
    assert calls_made == [(3,)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x0 + 64L*x1", 3 + 64 * 5),
        ("static_cast<int64_t>(x0) % static_cast<int64_t>(2L)", 1),
        ("c10::div_floor_integer(static_cast<int64_t>(x1), static_cast<int64_t>(2L))", 2),
        ("(-1L) + std::min(x0, x1)", 2),
        ("16L*x0_inner + x0_tail", 3),
    ],
)
def test_expressions(text, value):
    assert evaluate(read_expression(text), {"x0": 3, "x1": 5}) == value


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=3),
    st.integers(0, 9),
    st.sampled_from(["", " % 7", " * 2"]),
)
def test_elements_reached_are_those_that_looping_reaches(loops, offset, rest):
    names = [f"x{at}" for at in range(len(loops))]
    text = f"({' + '.join(f'{step}*{name}' for name, (step, _) in zip(names, loops, strict=True))} + {offset}){rest}"
    ranges = {name: range(size) for name, (_, size) in zip(names, loops, strict=True)}
    points = [{}]
    for name, one in ranges.items():
        points = [{**point, name: at} for point in points for at in one]
    expected = {eval(compile(ast.parse(text, mode="eval"), "", "eval"), {}, point) for point in points}
    assert reached([(read_expression(text), ranges)], {}, 10**6) == len(expected)
