"""What `boundby try` chooses to try, and what it says of the best together and of predictions so far."""

from __future__ import annotations

import dataclasses
import re
import signal

import pytest

from boundby.capture.script import Target
from boundby.cli import try_
from boundby.cli.main import main
from boundby.remedies import past_trials
from boundby.remedies.ranking import after_trial
from boundby.remedies.trial import FEWEST_TURNS, MOST_TURNS, TURN_S, expected_turns_s
from boundby.results.files import decode_report
from boundby.results.remedy import Measured, PastTrials, Predicted, Remedy

SPEEDUPS = {"fused-optimizer": 1.25, "bf16-autocast": 2.0, "compile": 0.8, "batch-x2": 1.9}


def predicted(name: str, advice: str, *, from_outside: bool = True) -> Remedy:
    speedup = SPEEDUPS.get(name, 1.2)
    band = Predicted(speedup=speedup, low=0.9 * speedup, high=1.1 * speedup, reason="", from_outside=from_outside)
    return Remedy(name=name, predicted=band, advice=advice)


def measured(speedup: float) -> Measured:
    return Measured(
        speedup=speedup,
        low=0.98 * speedup,
        high=1.02 * speedup,
        floor=0.02,
        turns=5,
        steps_per_turn=9,
        base_step_s=1.0,
        step_s=1.0 / speedup,
        base_start_s=1.0,
        start_s=1.0,
    )


@pytest.fixture
def tried(sample_report, monkeypatch, tmp_path):
    """The names of each trial in turn, and the report at the end."""
    trials: list[list[str]] = []

    def made_up(remedy, target, names, budget_s, what):
        trials.append(names)
        speedup = SPEEDUPS.get(names[0], 1.2) if len(names) == 1 else 2.5
        return after_trial(remedy, measured=measured(speedup), failed=None, took_effect=True, effect="")

    monkeypatch.setattr(try_, "_tried", made_up)
    monkeypatch.setenv("BOUNDBY_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("BOUNDBY_KEEP_TRIALS", "1")

    def run(remedies, wanted=(), *, everything=False):
        report = dataclasses.replace(sample_report("overhead"), remedies=tuple(remedies))
        target = Target(name="train.py", is_module=False)
        return trials, try_._with_trials(report, target, list(wanted), budget_s=1.0, everything=everything)

    return run


REMEDIES = (
    predicted("fused-optimizer", "do"),
    predicted("bf16-autocast", "unknown"),
    predicted("batch-x2", "do", from_outside=False),
    predicted("fusion", "do", from_outside=False),
    predicted("compile", "skip"),
)


def test_those_worth_it_that_can_be_applied_from_outside_are_tried_and_the_best_together(tried):
    trials, report = tried(REMEDIES)
    assert trials == [["fused-optimizer"], ["bf16-autocast"], ["bf16-autocast", "fused-optimizer"]]
    together = report.remedies[2]
    assert together.name == "bf16-autocast+fused-optimizer"
    # A fifth of the step and half of it are saved.
    assert together.predicted.speedup == pytest.approx(1 / 0.3)
    assert together.predicted.low <= together.predicted.speedup <= together.predicted.high
    assert together.held is False
    assert [one.name for one in report.remedies[3:]] == ["batch-x2", "fusion", "compile"]


def test_what_cannot_be_applied_from_outside_is_left_out_though_nothing_is_predicted_of_it(tried, capsys):
    unknown = Remedy(name="batch-x2", why="too little is known", from_outside=False)
    trials, report = tried((unknown, predicted("fused-optimizer", "do")))
    assert trials == [["fused-optimizer"]]
    assert report.remedies[1] == unknown
    assert "batch-x2 is left out: it cannot be applied to this script from outside" in capsys.readouterr().err


def test_that_nothing_seems_worth_a_trial_is_said(tried, capsys):
    trials, _ = tried((predicted("fusion", "do", from_outside=False), predicted("compile", "skip")))
    assert trials == []
    assert "no remedy here seems worth a trial; name one, or try them all with --all" in capsys.readouterr().err


def test_a_named_remedy_that_is_advice_alone_is_left_out_and_said_to_be(interrupted):
    ended, shown, told, _ = interrupted(9, signal.SIGINT, ["fusion", "compile"])
    assert ended == 0
    assert "boundby: fusion is left out: it cannot be applied to this script from outside\n" in told
    assert "compile: 1.25x" in shown


def test_where_all_that_are_named_are_advice_alone_there_is_one_error(interrupted):
    ended, shown, told, report = interrupted(9, signal.SIGINT, ["fusion", "sdpa"])
    assert (ended, shown, report) == (2, "", None)
    assert told.startswith("boundby: there is nothing to try: fusion, sdpa cannot be applied")
    assert "[advice-only]\n" in told


@pytest.mark.parametrize(
    "outcome",
    [
        {"measured": None, "failed": "the script ended by itself: let it run for more steps"},
        {"measured": measured(1.0), "failed": None, "took_effect": False},
    ],
)
def test_after_a_trial_without_a_result_the_same_one_is_not_named_again(outcome, sample_report):
    done = after_trial(predicted("compile", "do"), **({"took_effect": None, "effect": ""} | outcome))
    report = dataclasses.replace(sample_report("overhead"), remedies=(done,))
    assert try_._next(report, ["train.py", "--epochs", "3"]) == "boundby run -o report.json train.py --epochs 3"
    assert try_._next(dataclasses.replace(report, interrupted=True), ["train.py"]) is None
    done = after_trial(done, measured=measured(1.25), failed=None, took_effect=True, effect="")
    assert try_._next(dataclasses.replace(report, remedies=(done,)), ["train.py"]) is None


def test_all_tries_also_what_is_not_worth_it(tried):
    trials, _ = tried(REMEDIES, everything=True)
    assert ["compile"] in trials
    assert ["batch-x2"] not in trials


def test_a_remedy_asked_for_by_name_is_tried_whatever_is_predicted(tried):
    trials, report = tried(REMEDIES, ["compile"])
    assert trials == [["compile"]]
    assert report.remedies[0].advice == "skip"


def test_each_trial_counts_for_how_often_predictions_hold_here(tried):
    _, report = tried(REMEDIES)
    assert report.past_trials == PastTrials(trials=3, held=2)
    _, report = tried(REMEDIES, ["compile"])
    assert report.past_trials == PastTrials(trials=4, held=3)
    assert past_trials.past_trials() == report.past_trials


@pytest.fixture
def interrupted(sample_report, monkeypatch, tmp_path, capsys):
    """Runs the command with a signal in the trial of that number, 0 before it; gives status, output, errors, file."""

    def run(number: int, which: signal.Signals, names=("fused-optimizer", "bf16-autocast", "compile")):
        count = 0

        def made_up(remedy, target, names, budget_s, what):
            nonlocal count
            count += 1
            if count == number:
                signal.raise_signal(which)
            return after_trial(remedy, measured=measured(1.25), failed=None, took_effect=True, effect="")

        def explained(target):
            if number == 0:
                signal.raise_signal(which)
            return dataclasses.replace(sample_report("overhead"), remedies=REMEDIES)

        monkeypatch.setattr(try_, "_tried", made_up)
        monkeypatch.setattr(try_, "_explained", explained)
        monkeypatch.setenv("BOUNDBY_KEEP_TRIALS", "0")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "train.py").touch()
        kept = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(SystemExit) as ended:
                main(["try", "-o", "out.json", *names, "train.py"])
        finally:
            for one, handler in zip((signal.SIGINT, signal.SIGTERM), kept, strict=True):
                signal.signal(one, handler)
        said = capsys.readouterr()
        written = tmp_path / "out.json"
        report = decode_report(written.read_bytes(), name="out.json") if written.exists() else None
        return ended.value.code, said.out, said.err, report

    return run


@pytest.mark.parametrize(("which", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_trials_that_had_ended_when_a_signal_came_are_shown_and_written(interrupted, which, status):
    ended, shown, told, report = interrupted(3, which)
    assert ended == status
    assert [one.name for one in report.remedies if one.measured] == ["fused-optimizer", "bf16-autocast"]
    assert report.interrupted
    assert report.findings[0].code == "trials-interrupted"
    assert "2 of 3 had ended; not tried: compile." in report.findings[0].message
    assert len(re.findall(r"fused-optimizer: 1\.25x .*measured", shown)) == 1
    assert "trials-interrupted" in shown
    assert "Wrote out.json" in told


@pytest.mark.parametrize(("which", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_trial_is_told_in_one_line(interrupted, which, status):
    ended, shown, told, report = interrupted(0, which)
    assert (ended, shown, report) == (status, "", None)
    said = "boundby: interrupted before the first trial; nothing was written [interrupted-early]\n"
    assert told.startswith(said)


def test_a_signal_in_the_first_trial_leaves_what_the_script_as_it_is_showed(interrupted):
    ended, _, _, report = interrupted(1, signal.SIGINT)
    assert ended == 130
    assert not any(one.measured for one in report.remedies)
    assert {one.name for one in report.remedies} == {one.name for one in REMEDIES}


def test_a_report_of_trials_that_all_ended_is_not_marked(tried):
    _, report = tried(REMEDIES)
    assert not report.interrupted


@pytest.mark.parametrize(
    ("step_s", "budget_s", "turns_s"),
    [
        (0.01, 600.0, MOST_TURNS * 2 * TURN_S),
        (0.01, 6.0, 6.0),
        (10.0, 6.0, FEWEST_TURNS * 2 * 2 * 10.0),
        (1e-5, 600.0, MOST_TURNS * 2 * 500 * 1e-5),
    ],
)
def test_turns_are_expected_to_take_what_their_rules_say(step_s, budget_s, turns_s):
    assert expected_turns_s(step_s, budget_s) == pytest.approx(turns_s)


def test_about_how_long_the_trials_take_is_told_before_them(tried, capsys):
    tried(REMEDIES, ["fused-optimizer"])
    told = capsys.readouterr().err
    assert re.match(r"boundby: 1 trial takes about \d.* or less, an estimate: \d.* of turns, two starts", told)


def test_long_estimates_are_told_in_minutes():
    told = try_._how_long(4, 0.5, budget_s=60.0, start_s=30.0)
    # Five trials, the best together among them, of 15 turns of two steps of each side and two starts.
    assert "about 8 min or less" in told
    assert "30 s of turns each" in told
