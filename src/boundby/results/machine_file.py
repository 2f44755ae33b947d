"""Machine files: schema ``boundby.machine``.

History:
- 1: ``description``, ``ceilings`` and ``findings``, the fields of ``MachineDescription``, ``Ceiling`` and ``Finding``.
  Added since, each with a default: ``measuring`` and its ``probes``, and of a ceiling ``arguments``, ``unsteady``,
  ``contradicted``, ``windows``, ``samples`` and ``own``, of a description ``device_name``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from boundby.results.documents import decode_document, encode_document
from boundby.results.errors import BoundbyError
from boundby.results.language import tr
from boundby.results.machine import Machine

SCHEMA = "boundby.machine"
VERSION = 1


def encode_machine(machine: Machine) -> bytes:
    """The machine as indented UTF-8 JSON, without a final newline."""
    return encode_document(SCHEMA, VERSION, machine)


def decode_machine(data: bytes, *, name: str = "the machine file") -> Machine:
    """The machine a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    advice = tr("Write it again with `{command}`.", command="boundby machine -o FILE.json")
    machine = decode_document(data, Machine, schema=SCHEMA, version=VERSION, name=name, advice=advice)
    wrong = next(_faults(machine), None)
    if wrong is not None:
        raise BoundbyError("damaged-file", tr("{name} is damaged: {error}.", name=name, error=wrong), advice)
    return machine


def _faults(machine: Machine) -> Iterator[str]:
    """What cannot be of any machine, however the file came by it."""
    if machine.description.threads < 1:
        yield f"description.threads is {machine.description.threads}"
    for place, one in enumerate(machine.ceilings):
        if not 0 < one.low <= one.value <= one.high < math.inf:
            yield f"0 < low <= value <= high does not hold at ceilings[{place}] ({one.low}, {one.value}, {one.high})"
