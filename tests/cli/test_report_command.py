"""`boundby report`, in real processes: a page of whatever boundby wrote, and of nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from boundby.results.files import decode_report
from boundby.results.interval import interval
from boundby.results.machine_file import encode_machine
from boundby.results.sweep import SweepPoint, encode_sweep, swept
from boundby.scaling.fits import fit_growth

REPORT = Path(__file__).parent.parent / "report" / "files" / "report-version-1-overhead.json"

# Any import of these ends the process, as on a computer that has none of them.
WITHOUT_TORCH = """
import sys
for name in ("torch", "numpy", "scipy", "psutil", "threadpoolctl"):
    sys.modules[name] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""
# Stands in for the system's browser: says what it was asked to open, or that there is none.
WITH_BROWSER = """
import sys, webbrowser
webbrowser.open = lambda address: print("opened", address) or {found}
from boundby.cli.main import main
main(sys.argv[1:])
"""

NEXT = "Next     open it in a browser, or mail it: it needs no network\n"


def boundby(
    *words: str, folder: Path, code: str = WITHOUT_TORCH, data: bytes = b""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        input=data.decode(),
    )


def machine() -> bytes:
    return encode_machine(decode_report(REPORT.read_bytes(), name="x").machine)


def sweep() -> bytes:
    times = [(n, 2e-3 + 5e-5 * n) for n in (1, 4, 16, 64, 256)]
    points = tuple(SweepPoint(at=at, time_s=interval(time, 0.9 * time, 1.1 * time)) for at, time in times)
    fit = fit_growth(times)
    return encode_sweep(swept(target="m:make", argument="batch", backward=False, threads=1, points=points, fit=fit))


def decode() -> bytes:
    from boundby.llm.decode import estimate_decode
    from boundby.llm.decode_file import encode_estimate
    from boundby.llm.hardware import find_hardware
    from boundby.llm.models import find_model

    return encode_estimate(estimate_decode(find_model("llama-3.2-1b"), find_hardware("H100-SXM5")))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (REPORT.read_bytes, "bound by overhead"),
        (machine, "Matrix products reach fp32 97.3 GFLOP/s"),
        (sweep, "both parts are as long"),
        (decode, "llama-3.2-1b on H100-SXM5, bf16"),
    ],
)
def test_a_page_of_each_kind_of_file(make: Callable[[], bytes], words: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(make())
    done = boundby("report", "x.json", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Wrote x.html\n{NEXT}")
    html = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert words in html
    assert 'class="plot"' in html
    done = boundby("report", "x.json", "-o", "x.md", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "Wrote x.md\n")
    assert words in (tmp_path / "x.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.html", "x.json", "x.md"]


def test_nothing_is_overwritten_unless_told(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text("mine")
    done = boundby("report", str(REPORT), "-o", "x.html", folder=tmp_path)
    assert done.returncode == 1
    assert "[output-exists]" in done.stderr
    assert (tmp_path / "x.html").read_text() == "mine"
    assert boundby("report", str(REPORT), "-o", "x.html", "--force", folder=tmp_path).returncode == 0
    assert "bound by overhead" in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_a_browser_opens_only_when_asked_to(tmp_path: Path) -> None:
    there = WITH_BROWSER.format(found=True)
    quiet = boundby("report", str(REPORT), "-o", "x.html", folder=tmp_path, code=there)
    assert (quiet.returncode, quiet.stdout) == (0, "")
    done = boundby("report", str(REPORT), "-o", "y.html", "--open", folder=tmp_path, code=there)
    assert (done.returncode, done.stdout) == (0, f"opened {(tmp_path / 'y.html').as_uri()}\n")
    none = boundby(
        "report", str(REPORT), "-o", "z.html", "--open", folder=tmp_path, code=WITH_BROWSER.format(found=False)
    )
    assert none.returncode == 1
    assert "[no-browser]" in none.stderr
    assert (tmp_path / "z.html").exists()


def test_standard_input(tmp_path: Path) -> None:
    done = boundby("report", "-", folder=tmp_path, data=sweep())
    assert (done.returncode, done.stderr) == (0, f"Wrote report.html\n{NEXT}")


@pytest.mark.parametrize(
    ("content", "words", "code"),
    [
        (b"", [], "damaged-file"),
        (b'{"schema": "boundby.doctor", "version": 1}', [], "unknown-schema"),
        (b'{"schema": "boundby.sweep", "version": 99}', [], "unknown-version"),
        (b'{"schema": "boundby.decode", "version": 1}', [], "damaged-file"),
        (b"{}", ["-o", "x.pdf"], "output-format"),
        (b"{}", ["-o", "none/x.html"], "output-unwritable"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_no_file(
    content: bytes, words: list[str], code: str, tmp_path: Path
) -> None:
    (tmp_path / "x.json").write_bytes(content)
    done = boundby("report", "x.json", *words, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    message, _ = done.stderr.splitlines()
    assert message.endswith(f"[{code}]")
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("words", [[], ["--force"]])
def test_a_page_is_judged_before_a_name_is_made_of_its_own(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(machine())
    assert boundby("report", "x.json", folder=tmp_path).returncode == 0
    page = (tmp_path / "x.html").read_bytes()
    for command in ("report", "show"):
        done = boundby(command, "x.html", *(words if command == "report" else []), folder=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        message, advice = done.stderr.splitlines()
        assert message.startswith("boundby: x.html is a page already")
        assert "browser" in advice
    assert (tmp_path / "x.html").read_bytes() == page


@pytest.mark.parametrize("command", ["report", "show"])
def test_a_validation_is_told_what_it_is_and_what_shows_it(command: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(boundby("validate", "--json", folder=tmp_path).stdout.encode())
    done = boundby(command, "x.json", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "x.json is what `boundby validate --json` wrote" in done.stderr
    assert "The same on the terminal: boundby validate" in done.stderr


def test_confidential_is_for_reports(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(machine())
    done = boundby("report", "x.json", "--confidential", folder=tmp_path)
    assert done.returncode == 2
    assert "--confidential is for reports" in done.stderr
