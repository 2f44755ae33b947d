"""Reports as files: encoding, decoding, and writing without ever leaving half a file or losing an old one."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import stat
from pathlib import Path
from typing import Any

import msgspec

from boundby.results.errors import EXIT_USAGE, BoundbyError
from boundby.results.language import tr
from boundby.results.report import SCHEMA, VERSION, Report

FORMATS = (".json",)
REPORT_FORMATS = (*FORMATS, ".html", ".md")
"""What a report can be written as: data, or a page of it."""

# The order of the keys is part of the format: a person who opens the file reads the answer before the details.
_FIRST_KEYS = (
    "schema",
    "version",
    "tool",
    "machine",
    "reconciliation",
    "step",
    "counts",
    "split",
    "overhead_parts",
    "verdict",
    "ops",
    "remedies",
    "findings",
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def encode(report: Report) -> bytes:
    """The report as indented UTF-8 JSON, schema ``boundby.report``, without a final newline.

    Raises:
        ValueError: a number in the report is NaN or infinite, which JSON cannot hold; names its place.
    """
    plain: dict[str, Any] = _storable(msgspec.to_builtins(report), "$")
    ordered = {key: plain[key] for key in _FIRST_KEYS} | plain
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2)


def decode_report(data: bytes, *, name: str) -> Report:
    """The report a file holds.

    Args:
        data: the file's bytes.
        name: what to call the file in an error: its path as the user wrote it, or ``standard input``.

    Raises:
        BoundbyError: ``damaged-file``, ``unknown-schema`` or ``unknown-version``.
    """
    header = decode_header(data, name=name)
    if header.schema != SCHEMA:
        raise BoundbyError(
            "unknown-schema",
            tr(
                "{name} has the schema {found}; expected {expected}.",
                name=name,
                found=_quoted(header.schema),
                expected=_quoted(SCHEMA),
            ),
            tr("Give a report that `boundby run -o FILE.json` wrote."),
        )
    if header.version != VERSION or isinstance(header.version, bool):
        raise BoundbyError(
            "unknown-version",
            tr(
                "{name} is version {found} of {schema}; this boundby reads version {expected}.",
                name=name,
                found=_quoted(header.version),
                schema=SCHEMA,
                expected=VERSION,
            ),
            tr("Use the boundby that wrote the file, or a newer one."),
        )
    try:
        return msgspec.json.decode(data.removeprefix(BYTE_ORDER_MARK), type=Report)
    except msgspec.ValidationError as error:
        raise _damaged(name, str(error)) from None


class Header(msgspec.Struct, frozen=True):
    """What a boundby file says it is, before anything else of it is believed."""

    schema: Any
    version: Any = None


def decode_header(data: bytes, *, name: str) -> Header:
    """The schema and version a file names; the whole file is checked to be JSON.

    Args:
        data: the file's bytes.
        name: what to call the file in an error.

    Raises:
        BoundbyError: ``damaged-file`` where it is not a JSON object, or names no schema.
    """
    data = data.removeprefix(BYTE_ORDER_MARK)
    if not data.strip():
        raise _damaged(name, tr("it is empty"))
    try:
        content = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise _damaged(name, _place(str(error), data)) from None
    except UnicodeDecodeError as error:
        raise _damaged(name, tr("it is not UTF-8 text (byte {place})", place=error.start)) from None
    except RecursionError:
        raise _damaged(name, tr("it is nested too deeply")) from None
    if not isinstance(content, dict):
        raise _damaged(name, tr("it holds no JSON object"))
    if "schema" not in content and "traceEvents" in content:
        raise _damaged(name, tr("it is a trace, to be opened at ui.perfetto.dev or in chrome://tracing"))
    if "schema" not in content:
        raise _damaged(name, tr('it names no "schema"'))
    return Header(schema=content["schema"], version=content.get("version"))


def read_file(path: Path, *, most_bytes: int | None = None, advice: str = "") -> bytes:
    """The bytes of a file the user named.

    Args:
        path: where it is.
        most_bytes: what a file of its kind may have at most; of a larger one nothing is read. None: any size.
        advice: what to give instead of a larger one.

    Raises:
        BoundbyError: ``no-such-file``, ``unreadable-file`` where it exists and cannot be read, or ``file-too-large``.
    """
    try:
        size = path.stat().st_size if most_bytes is not None else 0
    except OSError:
        size = 0  # reading it says what is wrong
    if most_bytes is not None and size > most_bytes:
        raise BoundbyError(
            "file-too-large",
            tr(
                "{path} has {size} bytes; a file of this kind has {most} at most.",
                path=path,
                size=f"{size:,}",
                most=f"{most_bytes:,}",
            ),
            advice or tr("Check the path."),
            status=EXIT_USAGE,
        )
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise BoundbyError("no-such-file", tr("There is no file {path}.", path=path), tr("Check the path.")) from None
    except OSError as error:
        raise BoundbyError(
            "unreadable-file",
            tr("Cannot read {path}: {reason}.", path=path, reason=_reason(error)),
            tr("Check the path."),
        ) from None


def check_writable(path: Path, force: bool, *, formats: tuple[str, ...] = FORMATS) -> None:
    """Makes sure, before a long run, that its result can be written to ``path``; leaves nothing behind.

    Args:
        path: where the result is to go; its extension picks the format.
        force: whether an existing file may be replaced.
        formats: the extensions that can be written, with their dots.

    Raises:
        BoundbyError: ``output-format``, ``output-exists`` or ``output-unwritable``.
    """
    if path.suffix.lower() not in formats:
        known = ", ".join(formats)
        raise BoundbyError(
            "output-format",
            tr(
                "Cannot tell the format of {path}: it ends in {suffix}; supported: {known}.",
                path=path,
                suffix=path.suffix,
                known=known,
            )
            if path.suffix
            else tr(
                "Cannot tell the format of {path}: it has no extension; supported: {known}.", path=path, known=known
            ),
            tr(
                "Name the file with one of these extensions, for example {name}.",
                name=f"{path.stem or 'report'}{formats[0]}",
            ),
        )
    target = _require_free(path, force)
    try:
        temporary = _create_beside(target)
        temporary.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def write_new(path: Path, data: bytes, force: bool) -> None:
    """Writes a whole file or nothing: first beside ``path``, then renamed over it.

    Args:
        path: where the data goes. A symbolic link is followed.
        data: the file's bytes.
        force: whether an existing file may be replaced; it keeps its permissions.

    Raises:
        BoundbyError: ``output-exists`` or ``output-unwritable``.
    """
    target = _require_free(path, force)
    temporary: Path | None = None
    try:
        temporary = _create_beside(target)
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        # Another process may have written the file while this one was busy.
        _require_free(path, force)
        temporary.replace(target)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _require_free(path: Path, force: bool) -> Path:
    """The real file behind ``path``, where a file may be put there."""
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except OSError as error:
        raise _unwritable(path, error) from None
    if stat.S_ISDIR(mode):
        raise _unwritable(path, tr("it is a directory"))
    if not stat.S_ISREG(mode):
        raise _unwritable(path, tr("it is not a regular file"))
    if not force:
        raise BoundbyError(
            "output-exists",
            tr("{path} exists already.", path=path),
            tr("Name another file, or replace this one with --force."),
        )
    if not os.access(target, os.W_OK):
        raise _unwritable(path, tr("the file that is there is read-only"))
    return target


def _create_beside(target: Path) -> Path:
    temporary = target.parent / f".boundby-{secrets.token_hex(6)}.tmp"
    temporary.touch(exist_ok=False)
    return temporary


def _unwritable(path: Path, why: OSError | str) -> BoundbyError:
    if isinstance(why, FileNotFoundError) and not path.parent.exists():
        reason = tr("the folder {folder} does not exist", folder=path.parent)
    elif isinstance(why, NotADirectoryError):
        reason = tr("{folder} is not a folder", folder=path.parent)
    else:
        reason = why if isinstance(why, str) else _reason(why)
    return BoundbyError(
        "output-unwritable",
        tr("Cannot write {path}: {reason}.", path=path, reason=reason),
        tr("Name a file in a folder that you can write to."),
    )


def _reason(error: OSError) -> str:
    text = error.strerror or type(error).__name__
    return text[0].lower() + text[1:]


def _damaged(name: str, what: str) -> BoundbyError:
    return BoundbyError(
        "damaged-file",
        tr("{name} is damaged or was not written by boundby: {what}.", name=name, what=what),
        tr("Write it again, for example with `boundby run -o FILE.json SCRIPT`."),
    )


def _place(message: str, data: bytes) -> str:
    """A decoder's message with its byte offset told as a line and column."""
    if "truncated" in message:
        return tr("it is cut off after {number} bytes", number=f"{len(data):,}")
    text, found, offset = message.rpartition("(byte ")
    if not found or not offset.rstrip(")").isdigit():
        return message
    before = data[: int(offset.rstrip(")"))]
    return tr(
        "{what} (line {line}, column {column})",
        what=text.strip(),
        line=before.count(10) + 1,
        column=len(before) - before.rfind(10),
    )


def _quoted(value: object) -> str:
    """A value found in a file, short and on one line."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _storable(value: Any, place: str) -> Any:
    """The value as JSON can hold it: file names that are not UTF-8 become text with escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}; a report holds finite numbers, and None where one is unknown")
    if isinstance(value, dict):
        return {_storable(key, place): _storable(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item, f"{place}[{index}]") for index, item in enumerate(value)]
    return value
