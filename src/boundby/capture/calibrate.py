"""How much more the first watcher costs than the second.

Watching a step twice over shows what the second watcher costs, op by op and in place. The first one costs more: with it
torch leaves its quick path for the slower one that the second then shares. By how much is measured here, in the same
process and at the same moments as the steps, on a mixture of small ops, since a loop of one op alone is too kind to
caches and branch prediction.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from boundby.capture.lean import DoubledWatcher, LeanWatcher

TURNS = 12


class LevelRatio:
    """Cost of the first watcher over that of the second: 1.2 to 1.5."""

    def __init__(self) -> None:
        import torch

        with torch.inference_mode(False), torch.no_grad():
            plain: Any = {"device": "cpu", "dtype": torch.float32}
            x, y, out = torch.ones(8, **plain), torch.ones(8, **plain), torch.empty(8, **plain)
            square = torch.ones((4, 4), **plain)
        self._mixture: tuple[Callable[[], Any], ...] = (
            lambda: torch.add(x, y, out=out),
            lambda: x.view(2, 4),
            lambda: x + y,
            lambda: square @ square,
            lambda: x.mul_(1.0),
            lambda: square.t(),
            lambda: torch.addmm(x[:4], square, square),
            lambda: out.lerp_(y, 0.5),
            lambda: x.sqrt(),
            lambda: x.sum(),
            lambda: torch.addcdiv(x, y, y, value=0.1),
        )
        self.samples: list[float] = []

    def read(self) -> None:
        """Take one sample, about 3 ms; grad mode of the caller does not matter."""
        import torch

        with torch.inference_mode(False), torch.no_grad():
            bare, single, second = [], [], []
            for _ in range(TURNS):
                bare.append(self._turn())
                watcher = LeanWatcher()
                watcher.start()
                single.append(self._turn())
                watcher.stop()
                double = DoubledWatcher()
                double.start()
                self._turn()
                double.stop()
                upper, lower = double.stamps, double.under.stamps
                second.append(
                    sum(upper[i + 1] - upper[i] - lower[i + 1] + lower[i] for i in range(0, len(upper), 2))
                )
        first = statistics.median(single) - statistics.median(bare)
        self.samples.append(first / statistics.median(second))

    def _turn(self) -> int:
        begin = time.perf_counter_ns()
        for op in self._mixture:
            op()
        return time.perf_counter_ns() - begin

    def value(self) -> float:
        """The median of the samples; 1 where none was taken."""
        return statistics.median(self.samples) if self.samples else 1.0
