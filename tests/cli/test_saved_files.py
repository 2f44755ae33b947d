"""Every kind of file that boundby writes: `boundby show` and `boundby report` read it, or refuse it by what it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import boundby
from boundby.cli.main import main
from boundby.results.budgets import Check, Judgement, encode_check
from boundby.results.comparison import MachineComparison, Side, encode_comparison
from boundby.results.count_file import CountFile, encode_counts
from boundby.results.counts import GroupCounts
from boundby.results.doctor import Examination, encode_examination, fine
from boundby.results.files import decode_report
from boundby.results.interval import interval
from boundby.results.lab import LabDemonstration, LabLine, LabPart, LabResult, LabTable, encode_lab
from boundby.results.machine_file import encode_machine
from boundby.results.module_tree import CallCounts, ModuleNode
from boundby.results.report import Tool
from boundby.results.scaling import encode_scaling
from boundby.results.sweep import SweepPoint, encode_sweep, swept
from boundby.scaling.fits import fit_growth
from boundby.scaling.given import given_points, read_pairs
from boundby.scaling.summary import scaling_of

FILES = Path(__file__).parent.parent / "report" / "files"
REPORT = FILES / "report-version-1-overhead.json"

# Any import of these ends the process, as on a computer that has none of them.
WITHOUT_TORCH = """
import sys
for name in ("torch", "numpy", "scipy", "psutil", "threadpoolctl"):
    sys.modules[name] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""


def machine() -> bytes:
    return encode_machine(decode_report(REPORT.read_bytes(), name="x").machine)


def counts() -> bytes:
    none = GroupCounts(name="")
    tree = ModuleNode(
        name="",
        path="",
        type="",
        calls=1,
        parameters=0,
        own_parameters=0,
        total=none,
        own=none,
        saved_bytes=0,
        own_saved_bytes=0,
    )
    tool = Tool(name="boundby", version="0.1.0", command=())
    return encode_counts(
        CountFile(target="net.py:make", backward=False, fake=False, tool=tool, counts=CallCounts(tree=tree))
    )


def sweep() -> bytes:
    times = [(n, 2e-3 + 5e-5 * n) for n in (1, 4, 16, 64, 256)]
    points = tuple(SweepPoint(at=at, time_s=interval(time, 0.9 * time, 1.1 * time)) for at, time in times)
    fit = fit_growth(times)
    return encode_sweep(swept(target="m:make", argument="batch", backward=False, threads=1, points=points, fit=fit))


def scaling() -> bytes:
    return encode_scaling(scaling_of(given_points(read_pairs("1:1.0,2:1.8,4:3.1")), origin="given"))


def comparison() -> bytes:
    sides = [Side(name=name, cpu=None, threads=1) for name in ("a.json", "b.json")]
    return encode_comparison(
        MachineComparison(
            a=sides[0],
            b=sides[1],
            sentence="b.json is as fast as a.json.",
            same_machine=True,
            description=(),
            main=(),
            ceilings=(),
            only_a=0,
            only_b=0,
            between_runs=0.05,
        )
    )


def check() -> bytes:
    judged = Judgement(
        name="max_launches", of="launches", state="over", value=41, limit=40, least=False, source="pyproject.toml"
    )
    return encode_check(Check(target="train.py", passed=False, judgements=(judged,)))


def examination() -> bytes:
    return encode_examination(
        Examination(
            examined_at="2026-01-01T00:00:00Z",
            cpu=None,
            os="Linux",
            python="3.11.9",
            torch=None,
            checks=(fine("load", "nothing else runs"),),
        )
    )


def lab() -> bytes:
    table = LabTable(caption="", head=("n", "time"), rows=(("8", "3 µs"),), timed=(1,))
    parts = (LabPart(table=table), LabPart(line=LabLine(text="A line between.")))
    shown = LabDemonstration(number=1, name="products", title="Matrix products", data={"n": 8}, parts=parts)
    return encode_lab(
        LabResult(lab="measure", quick=True, device="cpu", threads=1, language="en", demonstrations=(shown,))
    )


def estimate() -> bytes:
    from boundby.llm.decode import estimate_decode
    from boundby.llm.decode_file import encode_estimate
    from boundby.llm.hardware import find_hardware
    from boundby.llm.models import find_model

    return encode_estimate(estimate_decode(find_model("llama-3.2-1b"), find_hardware("H100-SXM5")))


Make = Callable[[], bytes]
# What makes a file of each schema, words of it, and whether there is a page of it.
KINDS: dict[str, tuple[Make, str, bool]] = {
    "boundby.report": (REPORT.read_bytes, "bound by overhead", True),
    "boundby.machine": (machine, "AMD EPYC 9R14", True),
    "boundby.counts": (counts, "net.py:make", False),
    "boundby.sweep": (sweep, "both parts are as long", True),
    "boundby.scaling": (scaling, "10x", True),
    "boundby.comparison": (comparison, "b.json is as fast as a.json.", False),
    "boundby.check": (check, "launches", True),
    "boundby.doctor": (examination, "nothing else runs", False),
    "boundby.lab": (lab, "A line between.", True),
    "boundby.decode": (estimate, "llama-3.2-1b on H100-SXM5, bf16", True),
}
# Words of the advice for what no command shows.
REFUSED = {"boundby.baseline": "boundby check --baseline", "boundby.validation": "boundby validate"}


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def test_each_schema_that_is_written_is_read_or_refused() -> None:
    package = Path(boundby.__file__).parent
    sources = [path.read_text(encoding="utf-8") for path in package.rglob("*.py")]
    written = {name for source in sources for name in re.findall(r'^\w*SCHEMA = "([^"]+)"$', source, re.MULTILINE)}
    assert written == KINDS.keys() | REFUSED.keys()


@pytest.mark.parametrize("schema", KINDS)
def test_show_shows_it_and_writes_it_as_it_was(schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words, _ = KINDS[schema]
    data = make()
    assert json.loads(data)["schema"] == schema
    file, again = tmp_path / "x.json", tmp_path / "again.json"
    file.write_bytes(data)
    assert run("show", str(file)) == 0
    assert words in " ".join(capsys.readouterr().out.split())
    assert run("show", "--json", str(file), "-o", str(again)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(again.read_bytes())
    assert printed.items() >= {name: printed[name] for name in json.loads(data)}.items()
    if schema not in ("boundby.report", "boundby.machine"):
        assert printed == json.loads(data)


@pytest.mark.parametrize("schema", KINDS)
def test_report_makes_a_page_of_it_or_names_what_shows_it(
    schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, words, has_page = KINDS[schema]
    file, page = tmp_path / "x.json", tmp_path / "x.md"
    file.write_bytes(make())
    assert run("report", str(file), "-o", str(page)) == (0 if has_page else 1)
    said = capsys.readouterr().err
    if has_page:
        assert words in " ".join(page.read_text(encoding="utf-8").split())
    else:
        assert not page.exists()
        assert "[unknown-schema]" in said
        assert "boundby show FILE" in said


@pytest.mark.parametrize("command", ["show", "report"])
@pytest.mark.parametrize("schema", [*REFUSED, "other", None, 3, ["boundby.lab"]])
def test_what_no_command_shows_is_refused_by_what_it_is(
    schema: object, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps({"schema": schema, "version": 1}))
    assert run(command, str(file)) == 1
    printed, said = capsys.readouterr()
    assert printed == ""
    message, advice = said.splitlines()
    assert message.endswith("[unknown-schema]")
    assert schema != "boundby.baseline" or "x.json is a baseline of `boundby check`" in message
    assert (REFUSED[schema] if schema in ("boundby.baseline", "boundby.validation") else "wrote") in advice


@pytest.mark.parametrize("schema", [name for name in KINDS if name != "boundby.report"])
def test_what_is_private_can_be_left_out_of_reports_alone(
    schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(KINDS[schema][0]())
    assert run("show", "--confidential", str(file)) == 2
    assert schema in capsys.readouterr().err


def test_neither_torch_nor_numpy_is_needed(tmp_path: Path) -> None:
    for name, make in (("lab", lab), ("decode", estimate), ("scaling", scaling)):
        file = tmp_path / f"{name}.json"
        file.write_bytes(make())
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH, "show", str(file)], capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
