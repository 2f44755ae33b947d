"""Words that several checks use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from boundby.results.language import tr


def joined(texts: Sequence[str]) -> str:
    """One or more texts as one: ``a``, ``a and b``, ``a and b and c``."""
    return reduce(lambda first, second: tr("{first} and {second}", first=first, second=second), texts)
