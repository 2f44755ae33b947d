"""The language of what a person reads: English as written in the code, or a gettext catalogue's.

JSON keys, codes and the words of the command line are never translated. Nothing is loaded for English.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gettext import NullTranslations

LANGUAGES = ("en", "zh")
DOMAIN = "boundby"
FOLDER = Path(__file__).parent.parent / "locale"

_chosen = "en"


def language() -> str:
    """The language in use: one of ``LANGUAGES``."""
    return _chosen


def choose_language(name: str) -> None:
    """Makes ``name``, one of ``LANGUAGES``, the language of this process.

    Raises:
        ValueError: there is no such language.
    """
    global _chosen
    if name not in LANGUAGES:
        raise ValueError(f"no such language: {name!r}; there are {', '.join(LANGUAGES)}")
    _chosen = name


def environment_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language that the locale asks for: the first of LC_ALL, LC_MESSAGES and LANG that is set; else English."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(variable):
            name = value.replace("-", "_").split("_")[0].split(".")[0].lower()
            return name if name in LANGUAGES else "en"
    return "en"


def tr(message: str, /, **values: object) -> str:
    """``message`` in the language in use, with its ``{named}`` places filled in.

    Args:
        message: the English text, written out where it is called, so that it can be collected.
        **values: what its places hold; numbers are given as text that is formatted already.
    """
    text = message if _chosen == "en" else _catalogue(_chosen).gettext(message)
    return text.format(**values) if values else text


def trn(one: str, many: str, count: int, /, **values: object) -> str:
    """``one`` or ``many`` by ``count``, in the language in use; ``{count}`` is filled in with the rest."""
    english = one if count == 1 else many
    text = english if _chosen == "en" else _catalogue(_chosen).ngettext(one, many, count)
    return text.format(count=f"{count:,}", **values)


@lru_cache
def _catalogue(name: str) -> NullTranslations:
    import gettext

    return gettext.translation(DOMAIN, localedir=FOLDER, languages=[name], fallback=True)


@contextmanager
def in_language(name: str) -> Iterator[None]:
    """Within it, texts are in the language ``name``; one that is not known leaves the language as it is."""
    before = language()
    if name in LANGUAGES:
        choose_language(name)
    try:
        yield
    finally:
        choose_language(before)
