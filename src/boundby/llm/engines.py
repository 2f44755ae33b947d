"""Inference engines as data: into how many kernels they cut a step, and how they issue them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr

Partition = Literal["unfused", "fused", "megakernel"]
PARTITIONS: tuple[Partition, ...] = ("unfused", "fused", "megakernel")

# Whose profile holds for an engine that is run without graphs.
_WITHOUT_GRAPHS = {
    "vllm": "vllm-eager",
    "sglang": "vllm-eager",
    "llama.cpp": "llama.cpp-2023",
    "torch-compile": "huggingface",
}
_SHORT = 4
# Kernels a layer has beyond a dense one with plain attention.
_MORE_IF_SPARSE = 6
_MORE_IF_LATENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How an engine runs a decode step.

    ``kernels_per_layer`` and ``kernels_at_end`` are launches; ``graphs`` says whether the step is replayed as one
    graph. ``calibrated_as`` is the engine whose calibrated numbers hold. ``formats`` renames weight formats to what the
    engine means by them. ``known`` is False where the name fitted no engine, and the profile is that of the nearest
    kind.
    """

    name: str
    partition: Partition
    kernels_per_layer: int
    kernels_at_end: int
    graphs: bool
    about: str = ""
    calibrated_as: str
    formats: Mapping[str, str]
    known: bool = True

    def launches(self, layers: int, *, sparse: int = 0, latent: int = 0) -> int:
        """Kernels of one decode step.

        Args:
            layers: of the model.
            sparse: how many of them route tokens to experts: scores, choice, sorting, two grouped products, combining.
            latent: how many have latent attention: down- and up-projections and their norms.
        """
        if self.partition == "megakernel":
            return self.kernels_at_end
        more = _MORE_IF_SPARSE * sparse + _MORE_IF_LATENT * latent
        return self.kernels_per_layer * layers + self.kernels_at_end + more


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = msgspec.json.decode(
        resources.files("boundby.llm").joinpath("data/engines.json").read_bytes()
    )
    return table


def engine_names() -> tuple[str, ...]:
    """The names of the engines with a profile."""
    return tuple(_table()["engines"])


def find_engine(name: str) -> Engine:
    """The profile of an engine by its name.

    Raises:
        BoundbyError: ``unknown-engine`` names near ones.
    """
    engine = recognise_engine(name)
    if engine.known:
        return engine
    near = get_close_matches(name.lower(), engine_names(), n=3, cutoff=0.4)
    raise BoundbyError(
        "unknown-engine",
        tr("There is no profile of an engine {name}; near: {near}.", name=f"{name!r}", near=", ".join(near))
        if near
        else tr("There is no profile of an engine {name}.", name=f"{name!r}"),
        tr("Engines: {names}.", names=", ".join(engine_names())),
        status=EXIT_USAGE,
    )


def recognise_engine(published: str, source: str = "") -> Engine:
    """The profile that a published name fits: ``llama.cpp May 2024``, ``vLLM 0.10 ROCm``.

    ``source`` is where the name was published: a benchmark that is dated tells the version of an engine named without.

    A name that fits none gets the profile of its kind: graphs where the name speaks of graphs or compiling, unfused
    kernels issued one by one where it speaks of eager, and fused kernels otherwise; ``known`` is False.
    """
    text = re.sub(r"\s+", " ", published.strip().lower())
    engines = _table()["engines"]
    dated = [one["is"] for at, one in _table()["dated_sources"].items() if at in source and at != "about"]
    if dated and any(_says(text, word) for word in engines[dated[0]]["undated"]):
        return _engine(dated[0])
    if text in engines:
        return _engine(text)
    off = re.search(r"\b(no|without) (cuda )?graphs?\b|\beager\b|graphs? off", text)
    for key, entry in engines.items():
        if any(_says(text, word) for word in entry.get("match", ())):
            found = _engine(_WITHOUT_GRAPHS.get(key, key) if off else key)
            return replace(found, graphs=False) if off else found
    kind = "unfused" if off else "fused"
    graphs = not off and bool(re.search(r"graph|compile|capture", text))
    base = _engine(kind)
    return Engine(
        name=published,
        partition=base.partition,
        kernels_per_layer=base.kernels_per_layer,
        kernels_at_end=base.kernels_at_end,
        graphs=graphs,
        about=tr("no profile of its own: taken as {kind} kernels", kind=kind),
        calibrated_as=published,
        formats={},
        known=False,
    )


def _says(text: str, word: str) -> bool:
    """Whether a name has a word, not merely its letters: NIM is not in minimal."""
    end = r"(?![a-z0-9])" if len(word) <= _SHORT and word.isalnum() else ""
    return re.search(rf"(?<![a-z0-9]){re.escape(word)}{end}", text) is not None


def host_speed(text: str) -> float | None:
    """The relative speed of one core of a host that a text names; None where it names none known."""
    lower = text.lower()
    if "host" not in lower:
        return None
    hosts = _table()["hosts"]
    return next((float(hosts[key]) for key in hosts if key != "about" and f"{key} host" in lower), None)


def _engine(key: str) -> Engine:
    entry = _table()["engines"][key]
    return Engine(
        name=key,
        partition=entry["partition"],
        kernels_per_layer=entry["layer"],
        kernels_at_end=entry["end"],
        graphs=entry["graphs"],
        about=entry["about"],
        calibrated_as=entry.get("calibrated_as", key),
        formats=entry.get("formats", {}),
    )
