"""`boundby check` on saved reports and as a user mistypes it; it needs no PyTorch for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from boundby.cli.main import main
from boundby.results.counts import Counts, GroupCounts
from boundby.results.files import decode_report, encode
from boundby.results.report import Report

FILES = Path(__file__).parent.parent / "report" / "files"
MEMORY = FILES / "report-version-1-memory.json"

# Any import of torch ends the process, as on a computer that has none.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How the command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


Check = Callable[..., Done]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """The command in this process, in a folder."""

    def run(*args: str | Path, cwd: Path) -> Done:
        monkeypatch.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            main(["check", *map(str, args)])
        captured = capsys.readouterr()
        return Done(returncode=int(str(ended.value.code or 0)), stdout=captured.out, stderr=captured.err)

    return run


def budgets(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)


def report_of(launches: int, *, line: int = 7, command: tuple[str, ...] = ("boundby", "run", "train.py")) -> Report:
    """The memory-bound sample as a report of a script with one line of so many launches."""
    sample = decode_report(MEMORY.read_bytes(), name="sample")
    row = sample.lines[0]
    first = replace(sample.ops[0], calls=launches, path=row.path, line=line, code=row.code, dtype="fp32", modelled=True)
    group = GroupCounts(name=f"{row.path}:{line}", ops=launches, launches=launches, saved_bytes=8 * launches)
    return replace(
        sample,
        tool=replace(sample.tool, command=command),
        counts=Counts(ops=launches, launches=launches, saved_bytes=8 * launches, graph_breaks=0, by_line=(group,)),
        lines=(replace(row, line=line),),
        ops=(first,),
    )


def written(report: Report, path: Path) -> Path:
    path.write_bytes(encode(report))
    return path


def test_budgets_kept_and_broken(check: Check, tmp_path: Path) -> None:
    report = written(report_of(5), tmp_path / "r.json")
    budgets(tmp_path, '[tool.boundby.budgets]\nmax_launches = 5\nmax_saved_bytes = "40 B"\nmax_overhead = "50%"\n')
    done = check(report, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "train.py keeps its budgets: 3 budgets kept.\n"
    budgets(tmp_path, '[tool.boundby.budgets]\nmax_launches = 4\n[tool.boundby.budgets."train.py"]\nmax_memory = 0.1\n')
    done = check(report, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "train.py is over budget: launches, memory."
    assert "at most 4 by max_launches" in done.stdout
    assert "at most 10% by max_memory" in done.stdout
    assert "net.py:7" in done.stdout
    assert max(map(len, lines)) <= 80
    assert "Next" not in done.stdout


@pytest.mark.parametrize("name", ["it's.json", 'a"b.json', "two words.json"])
def test_a_report_may_have_any_name(check: Check, tmp_path: Path, name: str) -> None:
    report = written(report_of(5, command=("boundby", "explain")), tmp_path / name)
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_launches = 5\n")
    done = check(report, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # The folder's length decides where the line breaks.
    said = f"{name} keeps its budgets: 1 budget kept."
    assert "".join(done.stdout.split()).endswith("".join(said.split()))
    assert check("--baseline", "base.json", "--update", report, cwd=tmp_path).returncode == 0
    assert check("--baseline", "base.json", report, cwd=tmp_path).returncode == 0


def test_a_budget_of_what_is_not_known_fails(check: Check, tmp_path: Path) -> None:
    report = report_of(5)
    unknown = written(replace(report, counts=replace(report.counts, graph_breaks=None)), tmp_path / "r.json")
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_graph_breaks = 0\n")
    done = check(unknown, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("train.py cannot be told to keep its budgets; not known: graph breaks.")


def test_a_baseline_is_written_kept_and_broken(check: Check, tmp_path: Path) -> None:
    before = written(report_of(5), tmp_path / "before.json")
    missing = check("--baseline", "base.json", before, cwd=tmp_path)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "[no-baseline]" in missing.stderr
    done = check("--baseline", "base.json", "--update", before, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote base.json\n")
    first = (tmp_path / "base.json").read_bytes()
    moved = written(report_of(5, line=9), tmp_path / "moved.json")
    assert check("--baseline", "base.json", moved, cwd=tmp_path).returncode == 0
    check("--baseline", "base.json", "--update", before, cwd=tmp_path)
    assert (tmp_path / "base.json").read_bytes() == first

    after = written(report_of(6, line=9), tmp_path / "after.json")
    done = check("--baseline", "base.json", after.name, cwd=tmp_path)
    assert done.returncode == 3
    told = " ".join(done.stdout.split())
    assert told.startswith("train.py is over budget: ops, launches, saved bytes.")
    assert "launches 6 was 5: +1 (20%)" in told
    assert "net.py:9 return x * scale + shift ops 5 to 6; launches 5 to 6; saved bytes 40 B to 48 B" in told
    # What failed is to be mended: the command that would accept it is not the next one.
    *_, first, only, command = done.stdout.splitlines()
    assert first.startswith("Next     mend ")
    assert first.endswith("net.py:9, and check again")
    assert only.strip().startswith("Only where this is meant")
    assert command.strip() == "boundby check --baseline base.json --update after.json"
    done = check("--baseline", "base.json", "--update", after, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "Wrote base.json",
        "  ops 5 to 6",
        "  launches 5 to 6",
        "  saved bytes 40 B to 48 B",
    ]
    done = check("--baseline", "base.json", before, cwd=tmp_path)
    assert done.returncode == 0
    assert "What shrank" in done.stdout


def test_counts_of_other_arguments_do_not_replace_a_baseline(check: Check, tmp_path: Path) -> None:
    first = written(report_of(5, command=("boundby", "run", "train.py", "--width", "8")), tmp_path / "first.json")
    wider = written(report_of(6, command=("boundby", "run", "train.py", "--width", "9")), tmp_path / "wider.json")
    check("--baseline", "base.json", "--update", first, cwd=tmp_path)
    done = check("--baseline", "base.json", wider, cwd=tmp_path)
    assert done.returncode == 3
    assert "The baseline is of `train.py --width 8`" in " ".join(done.stdout.split())
    last = done.stdout.splitlines()[-1].strip()
    assert last == "boundby check --baseline base.json --update train.py --width 8"


def test_json_alone_on_standard_output_and_no_torch(tmp_path: Path) -> None:
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_launches = 4\n")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "check", "--json", "-"],
        capture_output=True,
        timeout=60,
        check=False,
        input=encode(report_of(5)),
        cwd=tmp_path,
        env={"PYTHONUTF8": "1"},
    )
    assert done.stderr == b""
    found = json.loads(done.stdout)
    assert done.returncode == 3
    assert (found["schema"], found["version"], found["passed"]) == ("boundby.check", 1, False)
    (judged,) = found["judgements"]
    assert (judged["name"], judged["state"], judged["value"], judged["limit"]) == ("max_launches", "over", 5, 4)
    assert judged["lines"][0]["ops"] == [{"op": "mul", "old": None, "new": 5}]


@pytest.mark.parametrize("name", ["found.json", "found.md", "found.html"])
def test_what_was_found_is_written_whether_it_passes_or_not(check: Check, tmp_path: Path, name: str) -> None:
    report = written(report_of(5), tmp_path / "r.json")
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_launches = 4\n")
    done = check("-o", name, report, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, f"Wrote {name}\n")
    text = (tmp_path / name).read_text()
    assert "train.py is over budget: launches." in text or '"passed": false' in text
    assert "net.py" in text
    assert "x * scale + shift" in text
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_launches = 5\n")
    refused = check("-o", name, report, cwd=tmp_path)
    assert (refused.returncode, "[output-exists]" in refused.stderr) == (1, True)
    done = check("-o", name, "--force", report, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"Wrote {name}\n")
    assert "is over budget" not in (tmp_path / name).read_text()


def test_the_nearest_table_above_is_the_one(check: Check, tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    report = written(report_of(5), inner / "r.json")
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_launches = 4\n")
    budgets(tmp_path / "a", "[tool.other]\nx = 1\n")
    assert check(report, cwd=inner).returncode == 3
    budgets(tmp_path / "a", "[tool.boundby.budgets]\nmax_launches = 5\n")
    assert check(report, cwd=inner).returncode == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[tool.boundby.budgets\n", "bad-pyproject"),
        ("[tool.boundby.budget]\nmax_ops = 3\n", "bad-pyproject"),
        ("[tool]\nboundby = 3\n", "bad-pyproject"),
        ("[tool.boundby]\nbudgets = 3\n", "bad-pyproject"),
        ("[tool.boundby.budgets]\nmax_opps = 3\n", "unknown-budget"),
        ("[tool.boundby.budgets]\nmax_ops = 'many'\n", "bad-budget"),
        ("[tool.boundby.budgets.'other.py']\nmax_ops = -1\n", "bad-budget"),
        ("[tool.other]\n", "nothing-to-check"),
        ("[tool.boundby]\n", "nothing-to-check"),
    ],
)
def test_what_is_written_wrongly_is_told_in_a_line(check: Check, tmp_path: Path, text: str, code: str) -> None:
    budgets(tmp_path, text)
    done = check(written(report_of(5), tmp_path / "r.json"), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"[{code}]" in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


def test_files_that_are_not_what_they_should_be(check: Check, tmp_path: Path) -> None:
    report = written(report_of(5), tmp_path / "r.json")
    other = written(
        report_of(5, command=("boundby", "run", "-o", "x.json", "eval.py", "--epochs", "3")), tmp_path / "e"
    )
    other = other.rename(tmp_path / "eval.json")
    check("--baseline", "base.json", "--update", report, cwd=tmp_path)
    kept = (tmp_path / "base.json").read_bytes()
    mistakes: list[tuple[tuple[str, ...], int, str]] = [
        (("--baseline", "r.json", "r.json"), 1, "unknown-schema"),
        (("--baseline", "r.json", "--update", "r.json"), 1, "unknown-schema"),
        (("--baseline", "base.json", "eval.json"), 2, "other-baseline"),
        (("--baseline", "base.json", "--update", "eval.json"), 2, "other-baseline"),
        (("--baseline", "base.json", "none.json"), 1, "no-such-file"),
        (("--baseline", "base.txt", "--update", "r.json"), 1, "output-format"),
        (("--baseline", "no/base.json", "--update", "r.json"), 1, "output-unwritable"),
        (("--baseline", "base.json", "none.py"), 2, "no-such-script"),
    ]
    for words, status, code in mistakes:
        done = check(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (status, ""), (words, done.stderr)
        assert f"[{code}]" in done.stderr.splitlines()[0], words
    assert (tmp_path / "base.json").read_bytes() == kept
    assert report.read_bytes() == encode(report_of(5))
    (tmp_path / "cut.json").write_text("{")
    for words in (("--baseline", "cut.json", "r.json"), ("--baseline", "cut.json", "--update", "r.json")):
        told = check(*words, cwd=tmp_path).stderr
        assert "[damaged-file]\nboundby: Remove cut.json, or name another file, and write the baseline" in told
    assert (tmp_path / "cut.json").read_text() == "{"
    for words in (("--update", "r.json"), (), ("r.json", "--baseline", "b.json"), ("train.py", "--baseline=b.json")):
        assert check(*words, cwd=tmp_path).returncode == 2


def test_hostile_text_stays_text(check: Check, tmp_path: Path) -> None:
    report = report_of(5)
    row = replace(report.lines[0], path="/x/\x1b[31m[red]\n.py", code="a\x1b]0;title\x07 = 1")
    group = replace(report.counts.by_line[0], name=f"{row.path}:7")
    hostile = replace(
        report,
        counts=replace(report.counts, by_line=(group,)),
        lines=(row,),
        ops=(replace(report.ops[0], path=row.path, code=row.code),),
    )
    budgets(tmp_path, "[tool.boundby.budgets]\nmax_launches = 4\n")
    done = check(written(hostile, tmp_path / "r.json"), cwd=tmp_path)
    assert done.returncode == 3
    assert all(character.isprintable() for line in done.stdout.splitlines() for character in line)
    assert "[red]" in done.stdout


TRAINING = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    loss = model(torch.ones(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.save(model.state_dict(), "weights.pt")
"""


def test_a_script_is_run_for_its_counts_alone_and_leaves_nothing_behind(tmp_path: Path) -> None:
    project, cache = tmp_path / "project", tmp_path / "cache"
    project.mkdir()
    script = project / "train.py"
    script.write_text(TRAINING)
    environment = os.environ | {"BOUNDBY_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1", "COLUMNS": "80"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "boundby", "check", "--baseline", "base.json", *words, "train.py"]
        return subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=240, check=False
        )

    done = run("--update")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    done = run()
    assert (done.returncode, done.stderr) == (0, "boundby: running train.py\n")
    assert done.stdout == "train.py keeps its budgets: none of 12 counts grew.\n"
    script.write_text(TRAINING.replace("    loss.backward()\n", "    loss.backward()\n    seen = loss.item()\n"))
    done = run()
    assert done.returncode == 3
    told = " ".join(done.stdout.split())
    assert "train.py:10 seen = loss.item() ops 1; launches 1; bytes read 4 B new: aten._local_scalar_dense 1" in told
    assert not cache.exists()
    assert sorted(path.name for path in project.iterdir()) == ["base.json", "train.py"]


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("", 1, "only 4 steps were seen: none was left to time after warm-up [too-few-steps]"),
        ("raise SystemExit(5)", 1, "train.py ended with status 5 [script-not-explained]"),
    ],
)
def test_why_a_script_cannot_be_checked_is_told_once(tmp_path: Path, end: str, status: int, told: str) -> None:
    few = "import torch\nm = torch.nn.Linear(8, 8)\no = torch.optim.SGD(m.parameters(), 0.1)\nfor _ in range(4):\n"
    (tmp_path / "train.py").write_text(
        f"{few}    o.zero_grad(); m(torch.randn(4, 8)).sum().backward(); o.step()\n{end}\n"
    )
    command = [sys.executable, "-m", "boundby", "check", "--baseline", "base.json", "--update", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == status
    lines = done.stderr.splitlines()
    assert lines[1:2] == [f"boundby: {told}"]
    assert len(lines) == 3
    assert not (tmp_path / "base.json").exists()


def reading(size: int, indexed: int) -> Report:
    """The sample, where so many bytes are read, a part of them by indices."""
    report = report_of(5)
    counts = replace(report.counts, bytes_read=size, bytes_written=100, indexed_bytes_read=indexed)
    return replace(report, counts=counts)


def test_bytes_that_move_with_the_data_are_told_and_may_be_allowed_for(check: Check, tmp_path: Path) -> None:
    before = written(reading(100_000, 30_000), tmp_path / "before.json")
    after = written(reading(101_000, 31_000), tmp_path / "after.json")
    assert check("--baseline", "base.json", "--update", before, cwd=tmp_path).returncode == 0
    done = check("--baseline", "base.json", after, cwd=tmp_path)
    assert done.returncode == 3
    told = " ".join(done.stdout.split())
    assert "At least 31% of the bytes read depends on the values of indices and masks" in told
    assert "--bytes-tolerance" in told
    for given in ("2%", "0.02"):
        done = check("--baseline", "base.json", "--bytes-tolerance", given, after, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "counts grew beyond its tolerance" in " ".join(done.stdout.split())
    done = check("--baseline", "base.json", "--bytes-tolerance", "0.1%", after, cwd=tmp_path)
    assert done.returncode == 3
    assert "(1.0%); 0.1% allowed" in " ".join(done.stdout.split())


def test_a_project_says_its_tolerance_and_the_command_line_another(check: Check, tmp_path: Path) -> None:
    before = written(reading(100_000, 30_000), tmp_path / "before.json")
    after = written(reading(101_000, 31_000), tmp_path / "after.json")
    assert check("--baseline", "base.json", "--update", before, cwd=tmp_path).returncode == 0
    budgets(tmp_path, '[tool.boundby]\nbytes_tolerance = "2%"\n')
    assert check("--baseline", "base.json", after, cwd=tmp_path).returncode == 0
    assert check("--baseline", "base.json", "--bytes-tolerance", "0", after, cwd=tmp_path).returncode == 3


def test_a_tolerance_is_for_bytes_alone(check: Check, tmp_path: Path) -> None:
    before, after = (written(report_of(count), tmp_path / f"{count}.json") for count in (100, 101))
    assert check("--baseline", "base.json", "--update", before, cwd=tmp_path).returncode == 0
    done = check("--baseline", "base.json", "--bytes-tolerance", "50%", after, cwd=tmp_path)
    assert done.returncode == 3
    assert "launches" in done.stdout


def test_bytes_within_the_tolerance_below_are_no_progress_to_keep(check: Check, tmp_path: Path) -> None:
    before = written(reading(101_000, 31_000), tmp_path / "before.json")
    after = written(reading(100_000, 30_000), tmp_path / "after.json")
    assert check("--baseline", "base.json", "--update", before, cwd=tmp_path).returncode == 0
    assert "What shrank" in check("--baseline", "base.json", after, cwd=tmp_path).stdout
    done = check("--baseline", "base.json", "--bytes-tolerance", "2%", after, cwd=tmp_path)
    assert "What shrank" not in done.stdout


@pytest.mark.parametrize("given", ["2", "-0.1", "two", "2 B", "nan"])
def test_a_tolerance_is_a_share(check: Check, tmp_path: Path, given: str) -> None:
    report = written(report_of(5), tmp_path / "r.json")
    done = check(f"--bytes-tolerance={given}", "--baseline", "base.json", report, cwd=tmp_path)
    assert done.returncode == 2
    assert "[bad-budget]" in done.stderr
    assert "a share between 0 and 1" in done.stderr
