"""What every remedy predicts of a report, ranked: what to do, what is not worth it, and what only a trial can tell."""

from __future__ import annotations

from dataclasses import replace

from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.remedies.probing import TurnsProbe
from boundby.remedies.registry import all_remedies
from boundby.results.remedy import Advice, Measured, Predicted, Remedy, ScriptFacts
from boundby.results.report import Report

# A gain below this is not worth a change of the script; stated wherever advice is given.
WORTH = 1.05


def with_predictions(report: Report, facts: ScriptFacts) -> Report:
    """The report with what each remedy should do, by short probes in this process; as it is where its ops are unknown.

    Args:
        report: a report of steps that ran on the CPU, in this process.
        facts: what was seen of the script's own objects.
    """
    if not report.ops or report.step.device != "cpu":
        return report
    evidence = Evidence(report=report, machine=report.machine, facts=facts, probe=TurnsProbe())
    return replace(report, remedies=predict_all(evidence))


def predict_all(evidence: Evidence) -> tuple[Remedy, ...]:
    """Every remedy that applies, the most promising first; those that cannot be predicted stand last.

    A prediction that fails is one that cannot be told, with the reason: it never costs the report.

    Args:
        evidence: what predictions rest on.
    """
    found = []
    for module in all_remedies():
        try:
            prediction = module.predict(evidence)
        except Exception as error:  # a probe may meet anything that torch can raise
            prediction = CannotTell(f"its probe failed: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        if isinstance(prediction, NotApplicable):
            continue
        if isinstance(prediction, CannotTell):
            found.append(Remedy(name=module.NAME, title=module.TITLE, why=prediction.reason))
            continue
        advice = advice_for(prediction)
        found.append(
            Remedy(name=module.NAME, title=module.TITLE, predicted=prediction, why=prediction.reason, advice=advice)
        )
    return tuple(sorted(found, key=_rank))


def advice_for(expected: Predicted | Measured) -> Advice:
    """``do`` where even the low end is worth it, ``skip`` where not even the high end is, else ``unknown``."""
    if expected.low >= WORTH:
        return "do"
    return "skip" if expected.high < WORTH else "unknown"


def after_trial(
    remedy: Remedy, *, measured: Measured | None, failed: str | None, took_effect: bool | None, effect: str
) -> Remedy:
    """The remedy with what its trial showed; a change that did not take place is no reason to make it.

    Args:
        remedy: as predicted.
        measured: what the turns say; None where there was no result.
        failed: why not.
        took_effect: whether the change itself was seen.
        effect: in words.
    """
    if measured is None:
        return replace(remedy, failed=failed, took_effect=took_effect, effect=effect, advice="unknown")
    predicted = remedy.predicted
    held = None
    # A change that did not take place says nothing of the prediction.
    if predicted is not None and took_effect is not False:
        held = predicted.low <= measured.speedup <= predicted.high
    advice: Advice = "unknown" if took_effect is False else advice_for(measured)
    return replace(remedy, measured=measured, took_effect=took_effect, effect=effect, held=held, advice=advice)


def _rank(remedy: Remedy) -> tuple[int, float]:
    order = {"do": 0, "unknown": 1, "skip": 2}[remedy.advice]
    return (order, -remedy.predicted.speedup) if remedy.predicted is not None else (1, 0.0)
