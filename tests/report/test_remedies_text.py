"""Remedies as people read them: thresholds, what did not take place, how results differ, how predictions held."""

from __future__ import annotations

import dataclasses

import pytest
import sample_reports

from boundby.report.markdown import render_markdown
from boundby.report.page import render_page
from boundby.report.remedies_text import past_trials_sentence, render_remedies
from boundby.report.remedy_words import times, trials_sentence
from boundby.report.report_document import report_document
from boundby.report.terminal import render_report
from boundby.results.language import tr
from boundby.results.remedy import Measured, Numerics, PastTrials, Predicted, Remedy

PREDICTED = Predicted(speedup=1.3, low=1.2, high=1.4, reason="stepping is slow", change="pass fused=True")
MEASURED = Measured(
    speedup=1.31,
    low=1.28,
    high=1.34,
    floor=0.02,
    turns=9,
    steps_per_turn=40,
    base_step_s=1.0,
    step_s=0.76,
    base_start_s=2.0,
    start_s=2.0,
)


def text(*remedies: Remedy, past: PastTrials | None = None) -> str:
    page = render_page(render_remedies(remedies, unicode=False, past=past), width=100, color=False)
    return " ".join(page.split())


def fused(**fields: object) -> Remedy:
    known = {"predicted": PREDICTED, "measured": MEASURED, "advice": "do", "held": True, "took_effect": True}
    return Remedy(name="fused-optimizer", **(known | fields))


def test_the_threshold_of_all_advice_is_stated():
    for shown in (text(fused()), text(Remedy(name="compile", predicted=PREDICTED, advice="do"))):
        assert "do: even the low end is 1.05x or more" in shown


def test_what_may_help_but_is_not_expected_to_takes_one_line():
    slower = dataclasses.replace(PREDICTED, speedup=0.98, low=0.9, high=1.08)
    unlikely = Remedy(name="compile", predicted=slower, advice="unknown")
    shown = text(Remedy(name="fused-optimizer", predicted=PREDICTED, advice="do"), unlikely)
    assert "unlikely compile (0.980x (0.900-1.08)) do: even the low end" in shown
    assert shown.count("stepping is slow") == 1
    assert "unlikely: the middle is below 1x" in shown
    assert "unlikely compile" not in text(dataclasses.replace(unlikely, measured=MEASURED))
    page = render_markdown(report_document(dataclasses.replace(sample_reports.overhead_bound(), remedies=(unlikely,))))
    assert "stepping is slow" not in page


def test_what_was_tried_says_what_it_did_whether_that_was_predicted_and_what_to_do():
    shown = text(fused())
    assert "1.31x (1.28-1.34) measured; as predicted (1.30x (1.20-1.40))" in shown
    assert "to do: pass fused=True" in shown
    assert "not as predicted" in text(fused(held=False))


def test_a_change_that_did_not_take_place_says_why_and_is_not_to_be_made():
    shown = text(fused(took_effect=False, held=None, advice="unknown", effect="the script itself chooses 2 threads"))
    assert "the change did not take place: the script itself chooses 2 threads" in shown
    assert "to do" not in shown
    assert "predicted" not in shown
    assert "1.31x" not in shown
    assert "nothing that it would change" in text(fused(took_effect=False, held=None, advice="unknown"))


def test_an_interval_that_says_nothing_is_told_without_a_figure_and_in_plain_digits():
    wild = dataclasses.replace(MEASURED, speedup=0.0404, low=8.27e-05, high=19.8)
    shown = text(fused(measured=wild, held=None, advice="unknown"))
    assert "unclear fused-optimizer: no result: the turns were too unsteady; " in shown
    assert "0.0404" not in shown
    assert "19.8" not in shown
    assert times(wild) == "no result"
    assert trials_sentence([fused(measured=wild, advice="unknown")]) == "The trial gave no result."
    report = dataclasses.replace(sample_reports.memory_bound(), remedies=(fused(measured=wild, advice="unknown"),))
    page = report_document(report)
    assert "no result: the turns were too unsteady" in render_markdown(page)
    assert "19.8" not in str(page)
    wide = dataclasses.replace(MEASURED, speedup=0.9, low=0.4, high=2.0)
    assert "measured, but unclear (0.400-2.00x)" in text(fused(measured=wide, held=None, advice="unknown"))
    assert times(dataclasses.replace(wild, low=1.1)) == "unclear (1.10-19.8x)"
    assert times(dataclasses.replace(MEASURED, speedup=1234.0, low=1200.0, high=1300.0)) == "1,234x (1,200-1,300)"


def test_a_trial_beside_other_load_says_so():
    busy = dataclasses.replace(MEASURED, low=0.4, high=3.0, waited=0.62)
    assert "other load held the cores for up to 62% of it" in text(fused(measured=busy, advice="unknown"))
    assert "other load" not in text(fused(measured=dataclasses.replace(MEASURED, waited=0.01)))


def test_however_much_memory_is_told_in_plain_digits():
    more = dataclasses.replace(MEASURED, base_peak_bytes=1 << 20, peak_bytes=1234 << 20)
    assert "peak memory 1,200 times as much" in text(fused(measured=more))


def test_what_has_no_reason_is_told_without_a_gap():
    bare = dataclasses.replace(PREDICTED, reason="", change="")
    assert "do compile: 1.30x (1.20-1.40). do:" in text(Remedy(name="compile", predicted=bare, advice="do"))


@pytest.mark.parametrize("name", ["en", "zh"])
def test_every_mark_has_a_blank_behind_it(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("boundby.results.language._chosen", name)
    marked = {
        "no change": fused(took_effect=False, advice="unknown"),
        "failed": Remedy(name="fused-optimizer", failed="no compiler"),
        "do": fused(),
        "skip": fused(advice="skip"),
        "unclear": fused(advice="unknown"),
    }
    for mark, remedy in marked.items():
        assert f"{tr(mark)} fused-optimizer" in text(remedy), mark


def test_a_failed_trial_says_why():
    shown = text(Remedy(name="compile", predicted=PREDICTED, failed="no compiler"))
    assert "failed compile: no compiler." in shown


def test_results_differ_in_the_first_step_at_most_and_in_the_last():
    apart = Numerics(of="loss", steps=200, first=1e-7, largest=3e-2, last=2e-3)
    assert "losses differ by <0.0001% in the first step, at most 3% over 200 steps, 0.2% in the last" in text(
        fused(numerics=apart)
    )
    late = Numerics(of="loss", steps=200, first=0.0, largest=3e-5, last=0.0)
    assert "losses equal in the first step; they differ by at most 0.003% over 200 steps, 0% in the last" in text(
        fused(numerics=late)
    )
    alike = Numerics(of="output", steps=1, first=0.0, largest=0.0, last=0.0)
    assert "outputs equal to the last bit over 1 step" in text(fused(numerics=alike))
    assert "results not compared" in text(fused())


def test_results_of_a_report_from_before_first_was_kept_are_told_all_the_same():
    apart = Numerics(of="loss", steps=20, largest=3e-2, last=2e-3)
    assert "losses differ by at most 3% over 20 steps" in text(fused(numerics=apart))


def test_past_trials_are_told_at_the_end():
    assert text(fused(), past=PastTrials(trials=9, held=7)).endswith("Predictions held in 7 of 9 trials here so far.")
    assert past_trials_sentence(PastTrials(trials=1, held=1)) == "Predictions held in 1 of 1 trial here so far."
    assert past_trials_sentence(None) == past_trials_sentence(PastTrials(trials=0, held=0)) == ""


def test_without_remedies_nothing_is_shown():
    assert text(past=PastTrials(trials=9, held=7)) == ""


def test_an_unclear_trial_concludes_nothing():
    slow_start = dataclasses.replace(MEASURED, speedup=1.1, low=0.1, high=4.0, start_s=5.0)
    unclear = fused(measured=slow_start, held=None, advice="unknown")
    shown = text(unclear)
    assert "What helped" not in shown
    assert "What was tried" in shown
    assert "starting takes 3.00 s longer;" in shown
    assert "paid back" not in shown
    assert "never paid back" in text(fused(measured=slow_start, advice="skip"))


def test_the_trials_are_summed_up_in_one_sentence():
    unclear = fused(advice="unknown")
    useless = fused(advice="skip")
    failed = Remedy(name="compile", failed="no compiler")
    idle = fused(took_effect=False, advice="unknown")
    best = dataclasses.replace(fused(), name="best", measured=dataclasses.replace(MEASURED, speedup=2.0, high=2.1))
    assert trials_sentence([Remedy(name="compile", predicted=PREDICTED)]) == ""
    assert trials_sentence([unclear]) == "The trial was unclear."
    assert trials_sentence([unclear, unclear]) == "None of 2 trials was clear."
    assert trials_sentence([useless, unclear]) == "None of 2 trials shows a gain; unclear: 1."
    assert trials_sentence([useless, failed]) == "None of 2 trials shows a gain."
    assert trials_sentence([failed, idle]) == "None of 2 trials gave a result."
    assert trials_sentence([fused(), best, unclear]) == "Measured best: best, 2.00x (1.28-2.10) as fast."


def test_a_report_begins_with_what_its_trials_showed():
    report = dataclasses.replace(sample_reports.memory_bound(), remedies=(fused(advice="unknown"),))
    shown = render_report(report, width=80, color=False, unicode=True)
    assert " ".join(shown.split()).startswith(f"The trial was unclear. {report.verdict.sentence}")
    page = render_markdown(report_document(report))
    assert f"The trial was unclear. {report.verdict.sentence}" in page
    assert "What helped" not in page
