"""`boundby decode` and `boundby validate`, in real processes, and what they print."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from boundby.cli.validate import validate_command
from boundby.llm.decode import estimate_decode
from boundby.llm.hardware import find_hardware
from boundby.llm.models import find_model
from boundby.llm.rows import shipped_rows
from boundby.llm.validate import compare_rows, used_rows
from boundby.report.decode_document import decode_document
from boundby.report.decode_page import render_decode
from boundby.report.markdown import render_markdown
from boundby.report.validate_page import render_validation

# Any import of these ends the process, as on a computer that has none of them.
WITHOUT_TORCH = """
import sys
for name in ("torch", "numpy", "scipy", "psutil", "threadpoolctl"):
    sys.modules[name] = None
from boundby.cli.main import main
main(sys.argv[1:])
"""
LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "intermediate_size": 8192,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def boundby(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONUTF8": "1"},
    )


def test_the_answer_comes_first_and_needs_no_torch() -> None:
    done = boundby("decode", "llama-3.1-8b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("llama-3.1-8b on H100-SXM5, bf16: ")
    assert "the floor is 4.52 ms" in done.stdout.replace("\n", " ")
    assert "5.29 ms" in done.stdout


def test_a_config_gives_what_the_shipped_name_gives(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    found = [boundby("decode", name, "--json") for name in (str(tmp_path / "config.json"), "llama-3.2-1b")]
    mine, shipped = (json.loads(one.stdout) for one in found)
    assert mine["schema"] == "boundby.decode"
    for key in ("parameters_total", "parameters_streamed", "cache_bytes_one", "step", "launch_costs"):
        assert mine[key] == shipped[key]


def test_results_are_written_once(tmp_path: Path) -> None:
    for name in ("out.json", "out.svg"):
        path = tmp_path / name
        assert boundby("decode", "gpt-oss-20b", "-o", str(path)).returncode == 0
        assert "[output-exists]" in boundby("decode", "gpt-oss-20b", "-o", str(path)).stderr
        assert boundby("decode", "gpt-oss-20b", "-o", str(path), "--force").returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())["model"] == "gpt-oss-20b"
    assert ET.parse(tmp_path / "out.svg").getroot().tag.endswith("svg")


def test_what_is_known_by_name_is_listed() -> None:
    done = boundby("decode", "--list")
    for name in ("llama-3.1-8b", "H100-SXM5", "vllm", "q4_k_m"):
        assert name in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((), "unknown-model"),
        (("lama",), "unknown-model"),
        (("missing/config.json",), "no-such-file"),
        (("llama-3.2-1b", "--hardware", "H101"), "unknown-hardware"),
        (("llama-3.2-1b", "--hardware", "missing.json"), "no-such-file"),
        (("llama-3.2-1b", "--batch", "-1"), "decode-setting"),
        (("llama-3.2-1b", "--batch", "0"), "decode-setting"),
        (("llama-3.2-1b", "--context", "-5"), "decode-setting"),
        (("llama-3.2-1b", "--weights", "fp12"), "unknown-format"),
        (("llama-3.2-1b", "--kv", "q4_k_m"), "unknown-format"),
        (("llama-3.2-1b", "--weights", ""), "unknown-format"),
        (("llama-3.2-1b", "--hardware", ""), "unknown-hardware"),
        (("llama-3.2-1b", "--engine", "zippy"), "unknown-engine"),
        (("llama-3.2-1b", "--tp", "1.5"), "decode-setting"),
        (("llama-3.2-1b", "--tp", "0.5"), "decode-setting"),
        (("llama-3.2-1b", "--launch-us", "nan"), "decode-setting"),
        (("llama-3.2-1b", "-o", "x.png"), "output-format"),
    ],
)
def test_a_mistake_is_one_clear_line(args: tuple[str, ...], code: str) -> None:
    done = boundby("decode", *args)
    assert done.returncode in (1, 2)
    assert f"[{code}]" in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) <= 2
    assert not done.stdout


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("name", ["llama-3.2-1b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("hardware", ["H100-SXM5", "Raspberry Pi 5"])
def test_a_page_keeps_within_its_width(width: int, name: str, hardware: str) -> None:
    found = estimate_decode(find_model(name), find_hardware(hardware), devices=2, batch=3)
    for unicode in (True, False):
        text = render_decode(found, width=width, color=False, unicode=unicode, default_hardware=True)
        assert max(map(cell_len, text.splitlines())) <= width
        assert unicode or text.isascii()
        if width >= 80:
            assert "…" not in text


@pytest.mark.parametrize("name", ["llama-3.2-1b", "mixtral-8x7b"])
def test_counted_kernels_and_the_share_of_launching_them_have_each_their_word(name: str) -> None:
    found = estimate_decode(find_model(name), find_hardware("H100-SXM5"))
    text = render_decode(found, width=80, color=False, unicode=True)
    lines = text.splitlines()
    heads = [line.split() for line in lines if {"kernels", "launch"} & set(line.split()) and "kernels:" not in line]
    assert sum("kernels" in head and "floor" in head for head in heads) == 1
    assert sum({"kernels", "launch", "hidden"} <= set(head) for head in heads) == 1
    assert sum({"launch", "MBU"} <= set(head) for head in heads) == 2
    assert "launches" not in text
    assert "kernels: how many a step runs" in text


@pytest.mark.parametrize(
    ("hardware", "devices", "told"),
    [("H100-SXM5", 1, ""), ("H100-SXM5", 3, "on each of 3 devices"), ("MI250X", 0.5, "on one die of two")],
)
def test_tables_of_one_of_several_devices_say_so(hardware: str, devices: float, told: str) -> None:
    found = estimate_decode(find_model("llama-3.1-8b"), find_hardware(hardware), devices=devices)
    pages = [" ".join(render_decode(found, width=width, color=False, unicode=True).split()) for width in (40, 80, 100)]
    pages.append(render_markdown(decode_document(found)))
    for page in pages:
        assert page.count(told) >= 2
        assert ("on each of" in page or "on one die" in page) is bool(told)


@pytest.mark.parametrize("batch", [1, 4])
def test_rates_of_all_sequences_are_named_so(batch: int) -> None:
    found = estimate_decode(find_model("llama-3.1-8b"), find_hardware("H100-SXM5"), batch=batch)
    lines = render_decode(found, width=80, color=False, unicode=True).splitlines()
    head = next(line for line in lines if {"kernels", "cost", "hidden"} <= set(line.split()))
    assert head.endswith("tokens/s" if batch == 1 else "tokens/s in all")
    assert ("Tokens/s in all |" in render_markdown(decode_document(found))) is (batch > 1)


@pytest.mark.parametrize("width", [40, 80])
def test_the_table_of_errors_keeps_within_its_width(width: int) -> None:
    compared, skipped = compare_rows(shipped_rows(), used_rows())
    text = render_validation(compared, skipped, each=True, width=width, color=False, unicode=False)
    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


def test_validate_prints_errors_and_the_baselines_beside_them() -> None:
    done = boundby("validate")
    assert done.returncode == 0, done.stderr
    assert "that calibration never saw" in done.stdout
    for word in ("By engine", "By kind of hardware", "Farthest off", "Not compared", "roof"):
        assert word in done.stdout


def test_rows_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "model,hardware,weight_fmt,engine,ms_per_step\n"
        "llama-3.1-8b,RTX 4090,q4_k_m,llama.cpp,7.4\n"
        "secret-9b,RTX 4090,q4_k_m,llama.cpp,7.4\n"
    )
    done = boundby("validate", "--rows", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 measurement on one device")
    assert "secret-9b" in done.stdout
    plain = json.loads(boundby("validate", "--rows", str(path), "--json").stdout)
    assert (len(plain["rows"]), len(plain["skipped"])) == (1, 1)
    assert "[no-such-file]" in boundby("validate", "--rows", str(tmp_path / "none.csv")).stderr


def test_no_row_to_compare_is_a_failure(tmp_path: Path) -> None:
    head, row = (files("boundby.llm") / "data/measured.csv").read_text().splitlines()[:2]
    rows = tmp_path / "rows.csv"
    rows.write_text(f"{head}\n{row.replace('A100-SXM4-80GB', 'Nothing-1000')}\n")
    for options in ([], ["--json"]):
        found = CliRunner().invoke(validate_command, ["--rows", str(rows), *options])
        assert found.exit_code == 1
    rows.write_text(f"{head}\n{row}\n")
    assert CliRunner().invoke(validate_command, ["--rows", str(rows)]).exit_code == 0


def test_devices_that_do_not_divide_the_heads_are_told() -> None:
    told = [estimate_decode(find_model("llama-3.2-1b"), find_hardware("H100-SXM5"), devices=n).notes for n in (2, 3)]
    assert not [note for note in told[0] if "evenly" in note]
    assert [note for note in told[1] if "3 devices do not divide the attention heads (32) evenly" in note]
