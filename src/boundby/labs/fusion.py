"""Lab `fusion`: three ways to move fewer bytes: low precision, operator fusion and recomputation."""

from __future__ import annotations

from boundby.labs.lab import Entry, Lab
from boundby.results.language import tr

LAB = Lab(
    name="fusion",
    title=lambda: tr("Low precision, operator fusion and recomputation"),
    accelerated=True,
    entries=(
        Entry(
            name="low-precision",
            title=lambda: tr("Low precision: half the bytes"),
            module="boundby.labs.fusion_precision",
            quick_sizes=True,
        ),
        Entry(
            name="operator-fusion",
            title=lambda: tr("Operator fusion: fewer passes over memory"),
            module="boundby.labs.fusion_functions",
            quick_sizes=True,
        ),
        Entry(
            name="recomputation",
            title=lambda: tr("Recomputation: computing again instead of keeping"),
            module="boundby.labs.fusion_recompute",
        ),
    ),
)
