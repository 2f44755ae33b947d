"""A directive that lists the fields of a schema from the dataclasses that are written: name, type, unit, meaning.

Names and types come from the code, meanings from ``schema_fields.toml`` beside this file. A field without a meaning,
and a meaning without a field, is an error of the build, so that the page cannot fall behind the code.
"""

from __future__ import annotations

import dataclasses
import importlib
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

MEANINGS = Path(__file__).with_suffix(".toml")

# What each schema's file holds, as module:class; of a comparison there are two kinds.
SCHEMAS = {
    "boundby.report": ("boundby.results.report:Report",),
    "boundby.machine": ("boundby.results.machine:Machine",),
    "boundby.counts": ("boundby.results.count_file:CountFile",),
    "boundby.sweep": ("boundby.results.sweep:Sweep",),
    "boundby.scaling": ("boundby.results.scaling:Scaling",),
    "boundby.comparison": (
        "boundby.results.comparison:ReportComparison",
        "boundby.results.comparison:MachineComparison",
    ),
    "boundby.baseline": ("boundby.results.budgets:Baseline",),
    "boundby.check": ("boundby.results.budgets:Check",),
    "boundby.doctor": ("boundby.results.doctor:Examination",),
    "boundby.lab": ("boundby.results.lab:LabResult",),
}

# The unit that a name says, by its ending or its beginning.
UNITS_BY_ENDING = {
    "_per_s": "1/s",
    "_s": "s",
    "_bytes": "byte",
    "_flops": "FLOP",
    "bytes_read": "byte",
    "bytes_written": "byte",
    "share": "part of 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A row of the page."""

    name: str
    type: str
    unit: str
    meaning: str


def roots(schema: str) -> tuple[type, ...]:
    """The dataclasses that files of a schema hold."""
    found = []
    for place in SCHEMAS[schema]:
        module, name = place.split(":")
        found.append(getattr(importlib.import_module(module), name))
    return tuple(found)


def reachable(root: type) -> Iterator[type]:
    """A dataclass and all that its fields hold, each once, in the order in which a reader meets them."""
    seen: list[type] = []

    def visit(kind: type) -> None:
        if kind in seen:
            return
        seen.append(kind)
        for annotation in typing.get_type_hints(kind).values():
            for one in _parts(annotation):
                visit(one)

    visit(root)
    return iter(seen)


def _parts(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _parts(argument)


def type_words(annotation: Any) -> str:
    """A type as a reader of JSON calls it, in Markdown."""
    plain = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null", Any: "any"}
    if annotation in plain:
        return plain[annotation]
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return f"[{annotation.__name__}](#{anchor(annotation)})"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(one) for one in sorted(arguments, key=lambda one: one is type(None)))
    if origin in (tuple, list):
        if origin is tuple and arguments[-1] is not Ellipsis:
            return f"array of {len(arguments)}: {', '.join(type_words(one) for one in arguments)}"
        return f"array of {type_words(arguments[0])}"
    if origin is dict:
        return f"object of {type_words(arguments[1])}"
    raise TypeError(f"no words for the type {annotation}")


def anchor(kind: type) -> str:
    """The target of a dataclass's table on the page."""
    return f"schema-{kind.__name__.lower()}"


def read_meanings() -> dict[str, dict[str, str]]:
    """Meanings by class and field; a class ``any`` holds those of fields that mean the same everywhere."""
    return tomllib.loads(MEANINGS.read_text(encoding="utf-8"))


def fields_of(kind: type, meanings: dict[str, dict[str, str]]) -> list[Field]:
    """The rows of a dataclass.

    Args:
        kind: the dataclass.
        meanings: what ``read_meanings`` returns. A meaning may begin with its unit in brackets: ``[times] ...``.

    Raises:
        KeyError: a field without a meaning; names the class and the field.
    """
    hints = typing.get_type_hints(kind)
    rows = []
    for field in dataclasses.fields(kind):
        own, shared = meanings.get(kind.__name__, {}), meanings["any"]
        for base in kind.__mro__[1:]:
            own = meanings.get(base.__name__, {}) | own
        text = own.get(field.name, shared.get(field.name))
        if text is None:
            raise KeyError(f"{kind.__name__}.{field.name} has no meaning in {MEANINGS.name}")
        unit, text = _unit(field.name, text)
        rows.append(Field(name=field.name, type=type_words(hints[field.name]), unit=unit, meaning=text))
    return rows


def _unit(name: str, text: str) -> tuple[str, str]:
    if text.startswith("["):
        unit, _, rest = text[1:].partition("] ")
        return unit, rest
    return next((unit for ending, unit in UNITS_BY_ENDING.items() if name.endswith(ending)), ""), text


def unused_meanings(kinds: Iterable[type], meanings: dict[str, dict[str, str]]) -> list[str]:
    """Meanings of classes and fields that there are not (as ``Class.field``)."""
    names = {kind.__name__: {field.name for field in dataclasses.fields(kind)} for kind in kinds}
    every = set().union(*names.values())
    return [
        f"{owner}.{name}"
        for owner, texts in meanings.items()
        for name in texts
        if name not in (every if owner == "any" else names.get(owner, set()))
    ]


def all_kinds() -> list[type]:
    """Every dataclass of every schema, each once."""
    return list(dict.fromkeys(kind for schema in SCHEMAS for root in roots(schema) for kind in reachable(root)))


def tables(schema: str, described: set[type]) -> str:
    """Markdown of the tables of a schema, without those already ``described``, which grows by them."""
    meanings = read_meanings()
    lines = []
    for kind in dict.fromkeys(kind for root in roots(schema) for kind in reachable(root)):
        if kind in described:
            continue
        described.add(kind)
        lines += ["", f"({anchor(kind)})=", f"### {kind.__name__}", ""]
        lines += ["| field | type | unit | meaning |", "| --- | --- | --- | --- |"]
        lines += [f"| `{one.name}` | {one.type} | {one.unit} | {one.meaning} |" for one in fields_of(kind, meanings)]
    return "\n".join(lines)


class SchemaFields(SphinxDirective):
    """``{schema-fields} boundby.report`` becomes the tables of that schema which the page does not have yet."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The tables; an unknown schema or a field without a meaning is an error of the build."""
        schema = self.arguments[0]
        if schema not in SCHEMAS:
            raise self.error(f"there is no schema {schema}; known: {', '.join(SCHEMAS)}")
        self.env.note_dependency(str(MEANINGS))
        described: set[type] = self.env.temp_data.setdefault("schema_fields_described", set())
        try:
            text = tables(schema, described)
        except (KeyError, TypeError) as error:
            raise self.error(f"{schema}: {error.args[0]}") from None
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Registers the directive."""
    app.add_directive("schema-fields", SchemaFields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
