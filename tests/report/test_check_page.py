"""What a person reads of a check: the answer first, within the width, and nothing hostile left in it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from boundby.report.check_page import check_sentence, counts_changed, render_check
from boundby.results.budgets import COUNTS, RATIOS, Check, Counted, Judgement, LineGrowth, OpGrowth
from boundby.results.interval import interval


def judged(of: str, **fields: object) -> Judgement:
    known: dict[str, object] = {
        "name": f"max_{of}",
        "of": of,
        "state": "kept",
        "value": 1,
        "limit": 1,
        "least": False,
        "source": "pyproject.toml",
    }
    return Judgement(**(known | fields))  # type: ignore[arg-type]  # of any kind, by name


def grown(of: str, old: int, new: int, *lines: LineGrowth) -> Judgement:
    return judged(
        of,
        name=of,
        state="over",
        value=new,
        limit=old,
        baseline=old,
        source="baseline",
        lines=lines,
        lines_by=of,
        grown=True,
    )


def line(
    path: str | None = "train.py", code: str | None = "x = a + b", *, old: int | None = 1, new: int = 2, number: int = 7
) -> LineGrowth:
    return LineGrowth(
        path=path,
        line=number,
        code=code,
        old_line=number,
        old_code=None,
        old=old,
        new=new,
        ops=(OpGrowth(op="aten.add", old=1, new=2), OpGrowth(op="aten.mul", old=0, new=1)),
    )


def check_of(*judgements: Judgement, **fields: object) -> Check:
    passed = not any(one.failed for one in judgements)
    return Check(target="train.py", passed=passed, judgements=judgements, **fields)  # type: ignore[arg-type]


def shown(check: Check, width: int = 80, *, color: bool = False, unicode: bool = True) -> str:
    return render_check(check, width=width, color=color, unicode=unicode)


def test_the_first_line_is_the_answer() -> None:
    assert check_sentence(check_of(judged("ops"))) == "train.py keeps its budgets: 1 budget kept."
    kept = judged("ops", name="ops", source="baseline")
    assert check_sentence(check_of(kept, kept)) == "train.py keeps its budgets: none of 2 counts grew."
    assert shown(check_of(kept)) == "train.py keeps its budgets: no count of 1 grew.\n"
    over = [grown(name, 1, 2) for name in COUNTS[:5]]
    assert check_sentence(check_of(*over)) == ("train.py is over budget: ops, launches, matmul flops and 2 more.")


def test_the_command_to_copy_stays_in_one_line() -> None:
    command = f"boundby check --baseline base.json --update {'long/' * 30}train.py"
    check = check_of(grown("ops", 10, 12, line()))
    text = render_check(check, width=60, color=False, unicode=True, update_command=command)
    *_, first, only, last = text.splitlines()
    assert (first, only.strip()) == (
        "Next     mend train.py:7, and check again",
        "Only where this is meant, make it the new baseline:",
    )
    assert last.strip() == command
    shrunk = check_of(judged("ops", source="baseline"), shrunk=(("ops", 3, 2),))
    assert render_check(shrunk, width=60, color=False, unicode=True, update_command=command).endswith(
        f"Next     {command}\n"
    )


def test_up_to_three_places_to_mend_are_named() -> None:
    def told(count: int) -> str:
        lines = [line(number=number) for number in range(7, 7 + count)]
        check = check_of(grown("ops", 10, 12, *lines))
        text = render_check(check, width=80, color=False, unicode=True, update_command="boundby check")
        return next(one for one in text.splitlines() if one.startswith("Next"))

    assert told(2) == "Next     mend train.py:7, train.py:8, and check again"
    assert told(5) == "Next     mend train.py:7, train.py:8, train.py:9 and 2 more, and check again"


def test_what_grew_is_told_with_its_line_and_ops() -> None:
    text = shown(check_of(grown("ops", 10, 12, line()), grown("launches", 4, 5, line())))
    assert re.search(r"ops +12 +was 10: \+2 \(20%\)", text)
    assert text.count("train.py:7") == 1
    told = " ".join(text.split())
    assert "x = a + b ops 1 to 2; launches 1 to 2 aten.add 1 to 2; new: aten.mul 1" in told


def test_a_difference_that_rounding_hides_is_exact() -> None:
    text = shown(check_of(grown("bytes_read", 1_075_768, 1_075_772, line(old=1_075_768, new=1_075_772))))
    assert "1,075,772" in text
    assert "was 1,075,768: +4 B" in text
    assert "bytes read 1,075,768 to 1,075,772" in text


def test_what_is_unknown_and_what_is_unsure() -> None:
    unknown = judged("saved_bytes", state="unknown", value=None, limit=2**20)
    unsure = judged("overhead", state="unsure", value=interval(0.43, 0.38, 0.48), limit=0.4)
    text = " ".join(shown(check_of(unknown, unsure)).split())
    assert text.startswith("train.py cannot be told to keep its budgets; not known: saved bytes.")
    assert "max_saved_bytes: not known, so whether the budget of 1 MiB is kept is not either." in text
    assert "max_overhead: 43% (38-48%), with a budget of 40%; its interval reaches what is allowed" in text
    assert shown(check_of(unsure)).startswith("train.py keeps its budgets: 1 budget kept.")


def test_what_shrank_and_notes() -> None:
    text = shown(check_of(judged("ops"), shrunk=(("saved_bytes", 2048, 1024),), notes=("another torch",)))
    assert "saved bytes 2 KiB to 1 KiB" in text
    assert "another torch" not in text
    assert "another torch" in shown(check_of(grown("ops", 1, 2), notes=("another torch",)))
    before, now = (
        Counted(totals=dict.fromkeys(COUNTS) | {"ops": ops, "launches": 1}, lines=(), by_line=()) for ops in (1, 2)
    )
    assert list(counts_changed(before, now)) == ["ops 1 to 2"]


names = st.sampled_from([*COUNTS, *RATIOS])
hostile = st.one_of(st.none(), st.text(max_size=120), st.sampled_from(["\x1b[31m", "[red]x[/red]", "a\nb", "\u202e"]))


@st.composite
def checks(draw: st.DrawFn) -> Check:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        of, state = draw(names), draw(st.sampled_from(["kept", "over", "unsure", "unknown"]))
        low = draw(st.floats(0, 1))
        value = None if state == "unknown" else interval(low) if of in RATIOS else draw(st.integers(0, 10**15))
        lines = tuple(
            line(draw(hostile), draw(hostile), old=draw(st.one_of(st.none(), st.integers(0, 9))), number=at)
            for at in range(draw(st.integers(0, 9)))
        )
        base = draw(st.one_of(st.none(), st.integers(0, 10**15))) if of in COUNTS else None
        limit = 0.5 if of in RATIOS else draw(st.integers(0, 10**15))
        found.append(
            judged(
                of,
                state=state,
                value=value,
                limit=limit,
                baseline=base,
                lines=lines,
                lines_by="ops",
                grown=draw(st.booleans()),
            )
        )
    return check_of(*found, shrunk=(("ops", 2, 1),), notes=(draw(hostile) or "",))


@settings(max_examples=60)
@given(checks(), st.integers(30, 120), st.booleans())
def test_any_check_keeps_to_its_width_and_to_visible_characters(check: Check, width: int, unicode: bool) -> None:
    lines = shown(check, width, unicode=unicode).splitlines()
    assert max(cell_len(one) for one in lines) <= max(40, min(width, 100))
    assert all(character.isprintable() for one in lines for character in one)
    assert unicode or all(one.isascii() for one in lines)


@pytest.mark.parametrize("color", [False, True])
def test_colour_only_where_it_is_asked_for(color: bool) -> None:
    assert ("\x1b[" in shown(check_of(grown("ops", 1, 2, line())), color=color)) == color
