"""The checks of Python, torch and what surrounds them, against surroundings made up in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_computer import STACK, Computer, outcome

from boundby.machine.checks import software
from boundby.machine.checks.surroundings import Interpreter

FLAGS = "flags : fpu avx2 fma avx512f avx512bw avx512dq avx512vl"


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


@pytest.mark.parametrize(
    ("interpreter", "expected"),
    [
        (Interpreter(), "ok"),
        (Interpreter(debug_build=True), "python-debug"),
        (Interpreter(dev_mode=True), "python-debug"),
        (Interpreter(unoptimized=True), "python-debug"),
    ],
)
def test_python(computer: Computer, interpreter: Interpreter, expected: str) -> None:
    assert outcome(software.check_python(computer.surroundings(interpreter=interpreter))) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "ok"),
        ({"build": "a text of another form"}, "ok"),
        ({"debug": True}, "torch-debug"),
        ({"build": "BUILD_TYPE=Debug, CXX_FLAGS= -g, USE_CUDA=0"}, "torch-debug"),
        ({"build": "BUILD_TYPE=Release, CXX_FLAGS= -O2 -g -O0, USE_CUDA=0"}, "torch-debug"),
        ({"build": "BUILD_TYPE=Release, CXX_FLAGS= -O2 -fsanitize=address, USE_CUDA=0"}, "torch-debug"),
        ({"build": "BUILD_TYPE=RelWithDebInfo, CXX_FLAGS= -g -O0 -O2, USE_CUDA=0"}, "ok"),
    ],
)
def test_torch_build(computer: Computer, changes: dict[str, object], expected: str) -> None:
    assert outcome(software.check_torch_build(computer.surroundings(stack=replace(STACK, **changes)))) == expected


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "CUDA_LAUNCH_BLOCKING"),
        ({"PYTHONMALLOC": "pymalloc_debug"}, "PYTHONMALLOC"),
        ({"PYTORCH_JIT": "0"}, "PYTORCH_JIT"),
        ({"TORCH_LOGS": "+dynamo"}, "TORCH_LOGS"),
        ({"CUDA_LAUNCH_BLOCKING": "0", "PYTORCH_JIT": "1", "PYTHONMALLOC": "pymalloc", "TORCH_LOGS": ""}, None),
        ({"TORCH_DISTRIBUTED_DEBUG": "OFF", "MKL_VERBOSE": "0"}, None),
    ],
)
def test_debug_variables_count_when_they_are_on(computer: Computer, environ: dict[str, str], named: str | None) -> None:
    found = software.check_switches(computer.surroundings(environ=environ))
    assert outcome(found) == ("ok" if named is None else "debug-variables")
    if named is not None:
        assert f"{named}={environ[named]}" in found.seen
        assert f"{named}: " in found.effect
        assert found.advice == f"unset {named}"


def test_a_device_whose_state_is_not_looked_at_is_not_called_fine(computer: Computer) -> None:
    assert outcome(software.check_accelerator(computer.surroundings())) == "ok"
    found = software.check_accelerator(computer.surroundings(stack=replace(STACK, accelerator="cuda")))
    assert found.state == "unknown"
    assert "nvidia-smi" in found.seen


@pytest.mark.parametrize(
    ("capability", "environ", "expected"),
    [
        ("AVX512", {}, "ok"),
        ("AVX2", {}, "instructions-limited"),
        ("DEFAULT", {"ATEN_CPU_CAPABILITY": "default"}, "instructions-limited"),
        ("AVX512", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, "instructions-limited"),
        ("a later one", {}, "ok"),
    ],
)
def test_instructions(computer: Computer, capability: str, environ: dict[str, str], expected: str) -> None:
    here = computer.write("proc/cpuinfo", FLAGS).surroundings(
        environ=environ, stack=replace(STACK, capability=capability)
    )
    assert outcome(software.check_instructions(here)) == expected


def test_instructions_of_a_processor_with_less_are_the_best_it_has(computer: Computer) -> None:
    computer.write("proc/cpuinfo", "flags : fpu avx2 fma avx512f")
    here = computer.surroundings(stack=replace(STACK, capability="AVX2"))
    assert outcome(software.check_instructions(here)) == "ok"


@pytest.mark.parametrize(
    ("preload", "expected"),
    [
        ("", "ok"),
        ("/usr/lib/libjemalloc.so.2", "ok"),
        ("/usr/lib/libfaketime.so /usr/lib/libjemalloc.so.2", "unknown"),
        ("/usr/lib/libjemalloc.so.2:/usr/lib/gcc/libasan.so.8", "checks-preloaded"),
    ],
)
def test_preloaded(computer: Computer, preload: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert outcome(software.check_preloaded(computer.surroundings(environ={"LD_PRELOAD": preload}))) == expected
    computer.write("etc/ld.so.preload", preload)
    assert outcome(software.check_preloaded(computer.surroundings())) == expected


def test_tracer(computer: Computer) -> None:
    assert outcome(software.check_tracer(computer.write("proc/self/status", "TracerPid:\t0").surroundings())) == "ok"
    computer.write("proc/self/status", "Name:\tpython\nTracerPid:\t77").write("proc/77/comm", "strace")
    found = software.check_tracer(computer.surroundings())
    assert outcome(found) == "traced"
    assert "strace (pid 77)" in found.seen


def test_denormals(computer: Computer) -> None:
    assert outcome(software.check_denormals(computer.surroundings())) == "ok"
    slow = software.check_denormals(computer.surroundings(stack=replace(STACK, denormal_slowdown=27.0)))
    assert outcome(slow) == "ok"
    assert "exp takes 27x the time" in slow.seen
    flushed = computer.surroundings(stack=replace(STACK, denormals_kept=False))
    assert outcome(software.check_denormals(flushed)) == "denormals-flushed"


@pytest.mark.parametrize(
    ("programs", "asked", "headers", "expected"),
    [
        (("g++",), "", True, "ok"),
        (("g++",), "", None, "unknown"),
        (("g++",), "", False, "no-python-headers"),
        ((), "", True, "no-compiler"),
        (("clang++",), "", True, "no-compiler"),
        (("clang++",), "clang++", True, "ok"),
        (("g++",), "icpx", True, "no-compiler"),
    ],
)
def test_compiler(
    computer: Computer,
    programs: tuple[str, ...],
    asked: str,
    headers: bool | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    (computer.root / "bin").mkdir()
    for program in programs:
        (computer.root / "bin" / program).touch(mode=0o755)
    here = computer.surroundings(
        environ={"PATH": str(computer.root / "bin"), "CXX": asked}, interpreter=Interpreter(headers=headers)
    )
    found = software.check_compiler(here)
    assert outcome(found) == expected
    if expected == "no-compiler" and programs:
        assert f"Set CXX={programs[0]}" in found.advice
