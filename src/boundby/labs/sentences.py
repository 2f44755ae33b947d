"""Sentences that follow one another, in the language in use."""

from __future__ import annotations

from boundby.results.language import tr


def followed_by(first: str, then: str) -> str:
    """Two sentences in a row, with what the language puts between them."""
    return tr("{first} {then}", first=first, then=then)
