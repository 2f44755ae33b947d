"""Lab `measure`: compute, bandwidth, overhead and fusion on this machine, in one thread of torch and fp32."""

from __future__ import annotations

from boundby.labs.lab import Entry, Lab
from boundby.results.language import tr

LAB = Lab(
    name="measure",
    title=lambda: tr("Compute, bandwidth, overhead and fusion on this machine (one CPU thread, fp32)"),
    entries=(
        Entry(
            name="matmul",
            title=lambda: tr("Matrix products from small to large"),
            module="boundby.labs.measure_matmul",
        ),
        Entry(
            name="bandwidth",
            title=lambda: tr("A multiply in place, from cache to memory"),
            module="boundby.labs.measure_bandwidth",
            quick_sizes=True,
        ),
        Entry(
            name="fusion",
            title=lambda: tr("What fusing ops saves, and what it does not"),
            module="boundby.labs.measure_fusion",
            quick_sizes=True,
        ),
        Entry(
            name="training-step",
            title=lambda: tr("One training step of a small GPT, by batch"),
            module="boundby.labs.measure_step",
            quick_sizes=True,
        ),
        Entry(
            name="width",
            title=lambda: tr("The same step, by width of the model"),
            module="boundby.labs.measure_width",
            quick_sizes=True,
        ),
    ),
    one_thread=True,
)
