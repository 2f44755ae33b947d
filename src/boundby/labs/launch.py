"""Lab `launch`: Amdahl's law, and what launches cost: on a GPU on paper, in NumPy measured."""

from __future__ import annotations

from boundby.labs.lab import Entry, Lab
from boundby.results.language import tr

LAB = Lab(
    name="launch",
    title=lambda: tr("Amdahl's law and launch overhead"),
    entries=(
        Entry(
            name="scaling-laws",
            title=lambda: tr("Amdahl against Gustafson"),
            module="boundby.labs.launch_laws",
            is_timed=False,
        ),
        Entry(
            name="decode-launches",
            title=lambda: tr("Launches in one decode step, on paper"),
            module="boundby.labs.launch_decode",
            is_timed=False,
            launch_costs=True,
        ),
        Entry(
            name="cost-per-call",
            title=lambda: tr("What a call costs in NumPy"),
            module="boundby.labs.launch_calls",
        ),
    ),
)
