"""Reports as files: round trips, refusals, and writing that leaves nothing half done."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import sample_reports
from hypothesis import given
from hypothesis import strategies as st

from boundby.report.json import render_json
from boundby.results.errors import BoundbyError
from boundby.results.files import check_writable, decode_header, decode_report, encode, read_file, write_new
from boundby.results.remedy import Predicted, Remedy
from boundby.results.report import Report

FILES = Path(__file__).parent / "files"
NOBODY = 65534


@pytest.fixture
def without_root() -> Iterator[None]:
    """Root may write everywhere; what a test asks of permissions it must ask as someone else."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(before)


def code_of(data: bytes, name: str = "x.json") -> tuple[str, str]:
    with pytest.raises(BoundbyError) as caught:
        decode_report(data, name=name)
    return caught.value.code, caught.value.message


def changed(**values: object) -> bytes:
    return json.dumps(json.loads(encode(sample_reports.overhead_bound())) | values).encode()


@pytest.mark.parametrize("name", sorted(set(sample_reports.ALL) - {"hostile"}))
def test_a_report_survives_its_file(name: str) -> None:
    report = sample_reports.ALL[name]()
    assert decode_report(encode(report), name="x.json") == report
    assert render_json(report) == report.to_json() + "\n"


def test_text_that_is_not_utf8_becomes_escapes() -> None:
    report = decode_report(encode(sample_reports.hostile()), name="x.json")
    assert report.lines[2].code == "f(':smile:', \\udcff)"
    assert report.lines[0] == sample_reports.hostile().lines[0]


def test_the_keys_come_in_the_documented_order() -> None:
    keys = list(json.loads(encode(sample_reports.overhead_bound())))
    assert keys[:13] == [
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
    ]
    assert set(keys) == {field.name for field in dataclasses.fields(Report)}


@pytest.mark.parametrize("name", ["overhead", "memory"])
def test_files_of_version_1_stay_readable(name: str) -> None:
    data = (FILES / f"report-version-1-{name}.json").read_bytes()
    assert decode_report(data, name="x.json") == sample_reports.ALL[name]()


def test_remedies_survive() -> None:
    predicted = Predicted(speedup=1.2, low=1.1, high=1.3, reason="203 ops fewer")
    remedy = Remedy(name="fused-optimizer", predicted=predicted, advice="do")
    report = dataclasses.replace(sample_reports.overhead_bound(), remedies=(remedy,))
    assert decode_report(encode(report), name="x.json") == report


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_json_cannot_hold_is_named(bad: float) -> None:
    report = sample_reports.overhead_bound()
    row = dataclasses.replace(report.lines[1], time_s=bad)
    with pytest.raises(ValueError, match=r"\$\.lines\[1\]\.time_s"):
        encode(dataclasses.replace(report, lines=(report.lines[0], row)))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"hello", "line 1, column 1"),
        (b'{\n  "schema": x}', "line 2, column 13"),
        (b"[1, 2]", "no JSON object"),
        (b'{"version": 1}', 'names no "schema"'),
        (b'{"traceEvents": []}', "it is a trace"),
        (b'{"schema": "boundby.report", "name": "\xff\xfe"}', "UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\x80\x04\x95", "damaged"),
    ],
)
def test_damaged_files_say_what_and_where(data: bytes, says: str) -> None:
    code, message = code_of(data, name="runs/x.json")
    assert code == "damaged-file"
    assert message.startswith("runs/x.json ")
    assert says in message
    assert "\n" not in message


@given(st.data())
def test_a_file_cut_off_anywhere_is_damaged(data: st.DataObject) -> None:
    whole = encode(sample_reports.overhead_bound())
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert code_of(cut)[0] == "damaged-file"


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(data: bytes) -> None:
    code, message = code_of(data)
    assert code in ("damaged-file", "unknown-schema", "unknown-version")
    assert "\n" not in message


def test_wrong_types_and_missing_parts_are_placed() -> None:
    assert code_of(changed(step=3))[1].endswith("at `$.step`.")
    assert "steps_timed" in code_of(changed(step={"kind": "training"}))[1] or "missing" in code_of(changed(step={}))[1]
    split = dict(json.loads(encode(sample_reports.overhead_bound()))["split"])
    split["memory"] = {"value": 0.1, "low": 0.2, "high": 0.3}
    code, message = code_of(changed(split=split))
    assert code == "damaged-file"
    assert "$.split.memory" in message


def test_other_schemas_and_versions_are_refused_by_name() -> None:
    assert code_of(changed(schema="boundby.machine")) == (
        "unknown-schema",
        'x.json has the schema "boundby.machine"; expected "boundby.report".',
    )
    code, message = code_of(changed(version=2))
    assert code == "unknown-version"
    assert message == "x.json is version 2 of boundby.report; this boundby reads version 1."
    for odd in (True, "1", None, 1.5, {"a": "b" * 500}):
        code, message = code_of(changed(version=odd))
        assert code == "unknown-version"
        assert len(message) < 200


def test_a_newer_minor_addition_and_a_byte_order_mark_are_accepted() -> None:
    data = b"\xef\xbb\xbf" + changed(added_later=[1, 2])
    assert decode_report(data, name="x.json") == sample_reports.overhead_bound()
    assert decode_header(data, name="x.json").schema == "boundby.report"


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_new(path, b"first", force=False)
    assert path.read_bytes() == b"first"
    with pytest.raises(BoundbyError, match=r"exists already") as caught:
        write_new(path, b"second", force=False)
    assert caught.value.code == "output-exists"
    assert path.read_bytes() == b"first"
    path.chmod(0o640)
    write_new(path, b"second", force=True)
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_new(tmp_path / "out.json", b"x", force=False)
    assert (tmp_path / "out.json").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failed_write_leaves_the_old_file_and_no_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BoundbyError, match="no space left on device") as caught:
        write_new(path, b"new", force=True)
    assert caught.value.code == "output-unwritable"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_new(link, b"x", force=False)
    assert link.is_symlink()
    assert target.read_bytes() == b"x"


@pytest.mark.parametrize("check_first", [True, False])
@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("missing/out.json", "output-unwritable", "missing does not exist"),
        ("file/out.json", "output-unwritable", "not a folder"),
        ("folder.json", "output-unwritable", "it is a directory"),
        ("pipe.json", "output-unwritable", "not a regular file"),
        ("taken.json", "output-exists", "exists already"),
        ("n" * 300 + ".json", "output-unwritable", "too long"),
    ],
)
def test_unwritable_places(tmp_path: Path, check_first: bool, name: str, code: str, says: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "taken.json").write_bytes(b"old")
    before = sorted(tmp_path.rglob("*"))
    path = tmp_path / name
    attempt = partial(check_writable, path, False) if check_first else partial(write_new, path, b"new", False)
    with pytest.raises(BoundbyError, match=says) as caught:
        attempt()
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    assert caught.value.advice
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "taken.json").read_bytes() == b"old"


def test_no_permission(tmp_path: Path, without_root: None) -> None:
    folder = Path("/usr")
    for path in (folder / "out.json", tmp_path / "out.json") if os.geteuid() == NOBODY else (folder / "out.json",):
        for write in (check_writable, lambda path, force: write_new(path, b"x", force)):
            with pytest.raises(BoundbyError, match="permission denied") as caught:
                write(path, False)
            assert caught.value.code == "output-unwritable"


def test_checking_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "out.json", False)
    check_writable(tmp_path / "OUT.JSON", False)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "out.json").write_bytes(b"old")
    check_writable(tmp_path / "out.json", True)
    assert (tmp_path / "out.json").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["out.xml", "out", "json", ".json", "-", "out.json.gz"])
def test_unknown_formats_list_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(BoundbyError, match=r"supported: \.json") as caught:
        check_writable(tmp_path / name, False)
    assert caught.value.code == "output-format"


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "no.json", "no-such-file"), (tmp_path, "unreadable-file")):
        with pytest.raises(BoundbyError) as caught:
            read_file(path)
        assert caught.value.code == code
