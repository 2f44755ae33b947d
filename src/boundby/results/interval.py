"""A number with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value and the band it is believed to lie in, all in the same unit; ``low <= value <= high``.

    Compares with plain numbers by its value: ``report.split.overhead > 0.5``.
    """

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"low <= value <= high does not hold: {self.low}, {self.value}, {self.high}")

    def __float__(self) -> float:
        return self.value

    def __lt__(self, other: float | Interval) -> bool:
        return self.value < float(other)

    def __le__(self, other: float | Interval) -> bool:
        return self.value <= float(other)

    def __gt__(self, other: float | Interval) -> bool:
        return self.value > float(other)

    def __ge__(self, other: float | Interval) -> bool:
        return self.value >= float(other)

    def scaled(self, factor: float) -> Interval:
        """The same interval in another unit; ``factor`` is positive."""
        return Interval(value=self.value * factor, low=self.low * factor, high=self.high * factor)


def interval(value: float, low: float | None = None, high: float | None = None) -> Interval:
    """An interval from a value and optional ends; ends are widened, never the value moved."""
    return Interval(
        value=value,
        low=value if low is None else min(value, low),
        high=value if high is None else max(value, high),
    )
