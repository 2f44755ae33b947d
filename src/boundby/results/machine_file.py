"""Machine files: schema ``boundby.machine``.

History:
- 1: ``description``, ``ceilings`` and ``findings``, the fields of ``MachineDescription``, ``Ceiling`` and ``Finding``.
  Added since, each with a default: ``measuring`` and its ``probes``, and of a ceiling ``arguments``, ``unsteady``,
  ``contradicted``, ``windows``, ``samples`` and ``own``, of a description ``device_name``.

A change that an older boundby could misread raises VERSION; a version that is not known is refused by its name.
"""

from __future__ import annotations

from boundby.results.documents import decode_document, encode_document
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
    return decode_document(
        data,
        Machine,
        schema=SCHEMA,
        version=VERSION,
        name=name,
        advice=tr("Write it again with `{command}`.", command="boundby machine -o FILE.json"),
    )
