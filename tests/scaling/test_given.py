"""Speed-ups as people write them: words, CSV, JSON; the band of their digits; one clear error for each mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boundby.results.errors import BoundbyError
from boundby.scaling.given import given_points, read_pairs, read_rows

PAIRS = {1: 1.0, 2: 1.8, 4: 3.1}


def speedups(points):
    return {one.workers: pytest.approx(one.speedup.value) for one in points}


@pytest.mark.parametrize(
    "text",
    [
        "workers,speedup\n1,1.0\n2,1.8\n4,3.1\n",
        "\ufeff# mine\nThreads, Speedup, note\n4,3.1,x\n1,1.0,y\n2,1.8x,z\n",
        "n,time_ms\n1,31\n2,17.222222\n4,10\n",
        '{"1": 1.0, "2": 1.8, "4": "3.1"}',
        "[[1, 1.0], [2, 1.8], [4, 3.1]]",
        '[{"cores": 1, "seconds": 3.1}, {"cores": 2, "seconds": 1.7222222}, {"cores": 4, "seconds": 1.0}]',
    ],
)
def test_files_of_all_kinds_say_the_same(text):
    assert speedups(given_points(read_rows(text.encode(), name="file"))) == PAIRS


def test_a_number_carries_the_band_of_its_digits():
    two, four = given_points(read_pairs("2:1.8,4:3.10"))[1:]
    assert (two.speedup.low, two.speedup.high) == pytest.approx((1.75, 1.85))
    assert (four.speedup.low, four.speedup.high) == pytest.approx((3.095, 3.105))


def test_times_are_taken_over_one_workers_and_kept():
    one, two = given_points(read_pairs("2:20ms,1:0.035s"))
    assert one.time_s is not None
    assert one.time_s.value == pytest.approx(0.035)
    assert two.speedup.value == pytest.approx(1.75)
    assert two.speedup.low == pytest.approx(34.5 / 20.5)


def test_a_band_of_its_own_takes_the_place_of_the_digits():
    text = "workers,speedup,low,high\n2,1.8,1.5,1.9\n"
    (_, two) = given_points(read_rows(text.encode(), name="file"))
    assert (two.speedup.low, two.speedup.value, two.speedup.high) == (1.5, 1.8, 1.9)


@pytest.mark.parametrize(("low", "high"), [("7", "8"), ("4", "5"), ("7", ""), ("", "5"), ("8", "4")])
def test_a_band_that_does_not_hold_its_value_is_refused_by_its_row(low, high):
    text = f"threads,time_s,low,high\n1,10,9,11\n2,6,{low},{high}\n"
    with pytest.raises(BoundbyError, match=r"z\.csv, row 2: 6 is not within its band") as raised:
        read_rows(text.encode(), name="z.csv")
    assert raised.value.code == "bad-speedups"


@pytest.mark.parametrize("schema", ["boundby.lab", "boundby.report", "other"])
def test_another_file_is_told_what_it_is(schema):
    with pytest.raises(BoundbyError, match=rf"f\.json has the schema '{schema}', and holds no speed-ups") as raised:
        read_rows(f'{{"schema": "{schema}", "version": 1}}'.encode(), name="f.json")
    assert raised.value.code == "unknown-schema"


@pytest.mark.parametrize(
    "text",
    [
        "2", "2:", ":2", "a:1", "2:b", "2:0", "2:-1", "2:nan", "2:inf", "2:1e999", "0:1", "-2:1", "2.5:1",
        "2:1.8,2:1.8", "1:1.0", "1:2.0,2:3.0", "2:20ms", "1:1.0,2:20ms", "2:1.8parsecs",
        "99999999999999999999:2", "2:1.8,,4:3",
    ],
)  # fmt: skip
def test_pairs_that_say_nothing_are_refused(text):
    with pytest.raises(BoundbyError) as raised:
        given_points(read_pairs(text))
    assert raised.value.code == "bad-speedups"
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\n\n", b"\xff\xfe\x00", b"a\0b", b"speedup\n1.0\n", b"workers\n1\n", b"workers,speedup\n2\n",
        b"workers,speedup\n1,1\n2,x\n", b"{", b"[1, 2]", b"[[1, 2, 3]]", b'[{"n": 2}]', b'{"2": true}', b'{"2": null}',
        b'{"2": [1]}', b"[]", b"{}", b" " * (2 << 20),
    ],
)  # fmt: skip
def test_files_that_say_nothing_are_refused(data):
    with pytest.raises(BoundbyError) as raised:
        given_points(read_rows(data, name="file"))
    assert raised.value.code == "bad-speedups"


def code_of(call) -> str | None:
    """The code of the error that a call ends in; None where it ends in none."""
    try:
        call()
    except BoundbyError as error:
        return error.code
    return None


@given(st.binary(max_size=60))
def test_no_file_is_a_traceback(data):
    assert code_of(lambda: given_points(read_rows(data, name="file"))) in (None, "bad-speedups")


@given(st.text(alphabet="0123456789.:,e+-ms _x", max_size=20))
def test_no_pairs_are_a_traceback(text):
    assert code_of(lambda: given_points(read_pairs(text))) in (None, "bad-speedups")
