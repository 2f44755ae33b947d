"""What is private of a script is in none of the files that leave it out, whatever field it stands in."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_reports import ALL, compute_bound, overhead_bound

from boundby.report.html import render_html
from boundby.report.markdown import render_markdown
from boundby.report.private_text import without_private_text
from boundby.report.report_document import report_document
from boundby.results.counts import GroupCounts, Unmodelled
from boundby.results.files import decode_report, encode
from boundby.results.machine import Finding
from boundby.results.remedy import Predicted, Remedy
from boundby.results.report import ModelledFor, Report, TimelineSpan

SECRET = "zebra"
PATH = f"/home/{SECRET}/{SECRET}_model.py"


def secretive() -> Report:
    """A report with the secret in every place that a script's own text can be in."""
    report = overhead_bound()
    group = GroupCounts(name=f"{SECRET}.0", ops=3)
    return replace(
        report,
        tool=replace(
            report.tool, command=("boundby", "run", "-o", f"{SECRET}.html", "--confidential", f"{SECRET}.py", SECRET)
        ),
        step=replace(report.step, name=f"{SECRET}Net"),
        counts=replace(
            report.counts,
            unmodelled=(Unmodelled(name=f"{SECRET}::scan", calls=1, share=0.1),),
            by_op=(replace(group, name=f"{SECRET}::scan"), replace(group, name="aten.mm.default")),
            by_phase=(replace(group, name="forward"),),
            by_module=(group, replace(group, name="(none)")),
            by_line=(replace(group, name=f"{PATH}:12"), replace(group, name="(unknown)")),
        ),
        lines=tuple(
            replace(one, path=PATH, code=f"{SECRET} = 1", ops=(f"{SECRET}::scan", "aten.mm.default"))
            for one in report.lines
        ),
        ops=tuple(
            replace(one, path=PATH, code=f"{SECRET} = 1", module=f"{SECRET}.0.mlp", op=name)
            for one, name in zip(report.ops, ("aten.mm.default", f"{SECRET}::scan") * 3, strict=True)
        ),
        timeline=(TimelineSpan(phase="forward", module=f"{SECRET}.0", start_s=0.0, time_s=1e-3, op_s=1e-3, ops=1),),
        remedies=(
            Remedy(
                name="fusion",
                title="elementwise chains as one kernel each",
                predicted=Predicted(speedup=1.2, low=1.1, high=1.3, reason=SECRET, change=f"pass it to {SECRET}"),
                why=SECRET,
                failed=f"{SECRET}Error: {PATH}",
                effect=SECRET,
            ),
        ),
        findings=(
            Finding(code="capture-failed", message=f"watching stopped early: {SECRET}", advice=f"mend {SECRET}"),
            Finding(code="unheard-of", message=SECRET, advice=SECRET, about="script", path=PATH, line=3),
            Finding(code="steps-spread", message="step times spread widely", advice="Look for other load."),
        ),
        machine=replace(
            report.machine, findings=(Finding(code="compile-failed", message=f"g++ {PATH}", advice=SECRET),)
        ),
    )


def test_nothing_private_is_in_any_format() -> None:
    report = secretive()
    assert SECRET in encode(report).decode()
    document = report_document(report, confidential=True, folder=f"/home/{SECRET}")
    for text in (
        encode(without_private_text(report)).decode(),
        render_html(document),
        render_markdown(document),
    ):
        assert SECRET not in text.lower()
        assert "/home/" not in text


def test_numbers_and_names_of_torch_stay_and_one_name_stays_one() -> None:
    report = secretive()
    private = without_private_text(report)
    assert private.split == report.split
    assert private.step.time_s == report.step.time_s
    assert private.machine.ceilings == report.machine.ceilings
    assert [one.time_s for one in private.ops] == [one.time_s for one in report.ops]
    assert {one.path for one in private.ops} == {one.path for one in private.lines} == {"file 1"}
    assert {one.op for one in private.ops} == {"aten.mm.default", "op 1"}
    assert private.lines[0].ops == ("op 1", "aten.mm.default")
    assert {one.module for one in private.ops} == {"module 1"}
    assert [one.name for one in private.counts.by_line] == ["file 1:12", "(unknown)"]
    assert [one.name for one in private.counts.by_phase] == ["forward"]
    assert private.verdict.sentence == report.verdict.sentence
    assert private.findings[2] == report.findings[2]
    assert (private.findings[1].code, private.findings[1].path, private.findings[1].line) == ("unheard-of", "file 1", 3)
    assert private.findings[1].about == "script"
    assert "left out" in private.findings[1].message
    assert private.tool.command == ("boundby", "run", "SCRIPT")
    assert private.remedies[0].predicted is not None
    assert private.remedies[0].predicted.speedup == 1.2


@pytest.mark.parametrize("name", ALL)
def test_any_report_can_be_read_again(name: str) -> None:
    private = without_private_text(ALL[name]())
    assert decode_report(encode(private), name="it") == private
    assert without_private_text(private).ops == private.ops


def test_reasons_that_hold_numbers_alone_stay() -> None:
    predicted = Predicted(speedup=1.2, low=1.1, high=1.3, reason="36 page faults a step", change=f"mend {SECRET}")
    report = replace(secretive(), remedies=(Remedy(name="allocator", predicted=predicted, why=SECRET),))
    (told,) = without_private_text(report).remedies
    assert told.predicted == replace(predicted, change="")
    assert told.why == ""


def test_the_file_of_another_machine_is_not_named() -> None:
    report = compute_bound()
    name = f"the machine of {SECRET}/m.json"
    sentence = f"On {name} (modelled from its machine file): this call would take 2 s."
    model = ModelledFor(
        machine=name,
        measured_on=report.machine.description,
        measured_time_s=report.step.time_s,
        measured_bound="compute",
    )
    finding = Finding(code="machine-unsteady", message=f"{SECRET}/m.json: the ceilings moved")
    modelled = replace(
        report,
        modelled_for=model,
        verdict=replace(report.verdict, sentence=sentence),
        machine=replace(report.machine, description=replace(report.machine.description, cpu=None)),
        findings=(finding,),
    )
    private = without_private_text(modelled)
    assert SECRET not in encode(private).decode()
    assert private.verdict.sentence.startswith("On another machine (modelled")
