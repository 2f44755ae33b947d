"""What every remedy predicts of a report, ranked: what to do, what is not worth it, and what only a trial can tell."""

from __future__ import annotations

from dataclasses import replace

from boundby.remedies.contract import CannotTell, Evidence, NotApplicable
from boundby.remedies.foreign_load import waiting_s
from boundby.remedies.past_trials import past_trials
from boundby.remedies.probing import NoTimeLeft, TurnsProbe
from boundby.remedies.registry import all_remedies
from boundby.results.language import tr
from boundby.results.machine import Finding
from boundby.results.remedy import WORTH, Advice, Measured, Predicted, Remedy, ScriptFacts
from boundby.results.report import Report, has_shares

# Of 39 trials on seven scripts, four of five came out within this of what was predicted (benchmarks/RESULTS.md): no
# prediction, however sure of itself, is finer.
FINEST = 0.10
# A trial whose interval is wider than this factor tells neither for nor against a prediction.
WIDEST_TRIAL = 1.5
# Where more of a step than this may be waiting for other load, whatever is left of it is no ground for advice.
MOST_WAITED = 0.5
# Once all probes of a run have taken so long together, none begins: a quiet machine needs less, a busy one many times
# as much.
MOST_PROBING_S = 5.0


def with_predictions(report: Report, facts: ScriptFacts) -> Report:
    """The report with what each remedy should do, by short probes in this process; as it is where its ops are unknown.

    Of steps on another device than the CPU, and of those that took far longer when watched, nothing is predicted, which
    a finding says.

    Args:
        report: a report of steps that ran in this process.
        facts: what was seen of the script's own objects.
    """
    if not report.ops:
        return report
    if report.step.device != "cpu":
        return replace(report, findings=(*report.findings, _not_here(report.step.device)))
    if not has_shares(report.reconciliation):
        return replace(report, findings=(*report.findings, _not_divided()))
    # More threads than cores wait for each other, which is what those threads cost and no other load.
    crowded = report.step.threads > report.machine.description.usable_cores
    probe = TurnsProbe(total_s=MOST_PROBING_S, waiting=(lambda: None) if crowded else waiting_s)
    evidence = Evidence(report=report, machine=report.machine, facts=facts, probe=probe)
    return replace(report, remedies=predict_all(evidence), past_trials=past_trials())


def _not_here(device: str) -> Finding:
    return Finding(
        code="remedies-not-predicted",
        message=tr("What remedies would do to these steps is not predicted: they ran on {device}.", device=device),
        advice=tr(
            "Predictions rest on probes and ceilings of the CPU. boundby try NAME SCRIPT measures what a remedy does "
            "here all the same; boundby try --list names them."
        ),
    )


def _not_divided() -> Finding:
    return Finding(
        code="remedies-not-predicted",
        message=tr(
            "What remedies would do to these steps is not predicted: the watched steps took far longer than the "
            "unwatched ones."
        ),
        advice=tr("Run it again on a quieter machine; boundby try NAME SCRIPT measures what a remedy does."),
    )


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
        except NoTimeLeft:
            prediction = CannotTell(tr("the probes before it took all the time they may"))
        except Exception as error:  # a probe may meet anything that torch can raise
            prediction = CannotTell(
                tr("its probe failed: {error}", error=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
            )
        if isinstance(prediction, NotApplicable):
            continue
        if isinstance(prediction, CannotTell):
            found.append(
                Remedy(
                    name=module.NAME,
                    title=module.title(),
                    why=prediction.reason,
                    from_outside=prediction.from_outside,
                )
            )
            continue
        prediction = no_finer(prediction)
        advice = advice_for(prediction)
        found.append(
            Remedy(
                name=module.NAME,
                title=module.title(),
                predicted=prediction,
                why=prediction.reason,
                advice=advice,
                from_outside=prediction.from_outside,
            )
        )
    return tuple(sorted(found, key=_rank))


def no_finer(expected: Predicted) -> Predicted:
    """The prediction, its interval no narrower than predictions were seen to be off."""
    return replace(
        expected,
        low=min(expected.low, expected.speedup / (1.0 + FINEST)),
        high=max(expected.high, expected.speedup * (1.0 + FINEST)),
    )


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
    # A change that did not take place says nothing of the prediction, nor does a trial lost in other load.
    if predicted is not None and took_effect is not False and measured.high <= WIDEST_TRIAL * measured.low:
        held = predicted.low <= measured.speedup <= predicted.high
    lost = measured.waited is not None and measured.waited > MOST_WAITED
    advice: Advice = "unknown" if took_effect is False or lost else advice_for(measured)
    return replace(remedy, measured=measured, took_effect=took_effect, effect=effect, held=held, advice=advice)


def _rank(remedy: Remedy) -> tuple[int, float]:
    order = {"do": 0, "unknown": 1, "skip": 2}[remedy.advice]
    return (order, -remedy.predicted.speedup) if remedy.predicted is not None else (1, 0.0)
