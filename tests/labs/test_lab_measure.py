"""Lab `measure`: exact counts and passes, lines that are the same on every run, sentences that fit the times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

import boundby
from boundby.labs import measure_bandwidth, measure_fusion, measure_matmul, measure_step, measure_width
from boundby.labs.base_model import GPTConfig, count_parameters
from boundby.labs.lab import Settings, lab_named, run_demonstrations
from boundby.labs.measure_bandwidth import Multiply
from boundby.labs.measure_fusion import Found
from boundby.labs.measure_matmul import Product
from boundby.labs.measure_pairs import Pair
from boundby.labs.measure_step import Step
from boundby.labs.measure_width import Width
from boundby.labs.rows import noise_notes
from boundby.labs.training_step import TrainingStep
from boundby.report.chart import Chart
from boundby.report.demonstration import Demonstration, LabTable, Line
from boundby.report.lab_text import Paper, render_demonstration
from boundby.results.call_time import CallTime
from boundby.results.language import choose_language
from boundby.timing.rounds import time_rounds

PAPER = Paper(width=80, color=False, unicode=True)
QUICK = Settings(quick=True)


def seconds(fastest_s: float) -> CallTime:
    return CallTime(fastest_s=fastest_s, median_s=1.1 * fastest_s, slowest_s=1.3 * fastest_s, loops=1)


def texts(lines: object) -> str:
    return " ".join(one.text if isinstance(one, Line) else one for one in lines)


@pytest.fixture
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same demonstrations at sizes, and with rounds, that take little time."""
    monkeypatch.setattr(measure_matmul, "SIZES", (8, 16, 64))
    monkeypatch.setattr(measure_matmul, "PEAK_SIZES", (64,))
    monkeypatch.setattr(measure_bandwidth, "QUICK_POWERS", (10, 12, 24))
    monkeypatch.setattr(measure_fusion, "QUICK_ELEMENTS", 2**12)
    monkeypatch.setattr(measure_fusion, "QUICK_SCORES", (64, 96))
    monkeypatch.setattr(measure_step, "QUICK_BATCHES", (1, 2, 8, 16))
    monkeypatch.setattr(measure_width, "QUICK_WIDTHS", (32, 64))
    monkeypatch.setattr(measure_width, "BATCH", 2)

    def time_calls(*calls: Callable[[], object], **options: object) -> tuple[CallTime, ...]:
        return time_rounds(calls, rounds=2, round_s=1e-4)

    monkeypatch.setattr(boundby, "time_calls", time_calls)


@pytest.fixture
def english() -> Iterator[None]:
    yield
    choose_language("en")


def run_lab(*numbers: int) -> list[Demonstration]:
    return list(run_demonstrations(lab_named("measure"), QUICK, numbers))


def printed(demonstrations: list[Demonstration]) -> str:
    return "".join(render_demonstration(one, PAPER) for one in demonstrations)


def unmarked(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("⏱ ")]


# The whole lab


@pytest.mark.usefixtures("small_sizes", "english")
def test_all_but_the_timings_is_the_same_with_one_thread_and_two_and_in_both_languages() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        first = run_lab()
        torch.set_num_threads(2)
        second = run_lab()
        assert unmarked(printed(first)) == unmarked(printed(second))
        assert [one.number for one in first] == [1, 2, 3, 4, 5]
        choose_language("zh")
        chinese = printed(run_lab(1, 3))
        choose_language("en")
    finally:
        torch.set_num_threads(before)
    assert len(unmarked(chinese)) > 20
    assert "⏱ - " in chinese
    assert "What to observe" not in chinese
    assert printed(first).count("What to observe") == 5
    for one in first:
        blocks = one.shown.blocks
        assert [block for block in blocks if isinstance(block, LabTable)]
        assert [block for block in blocks if isinstance(block, Chart)]
        assert one.shown.data["rows"]
        assert [line for line in one.shown.observations if line.timed]


@pytest.mark.usefixtures("small_sizes")
def test_the_ridge_point_is_the_peak_found_before_over_the_bandwidth() -> None:
    earlier = {"matmul": {"peak_flops_per_s": 123e9}}
    shown = measure_bandwidth.show(Settings(quick=True, earlier=earlier))
    assert shown.data["peak_flops_per_s"] == 123e9
    assert shown.data["ridge_flop_per_byte"] == pytest.approx(123e9 / shown.data["bytes_per_s"])


# 1 and 2: products and multiplies


def test_a_product_is_2n3_flop_and_n_over_6_flop_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in measure_matmul.time_products(QUICK, (8, 16, 32)):
        assert one.flops == 2 * one.n**3
        assert one.intensity == pytest.approx(one.n / 6)


def test_the_sizes_are_those_of_the_lecture() -> None:
    assert list(measure_matmul.SIZES) == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert list(measure_bandwidth.POWERS) == list(range(10, 27))
    assert list(measure_step.BATCHES) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert list(measure_width.WIDTHS) == [32, 64, 128, 256, 512, 1024]
    assert (measure_fusion.ELEMENTS, *measure_fusion.SCORES) == (2**24, 32 * 4 * 96, 96)


def test_a_multiply_moves_8_bytes_an_element_and_no_value_runs_away() -> None:
    (one,) = measure_bandwidth.time_multiplies(QUICK, (10,))
    assert (one.moved_bytes, one.flops, one.intensity) == (8 * 1024, 1024, 0.125)
    x = torch.full((4,), 1.5)
    for _ in range(10_000):
        x.mul_(measure_bandwidth.FACTOR)
    assert x.abs().tolist() == [1.5] * 4


def product(n: int, time_s: float) -> Product:
    return Product(n=n, flops=2 * n**3, moved_bytes=12 * n**2, time=seconds(time_s))


def told_of_products(times_s: dict[int, float]) -> str:
    products = [product(n, time_s) for n, time_s in times_s.items()]
    return texts(measure_matmul._observations(products, max(products, key=lambda one: one.flops_per_s)))


def test_flat_times_are_told_as_the_cost_of_a_call() -> None:
    told = told_of_products({8: 1e-6, 16: 1.1e-6, 32: 1.9e-6, 512: 2.7e-3, 1024: 21.5e-3})
    assert "From n = 8 to n = 32 the work grows 64-fold and the time 1.9-fold" in told
    assert "this is the ceiling" in told


def test_a_machine_without_cost_of_a_call_is_not_told_to_have_one() -> None:
    told = told_of_products({8: 1e-6, 16: 8e-6, 32: 64e-6, 64: 512e-6})
    assert "cost of a call is small" in told
    assert "binds there" not in told


def test_a_rate_that_still_rises_and_one_that_falls_back_are_told_apart() -> None:
    assert "still rises by 100%" in told_of_products({8: 1e-6, 64: 10e-6, 128: 40e-6})
    assert "falls back to 50%" in told_of_products({8: 1e-6, 512: 1e-3, 1024: 16e-3})
    assert "the largest, it is 90%" in told_of_products({8: 1e-6, 256: 1e-3, 512: 13e-3, 1024: 8e-3 * 8 / 0.9})


def multiply(power: int, bytes_per_s: float) -> Multiply:
    moved = 8 * 2**power
    return Multiply(
        power=power,
        size_bytes=moved // 2,
        moved_bytes=moved,
        flops=2**power,
        time=seconds(max(1e-6, moved / bytes_per_s)),
    )


def told_of_multiplies(found: list[Multiply]) -> str:
    bandwidth = measure_bandwidth.memory_bandwidth(found)
    levels = measure_bandwidth.cache_levels(found)
    return texts(measure_bandwidth._observations(found, bandwidth, levels, ridge=2.5))


def test_the_bandwidth_is_that_of_large_arrays_and_caches_are_told_beside_it() -> None:
    found = [multiply(power, 160e9 if power < 21 else 40e9) for power in range(10, 27)]
    assert measure_bandwidth.memory_bandwidth(found) == pytest.approx(40e9)
    told = told_of_multiplies(found)
    assert "Up to 2^15 elements, 32 times those of the first row, the time grows 1.6-fold (1.0 µs to 1.6 µs)" in told
    assert "hardly moves" not in told
    assert "4.0 times the 40.0 GB/s from memory" in told
    assert "Flat stretches of the curve end at 4 MiB (160 GB/s)" in told
    assert "The ridge point is 20 times the FLOP/byte of a multiply" in told
    assert "n = 15" in told


def test_only_a_time_that_stays_hardly_moves() -> None:
    found = [multiply(power, 220e9 if power < 16 else 40e9) for power in range(10, 27)]
    assert "Up to 2^15 elements the time hardly moves (1.0 µs to 1.2 µs)" in told_of_multiplies(found)


def test_a_machine_that_shows_no_cache_is_not_told_to_have_one() -> None:
    told = told_of_multiplies([multiply(power, 40e9) for power in range(10, 27)])
    assert "No cache shows here" in told
    assert "a cache holds" not in told
    assert "Flat stretches" not in told


def test_a_rate_that_falls_beyond_64_mib_makes_the_bandwidth_doubtful() -> None:
    found = [multiply(power, {24: 100e9, 25: 60e9, 26: 40e9}.get(power, 100e9)) for power in range(10, 27)]
    assert "memory itself is slower" in told_of_multiplies(found)


# 3: passes over memory

PAIRS = {
    "a*b + c": lambda: measure_fusion.multiply_add(4096),
    "softmax": lambda: measure_fusion.softmax((64, 96)),
    "tanh-GELU": lambda: measure_fusion.gelu(4096),
    "cos(cos(x))": lambda: measure_fusion.cosines(4096),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_passes_that_boundby_counts_are_those_by_hand(name: str) -> None:
    found = measure_fusion.find(PAIRS[name](), QUICK)
    assert found.pair.name == name
    # A row's maximum and sum, written once and read once each, are 4 numbers for each 96.
    small = 4 / 96 if name == "softmax" else 0.0
    assert found.passes == pytest.approx(sum(found.pair.by_hand) + small)
    assert found.fused_passes == found.pair.fused_by_hand


def test_both_ways_give_the_same_where_they_are_the_same_function() -> None:
    differences = {name: measure_fusion.find(make(), QUICK).difference for name, make in PAIRS.items()}
    assert differences.pop("cos(cos(x))") is None
    assert all(difference is not None and difference < 1e-5 for difference in differences.values())


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: measure_fusion.softmax((8, 96)), lambda x: torch.softmax(x, 1)),
        (lambda: measure_fusion.gelu(512), lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        (lambda: measure_fusion.cosines(512), lambda x: x.cos().cos()),
    ],
)
def test_the_several_ops_are_the_function_they_are_called_by(make, expected) -> None:
    pair = make()
    given = [cell.cell_contents for cell in pair.unfused.__closure__]
    pair.unfused()
    result = pair.results[0]
    (x,) = (one for one in given if one.shape == result.shape and one is not result)
    assert torch.allclose(result, expected(x), atol=1e-6)


def found_of(name: str, passes: tuple[float, float], times_s: tuple[float, float]) -> Found:
    pair = Pair(
        name=name,
        unfused=lambda: None,
        fused=lambda: None,
        by_hand=(int(passes[0]),),
        fused_by_hand=int(passes[1]),
        results=(torch.zeros(2**20), torch.zeros(2**20)),
    )
    return Found(
        pair=pair,
        passes=passes[0],
        fused_passes=passes[1],
        time=seconds(times_s[0]),
        fused_time=seconds(times_s[1]),
        difference=0.0,
    )


def test_memory_and_the_function_are_told_to_bind_by_the_bytes_a_second() -> None:
    told = texts(
        measure_fusion._observations(
            [
                found_of("a*b + c", (6, 4), (600e-6, 400e-6)),
                found_of("tanh-GELU", (16, 2), (4e-3, 2e-3)),
                found_of("cos(cos(x))", (4, 2), (4e-3, 2e-3)),
            ]
        )
    )
    assert "a*b + c: 1.5 times fewer passes, 1.5 times as fast: memory binds" in told
    assert "tanh-GELU: 8.0 times fewer passes, 2.0 times as fast. As one op it moves 4.19 GB/s" in told
    assert "its arithmetic binds" in told
    assert "cos(cos(x)) takes 2.0 times as long as cos(x)" in told
    assert "the cosine binds, not memory" in told


def test_where_memory_binds_all_of_them_no_function_is_told_to_bind() -> None:
    told = texts(
        measure_fusion._observations(
            [
                found_of("a*b + c", (6, 4), (600e-6, 400e-6)),
                found_of("tanh-GELU", (16, 2), (1600e-6, 200e-6)),
                found_of("cos(cos(x))", (4, 2), (400e-6, 200e-6)),
            ]
        )
    )
    assert "arithmetic binds" not in told
    assert "the cosine binds" not in told
    assert "one op for both could take as long as one cosine" in told


def test_a_gain_that_passes_do_not_explain_is_said_to_be_one() -> None:
    told = texts(
        measure_fusion._observations(
            [found_of("a*b + c", (6, 4), (1200e-6, 400e-6)), found_of("cos(cos(x))", (4, 2), (4e-3, 2e-3))]
        )
    )
    assert "the gain is not near the ratio of passes" in told


def test_a_row_says_what_its_one_op_is_where_that_is_another_function() -> None:
    found = [measure_fusion.find(PAIRS[name](), QUICK) for name in ("a*b + c", "cos(cos(x))")]
    for table in (measure_fusion._passes_table(found), measure_fusion._times_table(found)):
        assert [row[0] for row in table.rows] == ["a*b + c", "cos(cos(x))*"]
        assert table.caption.endswith("(*: the one op is cos(x) alone)")
    assert "cos(cos(x)); one op: cos(x): 2.0 times fewer passes" in measure_fusion._chart(found).summary


# 4 and 5: training steps


def test_a_step_is_about_600_ops_and_hardly_more_for_a_larger_batch() -> None:
    counts = {}
    for batch in (1, 2, 16):
        step = TrainingStep(GPTConfig(), batch=batch)
        step()
        counts[batch] = step.count()
    assert 550 < counts[1].ops < 650
    assert counts[2].ops == counts[16].ops
    assert abs(counts[16].ops - counts[1].ops) < 0.03 * counts[1].ops
    assert counts[16].matmul_flops == 16 * counts[1].matmul_flops
    assert counts[1].unmodelled == ()


def test_the_flops_of_a_width_are_the_same_on_paper_and_run() -> None:
    config = GPTConfig(d_model=32)
    flops = []
    for device in ("meta", "cpu"):
        step = TrainingStep(config, batch=2, device=device)
        step()
        flops.append(step.count().matmul_flops)
        assert count_parameters(step.model) == 29_952  # the table once, which is also the head
    assert flops[0] == flops[1]


def step_of(batch: int, time_s: float) -> Step:
    return Step(batch=batch, ops=600, flops=batch * 70_000_000, time=seconds(time_s))


def told_of_steps(*times_s: float) -> str:
    return texts(
        measure_step._observed([step_of(2**power, time_s) for power, time_s in enumerate(times_s)], peak=100e9)
    )


def test_a_time_that_hardly_grows_is_overhead() -> None:
    told = told_of_steps(4e-3, 5e-3, 7e-3, 11e-3, 22e-3, 44e-3)
    assert "grows 1.25-fold, far less: about 75% of a step" in told
    # 75% of 4 ms over 600 ops: what the sentence says to be their cost.
    assert "is the cost of 600 ops, 5.0 µs an op, whatever" in told
    assert "twice the batch takes 2.0 to 2.0 times as long, within 10% of 2: in proportion" in told


def test_a_time_that_grows_with_the_work_is_not_called_overhead() -> None:
    told = told_of_steps(4e-3, 7.9e-3, 16e-3, 32e-3, 64e-3)
    assert "near the work" in told
    assert "bound by overhead" not in told
    assert "(6.7 µs an op with its work)" in told
    told = told_of_steps(4e-3, 6.8e-3, 16e-3, 32e-3, 64e-3)
    assert "about 30% of a step at batch 1 is the cost of 600 ops, 2.0 µs an op" in told


def test_a_ratio_that_turns_do_not_confirm_says_nothing_of_overhead() -> None:
    first, second = step_of(1, 4e-3), step_of(2, 5e-3)
    unsteady = replace(second, time=replace(second.time, rounds_s=(5e-3, 8e-3, 8e-3)))
    told = measure_step._observed_at_batch_1(replace(first, time=replace(first.time, rounds_s=(4e-3,) * 3)), unsteady)
    assert "1.25-fold by the fastest rounds, 2.00-fold turn by turn: too unsteady" in told


def test_a_time_out_of_proportion_is_said_to_be() -> None:
    assert "1.2 to 3.0 times as long; 2 would be in proportion" in told_of_steps(4e-3, 5e-3, 7e-3, 10e-3, 12e-3, 36e-3)


def test_proportion_is_said_only_of_what_is_near_it() -> None:
    first = (4e-3, 5e-3, 7e-3, 10e-3)
    assert "1.7 to 1.9 times as long; 2 would be in proportion" in told_of_steps(*first, 17.2e-3, 32.7e-3)
    assert "1.8 to 2.2 times as long, within 10% of 2" in told_of_steps(*first, 18.1e-3, 39.7e-3)


def width_of(width: int, time_s: float | None, expected_s: float | None = None) -> Width:
    time = None if time_s is None else seconds(time_s)
    return Width(width=width, parameters=25 * width**2, flops=width**2 * 450_000, time=time, expected_s=expected_s)


def told_of_widths(found: list[Width]) -> str:
    timed = [one for one in found if one.time is not None]
    return texts(measure_width._observed(found, timed, peak=100e9))


def test_a_width_that_would_take_seconds_is_left_out_and_said_so() -> None:
    found = [width_of(32, 20e-3), width_of(64, 40e-3), width_of(128, None, 4.4)]
    told = told_of_widths(found)
    assert "Width 128 was left out" in told
    assert "about 4 s" in told
    assert "From width 32 to 64, 4.00 times the parameters" in told
    assert "rises from" in told
    table = measure_width._table(found, 100e9)
    assert table.rows[2][3:] == ("left out", "-", "-", "-")


@pytest.mark.usefixtures("small_sizes")
def test_widths_beyond_the_limit_are_counted_and_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_width, "LONGEST_QUICK_STEP_S", 1e-9)
    monkeypatch.setattr(measure_width, "WIDEST_AT_ONCE", 32)
    found = measure_width._widths(QUICK)
    assert [one.time is None for one in found] == [False, True]
    assert found[1].flops > 2 * found[0].flops
    assert found[1].expected_s is not None


def test_a_share_that_does_not_rise_is_not_told_to() -> None:
    assert "does not rise here" in told_of_widths([width_of(32, 20e-3), width_of(64, 80e-3)])


def test_what_the_rows_of_widths_show_is_told_and_no_more() -> None:
    assert "share of the peak" not in told_of_widths([width_of(32, 20e-3), width_of(64, None, 0.6)])
    shares = {32: 0.093, 64: 0.41, 128: 0.41, 256: 0.23}
    found = [width_of(width, width**2 * 450_000 / (share * 100e9)) for width, share in shares.items()]
    told = told_of_widths(found)
    assert "rises from 9.3% to 41% at width 64, and after it falls to 23%" in told
    assert "the wider" not in told
    unsteady = [width_of(width, width**2 * 450 / share) for width, share in zip(shares, (1, 3, 1, 3), strict=True)]
    assert "goes up and down" in told_of_widths(unsteady)


@pytest.mark.usefixtures("small_sizes")
def test_a_step_that_was_timed_before_is_expected_to_take_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_width, "LONGEST_QUICK_STEP_S", 1e-9)
    rows = [{"batch": 1, "time_s": 1.0}, {"batch": 2, "time_s": 0.262}]
    found = measure_width._widths(replace(QUICK, earlier={"training-step": {"rows": rows}}))
    assert found[1].expected_s == 0.262


def turns(*rounds_s: float) -> CallTime:
    ordered = sorted(rounds_s)
    return CallTime(
        fastest_s=ordered[0], median_s=ordered[len(ordered) // 2], slowest_s=ordered[-1], loops=1, rounds_s=rounds_s
    )


def test_a_cause_is_told_only_where_the_times_fit_it() -> None:
    plain, cosine = found_of("a*b + c", (6, 4), (600e-6, 400e-6)), found_of("cos(cos(x))", (4, 2), (4e-3, 2e-3))
    slower = found_of("softmax", (9, 2), (1e-3, 3e-3))
    told = texts(measure_fusion._observations([plain, slower, cosine]))
    assert "and yet slower, 0.33 times as fast" in told
    assert "its arithmetic binds" not in told
    unsteady = replace(slower, time=turns(4e-3, 5e-3), fused_time=turns(2e-3, 1e-3))
    told = texts(measure_fusion._observations([plain, unsteady, cosine]))
    assert "2.0 to 5.0 turn by turn: too unsteady to say what binds" in told
    told = texts(measure_fusion._observations([plain, replace(cosine, time=seconds(2.6e-3))]))
    assert "1.3 times as long as cos(x)" in told
    assert "machine shows otherwise" in told
    assert "cosine binds" not in told
    told = texts(
        measure_fusion._observations([plain, replace(cosine, time=turns(4e-3, 9e-3), fused_time=turns(2e-3, 2e-3))])
    )
    assert "2.0 to 4.5 turn by turn: too unsteady" in told


def test_a_time_that_goes_down_is_no_cost_of_a_call() -> None:
    told = told_of_products({8: 3e-6, 16: 2e-6, 32: 1.5e-6, 512: 2.7e-3, 1024: 21.5e-3})
    assert "too unsteady to say what a call costs" in told
    assert "binds there" not in told
    found = [multiply(power, 40e9) for power in range(10, 27)]
    found[0] = replace(found[0], time=seconds(2e-6))
    told = told_of_multiplies(found)
    assert "the time goes down somewhere" in told
    assert "the cost of the call binds" not in told
    assert "too unsteady to say how much" in told_of_steps(4e-3, 2e-3, 4e-3, 8e-3, 16e-3, 32e-3)


def test_stretches_of_a_curve_that_goes_up_and_down_are_not_told() -> None:
    rates = {power: 160e9 if power < 21 else 40e9 for power in range(10, 27)} | {21: 20e9, 22: 20e9}
    told = told_of_multiplies([multiply(power, rate) for power, rate in rates.items()])
    assert "falls and rises again" in told
    assert "Flat stretches" not in told


def test_the_bandwidth_and_the_ridge_point_have_their_ranges() -> None:
    steady = [multiply(power, {24: 41e9, 26: 39e9}.get(power, 40e9)) for power in range(10, 27)]
    told = measure_bandwidth._ridge_told(steady, 40e9, 120e9)
    assert "the median of the rows 2^24, 2^25, 2^26 (39.0 GB/s to 41.0 GB/s)" in told
    assert "3.0 FLOP/byte (2.9 to 3.1)" in told
    assert "disagree" not in told
    unlike = [multiply(power, {24: 80e9}.get(power, 40e9)) for power in range(10, 27)]
    assert "(1.5 to 3.0). These rows disagree" in measure_bandwidth._ridge_told(unlike, 40e9, 120e9)


def test_rounds_that_disagree_are_told_and_others_are_not() -> None:
    noisy = CallTime(fastest_s=1.0, median_s=1.3, slowest_s=2.0, loops=1)
    (line,) = noise_notes([seconds(1.0), noisy, noisy])
    assert line.timed
    assert "for 2 of 3 calls" in line.text
    assert noise_notes([seconds(1.0)]) == ()
    shared = replace(seconds(1.0), cpu_share=0.6)
    assert noise_notes([shared]) == ()
    assert len(noise_notes([shared], one_thread=True)) == 1
    assert len(noise_notes([replace(seconds(1.0), slowest_s=2.1)])) == 1
    # Two threads that had one core and a third between them; and two that had a core each, but for waiting.
    assert len(noise_notes([replace(seconds(1.0), cpu_share=1.33)], threads=2)) == 1
    assert noise_notes([replace(seconds(1.0), cpu_share=1.8)], threads=2) == ()


def test_passes_are_shown_as_counted() -> None:
    bars = measure_fusion._chart([found_of("a*b + c", (6, 4), (600e-6, 400e-6))]).bars
    assert [bar.look for bar in bars] == ["counted", "measured"]
