"""A case of counting: code whose counts follow from arithmetic, which stands beside it in a comment or ``why``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from boundby.capture.counter import count_callable
from boundby.results.counts import Counts

F64, F32, BF16, I8, I64, BOOL = 8, 4, 2, 1, 8, 1


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    build: Callable[[], Callable[[], Any]]
    expected: dict[str, int]

    def check(self) -> None:
        torch.manual_seed(0)
        work = self.build()
        first = count_callable(work)
        assert self.expected == {field: getattr(first, field) for field in self.expected}
        assert not first.unmodelled
        again = count_callable(work)
        assert self.expected == {field: getattr(again, field) for field in self.expected}


class Bank(list[Case]):
    """Collects cases: ``@bank(field=value...)`` over a function that builds the work."""

    def __call__(self, **expected: int) -> Callable[[Callable[[], Callable[[], Any]]], Callable[[], Callable[[], Any]]]:
        def register(build: Callable[[], Callable[[], Any]]) -> Callable[[], Callable[[], Any]]:
            self.append(Case(build.__name__, build, expected))
            return build

        return register


def group(groups: tuple[Any, ...]) -> dict[str, Any]:
    """Groups by name."""
    return {one.name: one for one in groups}


def count(work: Callable[..., Any], *args: Any) -> Counts:
    """Count one call."""
    return count_callable(work, *args)
