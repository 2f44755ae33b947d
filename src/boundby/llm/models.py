"""The shipped model structures, by name."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from boundby.llm.config import read_config, structure_from_config
from boundby.llm.structure import ModelStructure
from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

# Models of one structure under other names: fine-tunes, and releases that differ in nothing counted here.
_SAME_SHAPE = {
    "llama-3-8b": "llama-3.1-8b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-3.3-70b": "llama-3.1-70b",
    "llama-7b": "llama-2-7b",
    "llama-13b": "llama-2-13b",
    "deepseek-r1": "deepseek-v3",
    "r1-distill-qwen-1.5b": "qwen2.5-1.5b",
    "r1-distill-qwen-7b": "qwen2.5-7b",
    "r1-distill-qwen-14b": "qwen2.5-14b",
    "r1-distill-qwen-32b": "qwen2.5-32b",
    "r1-distill-llama-8b": "llama-3.1-8b",
    "r1-distill-llama-70b": "llama-3.1-70b",
    "mistral-7b": "mistral-7b-v0.3",
}


@cache
def _table() -> dict[str, dict[str, Any]]:
    text = resources.files("boundby.llm").joinpath("data/models.json").read_bytes()
    models: dict[str, dict[str, Any]] = msgspec.json.decode(text)["models"]
    return models


def model_names() -> tuple[str, ...]:
    """The names of the shipped structures, in the table's order."""
    return tuple(_table())


def find_model(name: str) -> ModelStructure:
    """The structure of a name (`llama-3.1-8b`, `meta-llama/Llama-3.1-8B`), or of a path to a ``config.json``.

    Raises:
        BoundbyError: ``unknown-model`` names near ones; those of `boundby.llm.config.read_config` for a path.
    """
    key = resolve_name(name)
    if key is not None:
        entry = _table()[key]
        return structure_from_config(entry["config"], name=key, source=entry["source"])
    path = Path(name)
    if path.is_dir() and (path / "config.json").exists():
        return read_config(path / "config.json")
    if path.suffix == ".json" or path.exists():
        return read_config(path)
    near = get_close_matches(_plain(name), [*_table(), *_SAME_SHAPE], n=3, cutoff=0.5)
    told = tr("There is no shipped model {name}, nor a file of that name.", name=f"{name!r}")
    if near:
        told = tr("{first} {then}", first=told, then=tr("Near: {names}.", names=", ".join(near)))
    raise BoundbyError(
        "unknown-model",
        told,
        tr("Give one of the names of `boundby decode --list`, or the path of a config.json."),
        status=EXIT_USAGE,
    )


def resolve_name(name: str) -> str | None:
    """The key in the table that a name means; None where there is none."""
    plain = _plain(name)
    table = _table()
    if plain in table:
        return plain
    if plain in _SAME_SHAPE:
        return _SAME_SHAPE[plain]
    return next((key for key, entry in table.items() if _plain(entry["hf_id"]) == plain), None)


def _plain(name: str) -> str:
    """A name without its owner, in lower case, and without what says that it was tuned."""
    last = name.strip().lower().rsplit("/", 1)[-1].replace("_", "-").replace("meta-llama", "llama")
    return re.sub(r"-(hf|it|instruct|chat|base)\b", "", last).replace("deepseek-r1-distill", "r1-distill")
