"""Reports as a run could have written them, for the tests of what is shown and saved."""

from __future__ import annotations

from dataclasses import replace

from boundby.results.counts import Counts, Unmodelled
from boundby.results.interval import Interval, interval
from boundby.results.machine import Ceiling, Finding, Machine, MachineDescription
from boundby.results.report import (
    Floors,
    LineRow,
    MedianTime,
    OpRow,
    OverheadParts,
    PageFaults,
    Report,
    Split,
    StepResult,
    Tool,
    Verdict,
)
from boundby.results.trace import StepClass

FOLDER = "/home/ann/project"

MACHINE = Machine(
    description=MachineDescription(
        cpu="AMD EPYC 9R14",
        usable_cores=2,
        logical_cores=2,
        memory_bytes=16 * 2**30,
        memory_limit_bytes=8 * 2**30,
        os="Linux 6.1",
        python="3.11.9",
        torch="2.13.0",
        threads=1,
        affinity=(0, 1),
        measured_at="2026-11-29T17:00:00Z",
    ),
    ceilings=(
        Ceiling(
            kind="matmul",
            name="mm",
            dtype="fp32",
            shape=(1, 1024, 1024, 1024),
            value=97.3e9,
            low=95.1e9,
            high=98.0e9,
            unit="flop/s",
        ),
        Ceiling(
            kind="matmul",
            name="mm",
            dtype="fp32",
            shape=(1, 64, 64, 64),
            value=41e9,
            low=38e9,
            high=44e9,
            unit="flop/s",
        ),
        Ceiling(
            kind="bandwidth",
            name="copy",
            dtype="fp32",
            size_bytes=256 * 2**20,
            value=27.1e9,
            low=25e9,
            high=29e9,
            unit="byte/s",
        ),
        Ceiling(
            kind="function",
            name="tanh",
            dtype="fp32",
            size_bytes=32768,
            value=2.7e-9,
            low=2.6e-9,
            high=2.9e-9,
            unit="s",
        ),
        Ceiling(kind="overhead", name="view", value=0.9e-6, low=0.8e-6, high=1.1e-6, unit="s"),
    ),
)


def share(value: float, low: float, high: float) -> Interval:
    return interval(value, low, high)


def nothing() -> Interval:
    return interval(0.0)


def line(
    path: str | None,
    number: int | None,
    code: str | None,
    time_s: float,
    of_step: float,
    bound: str,
    floor_s: float,
    ops: tuple[str, ...],
    calls: int,
) -> LineRow:
    floors = {"overhead_s": 0.0, "memory_s": 0.0, "matmul_s": 0.0, "pointwise_s": 0.0}
    if floor_s:
        floors[f"{bound}_s"] = floor_s
    return LineRow(
        path=path,
        line=number,
        code=code,
        calls=calls,
        time_s=time_s,
        share=of_step,
        floors=Floors(**floors, bound=bound),
        ops=ops,
    )


def op_of(row: LineRow, module: str | None) -> OpRow:
    return OpRow(
        op=row.ops[0] if row.ops else "add",
        calls=row.calls,
        time_s=row.time_s,
        share=row.share,
        floors=row.floors,
        matmul_flops=10,
        pointwise_flops=0,
        bytes_read=100,
        bytes_written=10,
        faults=0,
        shapes="96x64 64x192",
        path=row.path,
        line=row.line,
        code=row.code,
        module=module,
        phase="forward",
        modelled=True,
    )


def overhead_bound() -> Report:
    lines = (
        line(f"{FOLDER}/train.py", 58, "optimizer.step()", 0.00112, 0.293, "overhead", 0.00098, ("add_", "mul_"), 203),
        line(
            f"{FOLDER}/model.py",
            31,
            "q, k, v = self.qkv(x).split(self.width, dim=2)",
            0.00061,
            0.16,
            "matmul",
            0.00042,
            ("addmm", "split", "mm", "t", "view"),
            40,
        ),
        line(f"{FOLDER}/model.py", 44, "x = F.gelu(self.up(x))", 0.00041, 0.107, "pointwise", 0.00032, ("gelu",), 12),
        line(f"{FOLDER}/train.py", 57, "loss.backward()", 0.00011, 0.029, "memory", 0.0000121, ("fill_",), 3),
        line(None, None, None, 0.0000922, 0.0242, "overhead", 0.00009, ("zeros",), 30),
        line(f"{FOLDER}/train.py", 12, "x = data[i]", 0.00002, 0.005, "overhead", 0.00002, ("index",), 3),
    )
    return Report(
        tool=Tool(name="boundby", version="0.1.0", command=("boundby", "run", "train.py", "--epochs", "2")),
        machine=MACHINE,
        reconciliation=share(0.98, 0.96, 1.0),
        step=StepResult(
            kind="training",
            time_s=MedianTime(median=0.00382, low=0.00371, high=0.00405),
            steps_timed=30,
            steps_watched=10,
            warmup_steps=5,
            events_per_step=1,
            name="AdamW.step",
            threads=1,
            device="cpu",
            classes=(StepClass(digest="a1", steps=10, ops=605),),
        ),
        counts=Counts(
            ops=605,
            launches=402,
            matmul_flops=92_000_000,
            pointwise_flops=3_100_000,
            bytes_read=21_400_000,
            bytes_written=9_100_000,
            saved_bytes=2_100_000,
        ),
        split=Split(
            overhead=share(0.62, 0.58, 0.66),
            memory=share(0.05, 0.04, 0.07),
            matmul=share(0.21, 0.19, 0.23),
            pointwise=share(0.084, 0.07, 0.1),
            input=nothing(),
            unexplained=share(0.036, 0.0, 0.08),
        ),
        overhead_parts=OverheadParts(dispatch=0.41, host=0.208, allocation=0.002),
        verdict=Verdict(
            bound="overhead",
            sentence="This training step is bound by overhead: 62% of its 3.8 ms goes into starting 605 small ops and "
            "running Python; at most 2.6x is to be had from fewer, larger ops.",
            evidence=(
                "An op here costs at least 0.9 µs to start, and the step has 605.",
                "Doubling the batch should lengthen the step by 38% only.",
            ),
            confidence="sure",
        ),
        page_faults=PageFaults(per_step=31.0, seconds_each=0.00000025, time_s=0.00000775),
        lines=lines,
        ops=tuple(op_of(row, f"blocks.{index}.mlp") for index, row in enumerate(lines)),
    )


def memory_bound() -> Report:
    report = overhead_bound()
    row = line(f"{FOLDER}/net.py", 7, "return x * scale + shift", 0.61, 0.94, "memory", 0.55, ("mul", "add"), 4)
    return replace(
        report,
        step=replace(
            report.step,
            kind="inference",
            time_s=MedianTime(median=0.652, low=0.648, high=0.655),
            threads=2,
            name="step",
            classes=(
                StepClass(digest="a", steps=6, ops=12),
                StepClass(digest="b", steps=3, ops=14),
                StepClass(digest="c", steps=1, ops=1),
            ),
        ),
        counts=replace(
            report.counts,
            ops=12,
            launches=4,
            matmul_flops=0,
            unmodelled=(
                Unmodelled(name="mylib::scan", calls=3, share=0.021),
                Unmodelled(name="torchvision::nms", calls=1, share=None),
            ),
        ),
        split=Split(
            overhead=share(0.14, 0.11, 0.18),
            memory=share(0.80, 0.75, 0.84),
            matmul=nothing(),
            pointwise=share(0.0004, 0.0, 0.002),
            input=nothing(),
            unexplained=share(0.0596, 0.01, 0.09),
        ),
        overhead_parts=OverheadParts(dispatch=0.0004, host=0.0006, allocation=0.139),
        verdict=Verdict(
            bound="memory",
            sentence="This inference step is bound by memory: 80% of its 0.65 s is spent moving 8.4 GB, near the speed "
            "measured here.",
            evidence=(),
            confidence="sure",
        ),
        page_faults=PageFaults(per_step=131072.4, seconds_each=None, time_s=None),
        reconciliation=share(0.88, 0.85, 0.9),
        lines=(row,),
        ops=(op_of(row, None),),
        findings=(
            Finding(
                code="moved-speed",
                message="The machine became 1.4x slower between the timed and the watched steps.",
                advice="Run again when nothing else is busy.",
            ),
        ),
    )


def compute_bound() -> Report:
    report = overhead_bound()
    row = line(f"{FOLDER}/gemm.py", 3, "c = a @ b", 0.0221, 0.97, "matmul", 0.0235, ("mm",), 1)
    return replace(
        report,
        step=replace(report.step, kind="callable", time_s=MedianTime(median=0.0228, low=0.0228, high=0.0228), name=""),
        split=Split(
            overhead=share(0.01, 0.005, 0.02),
            memory=nothing(),
            matmul=share(0.97, 0.95, 0.99),
            pointwise=nothing(),
            input=nothing(),
            unexplained=share(0.02, 0.0, 0.04),
        ),
        overhead_parts=OverheadParts(dispatch=0.01, host=0.0, allocation=0.0),
        verdict=Verdict(
            bound="compute",
            sentence="This call is bound by compute: 97% of its 23 ms multiplies matrices at the measured peak.",
            evidence=("94.0 GFLOP/s of 97.3 GFLOP/s measured here.",),
            confidence="sure",
        ),
        machine=replace(
            MACHINE, ceilings=(*MACHINE.ceilings, replace(MACHINE.ceilings[0], dtype="bf16", source="datasheet"))
        ),
        page_faults=None,
        lines=(row,),
        ops=(op_of(row, "head"),),
        tool=Tool(name="boundby", version="0.1.0", command=("boundby", "run", "-o", "my out.json", "gemm.py")),
    )


def input_bound() -> Report:
    report = overhead_bound()
    return replace(
        report,
        step=replace(
            report.step,
            time_s=MedianTime(median=0.210, low=0.09, high=0.34),
            events_per_step=4,
            name="SGD.step, Adam.step",
        ),
        split=Split(
            overhead=share(0.1, 0.05, 0.15),
            memory=share(0.02, 0.01, 0.03),
            matmul=share(0.08, 0.06, 0.1),
            pointwise=share(0.01, 0.005, 0.015),
            input=share(0.78, 0.7, 0.86),
            unexplained=share(0.01, 0.0, 0.05),
        ),
        overhead_parts=OverheadParts(dispatch=0.06, host=0.04, allocation=0.0),
        verdict=Verdict(
            bound="input",
            sentence="This training step waits for its input: 78% of its 0.21 s passes before the data arrive.",
            evidence=("The DataLoader has no worker process.",),
            confidence="likely",
        ),
    )


def unknown() -> Report:
    report = overhead_bound()
    return replace(
        report,
        machine=replace(MACHINE, description=replace(MACHINE.description, cpu=None, torch=None), ceilings=()),
        reconciliation=None,
        step=replace(
            report.step,
            time_s=MedianTime(median=0.0, low=0.0, high=0.0),
            steps_timed=0,
            steps_watched=0,
            warmup_steps=0,
            name="step",
            classes=(),
        ),
        counts=Counts(),
        split=Split(
            overhead=nothing(),
            memory=nothing(),
            matmul=nothing(),
            pointwise=nothing(),
            input=nothing(),
            unexplained=share(1.0, 0.0, 1.0),
        ),
        overhead_parts=OverheadParts(dispatch=0.0, host=0.0, allocation=0.0),
        verdict=Verdict(
            bound="unknown",
            sentence="What bounds this step is not known: the script ended after 1 step.",
            evidence=(),
            confidence="unsure",
        ),
        page_faults=None,
        lines=(),
        ops=(),
        tool=Tool(name="boundby", version="0.1.0"),
    )


def hostile() -> Report:
    """Text that tries to be markup, to steer the terminal, or to be wider than it looks."""
    report = overhead_bound()
    deep = f"{FOLDER}/" + "/".join(f"a_very_long_package_name_{index}" for index in range(9)) + "/训练脚本.py"
    lines = (
        line(
            deep,
            1234567,
            "[red]x[/red] = '\x1b[2J\x1b]0;owned\x07'\t# \u202egnp.exe",
            0.002,
            0.5,
            "memory",
            0.001,
            ("[bold]",),
            1,
        ),
        line(
            "/etc/\x1b[31mevil\n.py", 3, "损失 = 模型(输入)  # " + "宽" * 80, 0.001, 0.25, "magic", 0.0, ("a" * 300,), 2
        ),
        line("C:\\src\\[link=x]train.py", None, "f(':smile:', \udcff)", 0.0005, 0.125, "overhead", 0.0004, (), 1),
    )
    return replace(
        report,
        verdict=replace(
            report.verdict,
            sentence="Bound by [red]overhead[/red]\x1b[0m:\nall of it.",
            evidence=("[/]", "e\x00vidence"),
        ),
        step=replace(report.step, name="[b]\x1b[1m" + "n" * 120),
        counts=replace(report.counts, unmodelled=(Unmodelled(name="[i]\x9b31m::op", calls=1, share=0.5),)),
        findings=(Finding(code="[code]", message="[red]m\x1b[31m", advice="\x08\x08[/red]"),),
        lines=lines,
        ops=tuple(op_of(row, "m" * 200 + "[x]") for row in lines),
        tool=Tool(name="boundby", version="0.1.0", command=("boundby", "run", "it's \x1b[31m.py")),
    )


ALL = {
    "overhead": overhead_bound,
    "memory": memory_bound,
    "compute": compute_bound,
    "input": input_bound,
    "unknown": unknown,
    "hostile": hostile,
}
