"""A report without what is private of a script: its paths, source lines, names, and the words that could tell them.

What may stay is listed; any other text is taken out, so that a field that reports gain later is private until it is
listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
import msgspec.inspect

from boundby.results.counts import REGION_NAME
from boundby.results.language import tr
from boundby.results.report import Report

# Text of boundby's own, by its place in the report, beside words of a fixed choice; a star stands for any place below.
_PLAIN = (
    "schema",
    "tool.name",
    "tool.version",
    "machine.description.*",
    "machine.ceilings.*",
    "machine.findings.code",
    "modelled_for.measured_on.*",
    "step.device",
    "step.classes.digest",
    "counts.by_phase.name",
    "lines.floors.bound",
    "ops.floors.bound",
    "ops.shapes",
    "ops.dtype",
    "remedies.name",
    "remedies.title",
    "findings.code",
)
_PATHS = ("lines.path", "ops.path", "findings.path", "machine.findings.path")
_MODULES = ("ops.module", "timeline.module", "counts.by_module.name")
_OPS = ("ops.op", "lines.ops", "counts.by_op.name", "counts.unmodelled.name", "partly_modelled.name")
_PLACES = ("counts.by_line.name",)
# Sentences that boundby makes of numbers alone, but for the name of another machine's file.
_SENTENCES = ("verdict.sentence", "verdict.evidence")
# Findings whose words hold numbers and dtypes alone.
_PLAIN_FINDINGS = frozenset(
    {
        "allocation-shifted",
        "ceilings-missing",
        "device-not-modelled",
        "dtype-slow",
        "dtype-unusable",
        "input-bursty",
        "irregular-steps",
        "machine-moved",
        "machine-unsteady",
        "preempted",
        "quota-below-cores",
        "reconciliation-off",
        "script-failed",
        "steps-spread",
        "steps-vary",
        "threads-changed",
        "threads-over-cores",
    }
)
# Remedies whose reasons hold numbers alone.
_PLAIN_REASONS = frozenset(
    {
        "allocator",
        "batch-x2",
        "bf16-autocast",
        "channels-last",
        "fused-optimizer",
        "inference-mode",
        "launch",
        "matmul-precision",
        "recompute",
        "sparse-gradients",
    }
)
_OWN_OPS = re.compile(r"(aten|prims|quantized|quantized_decomposed|mkldnn|mkldnn_prepacked|inductor)(\.|::)\w[\w.]*")
_NO_NAME = frozenset({"(none)", "(unknown)"})
_COMMANDS = frozenset({"run", "try"})


def without_private_text(report: Report) -> Report:
    """The report with files called ``file 1``, modules ``module 1``, ops of the user's own ``op 1``, and no code.

    Numbers, shapes, the machine and the names of torch's own ops stay. So do the verdict, its evidence, and findings
    whose words are numbers, and reasons of remedies that are; of other findings and remedies, what could name something
    of the script is left out.

    Args:
        report: what to show to others; it is not changed.
    """
    plain: dict[str, Any] = msgspec.to_builtins(report)
    names = _Names(report)
    cleaned = names.cleaned(plain, "")
    cleaned["tool"]["command"] = _command(report.tool.command)
    if report.modelled_for is not None:
        cleaned["modelled_for"]["machine"] = names.sentence(report.modelled_for.machine)
    for kept, given in ((cleaned, plain), (cleaned["machine"], plain["machine"])):
        for finding, original in zip(kept["findings"], given["findings"], strict=True):
            # Those of another machine are told with the name of its file.
            if original["code"] in _PLAIN_FINDINGS and report.modelled_for is None:
                finding["message"], finding["advice"] = original["message"], original["advice"]
            else:
                finding["message"] = tr("left out, since its words could name something of the script")
    for remedy, original in zip(cleaned["remedies"], plain["remedies"], strict=True):
        if original["name"] in _PLAIN_REASONS and original["predicted"] is not None:
            remedy["predicted"]["reason"] = original["predicted"]["reason"]
    return msgspec.convert(cleaned, Report)


def _command(command: tuple[str, ...]) -> list[str]:
    """The command without its options and the script's words, which may hold anything."""
    if not command:
        return []
    # Options of boundby itself may stand before the name of its command, as `--lang zh`.
    name = next((word for word in command[1:4] if word in _COMMANDS), "run")
    return ["boundby", name, "SCRIPT"]


@cache
def _fixed_choices() -> frozenset[str]:
    """The places of a report that hold one of a few words that its format names, and no other."""
    return frozenset(_choices(msgspec.inspect.type_info(Report), ""))


def _choices(kind: msgspec.inspect.Type, place: str) -> Iterator[str]:
    match kind:
        case msgspec.inspect.LiteralType():
            yield place
        case msgspec.inspect.DataclassType(fields=fields):
            for field in fields:
                yield from _choices(field.type, f"{place}.{field.encode_name}" if place else field.encode_name)
        case msgspec.inspect.VarTupleType(item_type=item):
            yield from _choices(item, place)
        case msgspec.inspect.UnionType(types=types) if not any(
            isinstance(one, msgspec.inspect.StrType) for one in types
        ):
            for one in types:
                yield from _choices(one, place)


class _Names:
    """What private names are replaced by: each by its kind and a number, the same one wherever it stands."""

    def __init__(self, report: Report) -> None:
        self._numbers: dict[str, dict[str, int]] = {}
        model = report.modelled_for
        own = model is None or model.machine in (report.machine.description.cpu, "")
        self._other_machine = "" if own or model is None else model.machine
        self._replaced: dict[str, Callable[[str], str]] = {
            **dict.fromkeys(_PATHS, lambda text: self._numbered("file", text)),
            **dict.fromkeys(_MODULES, lambda text: text if text in _NO_NAME else self._numbered("module", text)),
            **dict.fromkeys(_OPS, self._op),
            **dict.fromkeys(_PLACES, self._place),
            **dict.fromkeys(_SENTENCES, self.sentence),
            **dict.fromkeys((*_PLAIN, *_fixed_choices()), lambda text: text),
        }
        # The costliest first, so that they have the lowest numbers.
        for line in report.lines:
            if line.path is not None:
                self._numbered("file", line.path)
        for op in report.ops:
            if op.module:
                self._numbered("module", op.module)

    def cleaned(self, value: Any, place: str) -> Any:
        """A value of the report's plain form with its texts replaced; ``place`` is where it stands, dots between."""
        if isinstance(value, dict):
            return {key: self.cleaned(item, f"{place}.{key}" if place else key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.cleaned(item, place) for item in value]
        if not isinstance(value, str) or not value:
            return value
        replaced = self._replaced.get(place)
        if replaced is not None:
            return replaced(value)
        return value if f"{place.rpartition('.')[0]}.*" in _PLAIN else ""

    def sentence(self, text: str) -> str:
        """A sentence without the name of another machine's file."""
        return text.replace(self._other_machine, tr("another machine")) if self._other_machine else text

    def _numbered(self, kind: str, name: str) -> str:
        known = self._numbers.setdefault(kind, {})
        return f"{kind} {known.setdefault(name, len(known) + 1)}"

    def _op(self, name: str) -> str:
        return name if name == REGION_NAME or _OWN_OPS.fullmatch(name) else self._numbered("op", name)

    def _place(self, text: str) -> str:
        """A source line as counts name it: a path, a colon and a number."""
        if text in _NO_NAME:
            return text
        path, colon, line = text.rpartition(":")
        number = colon and (line.isdecimal() or line == "None")
        return f"{self._numbered('file', path if number else text)}{f':{line}' if number else ''}"
