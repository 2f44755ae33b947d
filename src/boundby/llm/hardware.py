"""Hardware to run on: shipped data sheets, this machine's own ceilings, or a file of the user's.

Rates are dense peaks: a figure that counts on zeros being skipped is twice what a dense product can reach.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NoReturn

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr
from boundby.results.machine import Ceiling, Machine, reaches_main_memory

HardwareSource = Literal["datasheet", "measured", "file"]

# Whose rate stands for main memory, the first that was measured.
_STREAMS = ("read", "triad", "copy", "write", "inplace")
_LARGEST_FILE = 64 * 1024 * 1024

# What one device has had so far lies well inside; what lies outside was given in another unit, or for many devices.
_BANDWIDTH_RANGE = (1e8, 3e13)
_PEAK_RANGE = (1e8, 1e17)
_MEMORY_RANGE = (1e7, 1e14)
# FLOP a byte at which 16-bit products and memory meet: 2 on one core, 25 to 1000 on accelerators.
_RIDGE_RANGE = (0.5, 2000.0)

_PEAK_COLUMNS = {"fp32": "fp32_TF", "bf16": "bf16_TF", "fp8": "fp8_TF", "int8": "int8_TOPS", "fp4": "fp4_TF"}
_KINDS = "nvidia-hbm nvidia-gddr nvidia-shared amd-hbm amd-gddr intel-gddr apple accelerator cpu unknown"
KINDS = frozenset(_KINDS.split())
# Whose 16-bit products run on units of their own, at two to sixteen times the fp32 rate.
_MATRIX_UNITS = frozenset({"nvidia-hbm", "nvidia-gddr", "nvidia-shared", "amd-hbm", "amd-gddr", "intel-gddr"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device: rates in bytes/s and FLOP/s, sizes in bytes; None where unknown.

    ``source`` says whether the rates are a data sheet's or measured; ``origin`` where they are from. ``launch_s`` is
    the measured cost of one op, where the device is a machine that boundby measured. ``dies`` are the parts that
    software sees as a device each, with half of the rates and the memory where they are two; None where not known.
    """

    name: str
    kind: str
    bytes_per_s: float
    memory_bytes: float | None = None
    peaks: Mapping[str, float]
    source: HardwareSource = "datasheet"
    origin: str = ""
    note: str = ""
    launch_s: float | None = None
    dies: int | None = None

    def peak(self, weights: str) -> tuple[str, float] | None:
        """The dense rate that products with weights of a format run at, with the name of its type; None where unknown.

        Weights are widened to 16 bits before the product, unless the format is one that both factors have: ``fp8``,
        ``nvfp4``. The fp32 rate stands for an unknown 16-bit one where no matrix units are known to make the latter a
        multiple of it.
        """
        own = {"fp8": "fp8", "nvfp4": "fp4", "fp32": "fp32"}.get(weights)
        order = [name for name in (own, "bf16") if name]
        if self.kind not in _MATRIX_UNITS:
            order.append("fp32")
        return next(((name, self.peaks[name]) for name in order if name in self.peaks), None)


@cache
def _rows() -> dict[str, dict[str, str]]:
    text = resources.files("boundby.llm").joinpath("data/hardware.csv").read_text(encoding="utf-8")
    return {row["device"]: row for row in csv.DictReader(text.splitlines())}


def hardware_names() -> tuple[str, ...]:
    """The names of the shipped data sheets, in the table's order."""
    return tuple(_rows())


def find_hardware(name: str) -> Hardware:
    """The hardware of a shipped name, or of a file: a machine file of boundby's, or a spec of the user's.

    A shipped name is found whatever its case and punctuation, and by its beginning where only one fits.

    Raises:
        BoundbyError: ``unknown-hardware`` names near ones; ``hardware-spec``, ``damaged-file``, ``file-too-large``...
            for a file.
    """
    path = Path(name)
    if path.suffix == ".json":
        return read_hardware(path)
    row = _find_row(name)
    if row is not None:
        return _from_row(row)
    names = {_plain(one): one for one in _rows()}
    close = get_close_matches(_plain(name), names, n=4, cutoff=0.4)
    starts = [one for key, one in names.items() if _plain(name) and _plain(name) in key]
    near = list(dict.fromkeys([*starts[:4], *(names[key] for key in close)]))[:4]
    told = tr("There is no shipped hardware {name}.", name=f"{name!r}")
    if near:
        told = tr("{first} {then}", first=told, then=tr("Near: {names}.", names=", ".join(near)))
    raise BoundbyError(
        "unknown-hardware",
        told,
        tr("Give one of the names of `boundby decode --list`, a machine file or a hardware file (.json)."),
        status=EXIT_USAGE,
    )


def _find_row(name: str) -> dict[str, str] | None:
    by_plain = {_plain(one): row for one, row in _rows().items()}
    # Cards are often named with their memory, and Apple's chips without their maker.
    for text in (name, re.sub(r"[\s-]\d+\s?gi?b$", "", name.strip().lower())):
        plain = _plain(text)
        if plain in by_plain:
            return by_plain[plain]
        for maker in ("nvidia", "geforce", "tesla", "amd", "intel", "instinct", "radeon"):
            plain = plain.removeprefix(maker)
        for said in (plain, f"apple{plain}"):
            if said in by_plain:
                return by_plain[said]
            fits = [row for key, row in by_plain.items() if plain and key.startswith(said)]
            # An A100 of 40 or of 80 GB differs in its bandwidth: where several fit, none is guessed.
            if fits:
                return fits[0] if len(fits) == 1 else None
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\(.*?\)", "", name.lower()))


def _from_row(row: Mapping[str, str]) -> Hardware:
    peaks = {name: float(row[column]) * 1e12 for name, column in _PEAK_COLUMNS.items() if row.get(column)}
    if "bf16" not in peaks and row["kind"] == "apple" and "fp32" in peaks:
        peaks["bf16"] = peaks["fp32"]
    return Hardware(
        name=row["device"],
        kind=row["kind"],
        bytes_per_s=float(row["bw_GBs"]) * 1e9,
        memory_bytes=float(row["mem_GB"]) * 1e9 if row["mem_GB"] else None,
        peaks=peaks,
        source="measured" if "(measured)" in row["device"] else "datasheet",
        origin=row["source"],
        note=row["note"],
        dies=int(row["dies"] or 1),
    )


def read_hardware(path: Path) -> Hardware:
    """The hardware of a JSON file: a machine file that ``boundby machine -o`` wrote, or a spec.

    A spec is an object with ``name``, ``bandwidth_gb_per_s`` and, where known, ``memory_gb``, ``kind`` and
    ``peak_tflops``, an object of dense peaks by type (``fp32``, ``bf16``, ``fp8``, ``int8``, ``fp4``). ``like`` names a
    shipped device whose other values hold.

    Raises:
        BoundbyError: ``hardware-spec``, ``file-too-large``, ``no-such-file`` and what a damaged machine file raises.
    """
    import msgspec

    from boundby.results.files import read_file

    data = read_file(path, most_bytes=_LARGEST_FILE, advice=_advice())
    try:
        content = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(str(path), tr("it is not JSON: {error}", error=error).split("\n")[0])
    if isinstance(content, dict) and "schema" in content:
        from boundby.results.machine_file import decode_machine

        return hardware_from_machine(decode_machine(data, name=str(path)), name=path.stem)
    if not isinstance(content, dict):
        _refuse(str(path), tr("it holds no JSON object"))
    return hardware_from_spec(content, name=path.stem)


def hardware_from_spec(spec: Mapping[str, Any], *, name: str) -> Hardware:
    """The hardware a spec describes, refused where it cannot be.

    Raises:
        BoundbyError: ``hardware-spec``, or ``unknown-hardware`` for ``like``.
    """
    known = {"name", "like", "kind", "bandwidth_gb_per_s", "memory_gb", "peak_tflops", "source", "note"}
    strange = sorted(set(spec) - known)
    name = str(spec.get("name") or name)
    if strange:
        _refuse(
            name,
            tr(
                "{fields} is no field of a spec; expected {known}",
                fields=", ".join(map(repr, strange[:3])),
                known=", ".join(sorted(known)),
            ),
        )
    base = find_hardware(str(spec["like"])) if spec.get("like") else None
    if "bandwidth_gb_per_s" not in spec and base is None:
        _refuse(name, tr("it has no bandwidth_gb_per_s"))
    given = spec.get("peak_tflops", {})
    if not isinstance(given, Mapping):
        _refuse(name, tr("peak_tflops is no object of rates by type"))
    unknown = sorted(set(given) - set(_PEAK_COLUMNS))
    if unknown:
        _refuse(
            name,
            tr(
                "peak_tflops names {name}; expected {known}",
                name=f"{unknown[0]!r}",
                known=", ".join(_PEAK_COLUMNS),
            ),
        )
    bandwidth = base.bytes_per_s if base else math.nan
    if "bandwidth_gb_per_s" in spec:
        bandwidth = _number(spec["bandwidth_gb_per_s"], name, "bandwidth_gb_per_s") * 1e9
    memory = base.memory_bytes if base else None
    if spec.get("memory_gb") is not None:
        memory = _number(spec["memory_gb"], name, "memory_gb") * 1e9
    peaks = dict(base.peaks) if base else {}
    peaks |= {key: _number(value, name, f"peak_tflops.{key}") * 1e12 for key, value in given.items()}
    kind = str(spec.get("kind") or (base.kind if base else "unknown"))
    if kind not in KINDS:
        _refuse(name, tr("kind {kind} is none of {kinds}", kind=f"{kind!r}", kinds=", ".join(sorted(KINDS))))
    found = Hardware(
        name=name,
        kind=kind,
        bytes_per_s=bandwidth,
        memory_bytes=memory,
        peaks=peaks,
        source="file",
        origin=str(spec.get("source") or tr("the spec file")),
        note=str(spec.get("note") or ""),
        dies=base.dies if base else None,
    )
    check_hardware(found, like=base)
    return found


def check_hardware(hardware: Hardware, *, like: Hardware | None = None) -> None:
    """Refuses a device whose numbers contradict each other, a shipped device of that name, or all that is built.

    Args:
        hardware: the device.
        like: the shipped device that it is a variant of.

    Raises:
        BoundbyError: ``hardware-spec``.
    """
    name = hardware.name
    _require(name, tr("a bandwidth"), hardware.bytes_per_s, _BANDWIDTH_RANGE, "bytes/s")
    if hardware.memory_bytes is not None:
        _require(name, tr("a memory"), hardware.memory_bytes, _MEMORY_RANGE, "bytes")
    for key, peak in hardware.peaks.items():
        _require(name, tr("a {key} peak", key=key), peak, _PEAK_RANGE, "FLOP/s")
    _compare_with_sheets(hardware, like)
    wide = hardware.peaks.get("bf16")
    ridge = wide / hardware.bytes_per_s if wide else None
    if wide and ridge and not _RIDGE_RANGE[0] <= ridge <= _RIDGE_RANGE[1]:
        _refuse(
            name,
            tr(
                "a bf16 peak of {peak} TFLOP/s to {rate} GB/s is {ridge} FLOP a byte; devices have {least} to {most}",
                peak=f"{wide / 1e12:,.6g}",
                rate=f"{hardware.bytes_per_s / 1e9:,.6g}",
                ridge=f"{ridge:,.3g}",
                least=_RIDGE_RANGE[0],
                most=f"{_RIDGE_RANGE[1]:,.0f}",
            ),
        )
    if hardware.memory_bytes and hardware.bytes_per_s > 1000 * hardware.memory_bytes:
        _refuse(
            name,
            tr(
                "{rate} GB/s would read its {memory} GB over 1000 times a second",
                rate=f"{hardware.bytes_per_s / 1e9:,.6g}",
                memory=f"{hardware.memory_bytes / 1e9:,.6g}",
            ),
        )
    narrow = hardware.peaks.get("fp8")
    if narrow and wide and narrow > 3.5 * wide:
        _refuse(
            name,
            tr(
                "an fp8 peak of {ratio} times the bf16 one counts sparsity; dense it is twice at most",
                ratio=f"{narrow / wide:.1f}",
            ),
        )
    if wide and "fp32" in hardware.peaks and hardware.peaks["fp32"] > 1.01 * wide:
        _refuse(name, tr("its fp32 peak is above its bf16 peak"))


def _compare_with_sheets(hardware: Hardware, like: Hardware | None) -> None:
    """Compares with the shipped devices of that name, or, where there is none, with those of that very bandwidth."""
    plain = _plain(hardware.name)
    rows = _rows()
    sheets = [like] if like else [_from_row(row) for one, row in rows.items() if _plain(one) == plain]
    sheets = sheets or [
        _from_row(row)
        for one, row in rows.items()
        if len(plain) >= 3 and (plain in _plain(one) or _plain(one) in plain)
    ]
    if sheets and all(not 0.2 <= hardware.bytes_per_s / sheet.bytes_per_s <= 1.5 for sheet in sheets):
        sheet = sheets[0]
        _refuse(
            hardware.name,
            tr(
                "{rate} GB/s contradicts the {known} of {name}",
                rate=f"{hardware.bytes_per_s / 1e9:,.6g}",
                known=f"{sheet.bytes_per_s / 1e9:,.6g}",
                name=sheet.name,
            ),
        )
    same_rate = [
        sheet for sheet in map(_from_row, rows.values()) if abs(hardware.bytes_per_s / sheet.bytes_per_s - 1) < 0.005
    ]
    for key, peak in hardware.peaks.items():
        dense = [(sheet.peaks[key], sheet.name) for sheet in sheets or same_rate if key in sheet.peaks]
        if any(0.75 <= peak / one <= 1.3 for one, _ in dense):
            continue
        for one, sheet_name in dense:
            if 1.9 <= peak / one <= 2.1:
                _refuse(
                    hardware.name,
                    tr(
                        "its {key} peak of {peak} TFLOP/s is twice the dense {known} of {name}: that counts sparsity",
                        key=key,
                        peak=f"{peak / 1e12:,.6g}",
                        known=f"{one / 1e12:,.6g}",
                        name=sheet_name,
                    ),
                )
        if sheets and dense and all(not 0.2 <= peak / one <= 1.5 for one, _ in dense):
            _refuse(
                hardware.name,
                tr(
                    "its {key} peak of {peak} TFLOP/s contradicts the {known} of {name}",
                    key=key,
                    peak=f"{peak / 1e12:,.6g}",
                    known=f"{dense[0][0] / 1e12:,.6g}",
                    name=dense[0][1],
                ),
            )


def hardware_from_machine(machine: Machine, *, name: str) -> Hardware:
    """A measured machine as hardware: its bandwidth of main memory, its matrix products, its cost of an op.

    Raises:
        BoundbyError: ``hardware-spec`` where no bandwidth of main memory was measured.
    """
    threads = machine.description.threads
    mine = [one for one in machine.ceilings if one.threads in (threads, 1)]
    bandwidth = _main_memory(mine)
    if bandwidth is None or not reaches_main_memory(machine):
        _refuse(name, tr("the machine file holds no bandwidth of main memory"))
    peaks: dict[str, float] = {}
    for one in mine:
        if one.kind == "matmul" and one.unit == "flop/s" and one.stack == "torch" and one.dtype:
            key = "bf16" if one.dtype == "fp16" else one.dtype
            peaks[key] = max(peaks.get(key, 0.0), one.value)
    overheads = [
        one.value for one in mine if one.kind in ("launch", "overhead") and one.name in ("launch", "pointwise")
    ]
    described = machine.description
    if described.device == "cpu":
        known = described.cpu or name
        kind, memory = "cpu", float(described.memory_limit_bytes or described.memory_bytes or 0) or None
    else:
        known = described.device_name or described.device
        row = _find_row(known)
        kind, memory = (row["kind"], _from_row(row).memory_bytes) if row else ("unknown", None)
    return Hardware(
        name=known,
        kind=kind,
        bytes_per_s=bandwidth,
        memory_bytes=memory,
        peaks={key: value for key, value in peaks.items() if key in _PEAK_COLUMNS},
        source="measured",
        origin=_measured_where(machine, name),
        launch_s=min(overheads, default=None),
    )


def _measured_where(machine: Machine, name: str) -> str:
    when = machine.description.measured_at
    origin = (
        tr("{name}, measured {when}", name=name, when=when)
        if when
        else tr("{name}, measured by {command}", name=name, command="boundby machine")
    )
    if any(one.code == "machine-busy" for one in machine.findings):
        return tr("{origin} beside other load: it may be faster than this", origin=origin)
    return origin


def _main_memory(ceilings: list[Ceiling]) -> float | None:
    """How fast main memory is read, in bytes/s: a step that decodes reads weights and cache, and writes next to none.

    Of torch's own reading where that was measured, else of any stack's, else of the first other stream that was. In
    place comes last: it counts each byte as read and as written, so its rate is up to twice that of reading alone.
    """
    streams = [one for one in ceilings if one.kind == "bandwidth" and one.unit == "byte/s" and one.name in _STREAMS]
    largest = max((one.size_bytes or 0 for one in streams), default=0)
    at_largest = [one for one in streams if (one.size_bytes or 0) == largest]
    sound = [one for one in at_largest if not one.contradicted] or at_largest
    for name in _STREAMS:
        named = [one for one in sound if one.name == name]
        own = [one for one in named if one.stack == "torch"] or named
        if own:
            return max(one.value for one in own)
    return None


def _number(value: object, name: str, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        _refuse(name, tr("{field} is {value}; expected a positive number", field=field, value=f"{value!r}"))
    return float(value)


def _require(name: str, what: str, value: float, band: tuple[float, float], unit: str) -> None:
    if not (math.isfinite(value) and band[0] <= value <= band[1]):
        _refuse(
            name,
            tr(
                "{what} of {value} {unit} is none that a device has ({low} to {high})",
                what=what,
                value=f"{value:.3g}",
                unit=unit,
                low=f"{band[0]:.0e}",
                high=f"{band[1]:.0e}",
            ),
        )


def _advice() -> str:
    return tr("Check it against the data sheet, dense peaks only; docs: boundby decode, hardware files.")


def _refuse(name: str, what: str) -> NoReturn:
    raise BoundbyError(
        "hardware-spec", tr("{name} cannot be: {what}.", name=name, what=what), _advice(), status=EXIT_USAGE
    )
