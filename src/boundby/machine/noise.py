"""What a measuring says of its own quality: probes that do not run, too few rounds, ceilings that moved, the clock."""

from __future__ import annotations

from collections.abc import Sequence

from boundby.machine.rounds import Rounds
from boundby.results.language import tr
from boundby.results.machine import MAIN_MEMORY_BYTES, Ceiling, Finding
from boundby.results.units import format_size

# With fewer rounds than this, one bad moment decides a ceiling.
FEWEST_ROUNDS = 5
# Above this share of ceilings whose median is over 1.25 times their fastest, the machine was not quiet.
_UNSTEADY_SHARE = 0.1


def noise_findings(rounds: Rounds, ceilings: Sequence[Ceiling]) -> tuple[Finding, ...]:
    """``op-unavailable``, ``machine-busy``, ``machine-unsteady``, ``main-memory-unmeasured``, ``clock-stepped-back``.

    As far as they hold.

    Args:
        rounds: the windows.
        ceilings: what was read from them.
    """
    findings = []
    if rounds.broken:
        names = ", ".join(key for key, _ in rounds.broken)
        findings.append(
            Finding(
                code="op-unavailable",
                message=tr(
                    "Not measured, since this torch does not run them here: {names} ({reason}).",
                    names=names,
                    reason=rounds.broken[0][1],
                ),
                advice=tr("Ops of these kinds are judged by the others."),
            )
        )
    if rounds.rounds < FEWEST_ROUNDS:
        findings.append(
            Finding(
                code="machine-busy",
                message=tr(
                    "The machine was so busy that only {rounds} of at least {least} rounds of measuring "
                    "fitted in the time: its ceilings may be far too low.",
                    rounds=rounds.rounds,
                    least=FEWEST_ROUNDS,
                ),
                advice=tr("Measure again when it is quiet: boundby machine --again."),
            )
        )
    unsteady = sum(one.unsteady for one in ceilings)
    if unsteady > _UNSTEADY_SHARE * len(ceilings):
        findings.append(
            Finding(
                code="machine-unsteady",
                message=tr(
                    "{unsteady} of {windows} ceilings moved by more than a quarter while they were measured: "
                    "something else was using the machine, or its clock changed.",
                    unsteady=unsteady,
                    windows=len(ceilings),
                ),
                advice=tr("Measure again when it is quiet: boundby machine --again."),
            )
        )
    streams = [one.size_bytes or 0 for one in ceilings if one.kind == "bandwidth"]
    if streams and max(streams) < MAIN_MEMORY_BYTES:
        findings.append(
            Finding(
                code="main-memory-unmeasured",
                message=tr(
                    "There was too little memory to take for working sets over {size}: how fast main memory is was not "
                    "measured.",
                    size=format_size(max(streams)),
                ),
                advice=tr("Measure with more memory: boundby machine --again."),
            )
        )
    if rounds.dropped:
        findings.append(
            Finding(
                code="clock-stepped-back",
                message=tr(
                    "{dropped} timed windows came out at zero or less and were dropped.", dropped=rounds.dropped
                ),
                advice=tr("Measure on a machine whose clock is steady."),
            )
        )
    return tuple(findings)
