"""Ops are named in one way in everything that a person reads, however torch or a file spells them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sample_reports

from boundby.bound.compare import compare_reports
from boundby.report.check_page import render_check
from boundby.report.compare_page import render_comparison
from boundby.report.html import render_html
from boundby.report.markdown import render_markdown
from boundby.report.report_document import report_document
from boundby.report.terminal import render_report
from boundby.results.budgets import Check, Judgement, LineGrowth, OpGrowth
from boundby.results.counts import GroupCounts, Unmodelled
from boundby.results.op_names import op_name
from boundby.results.report import Report

SPELLED = ("aten.mm.default", "aten::mm", "aten.mm")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        *((name, "aten.mm") for name in SPELLED),
        ("aten.mul_.Tensor", "aten.mul_.Tensor"),
        ("aten::mul_.Tensor", "aten.mul_.Tensor"),
        ("aten._softmax.default", "aten._softmax"),
        ("mylib::scan", "mylib.scan"),
        ("mm", "mm"),
        ("torch.compile region", "torch.compile region"),
        ("void at::native::add<float>(int)", "void at::native::add<float>(int)"),
        ("", ""),
    ],
)
def test_the_overload_is_named_only_where_it_says_something(given: str, shown: str) -> None:
    assert op_name(given) == shown
    assert op_name(shown) == shown


def spelled(name: str, *, calls: int = 1) -> Report:
    report = sample_reports.overhead_bound()
    group = GroupCounts(
        name=name,
        ops=calls,
        launches=calls,
        matmul_flops=2 * calls,
        pointwise_flops=0,
        bytes_read=8 * calls,
        bytes_written=4 * calls,
        saved_bytes=0,
    )
    beside = replace(report.ops[0], op=name, matmul_flops=0)
    return replace(
        report,
        ops=(beside, *(replace(one, op=name) for one in report.ops)),
        lines=tuple(replace(one, ops=(name,)) for one in report.lines),
        counts=replace(
            report.counts, by_op=(group,), unmodelled=(Unmodelled(name=name, calls=1, share=0.1),), launches=calls
        ),
    )


def checked(name: str) -> str:
    line = LineGrowth(
        path="net.py",
        line=3,
        code="y = x @ w",
        old_line=3,
        old_code=None,
        old=1,
        new=2,
        ops=(OpGrowth(op=name, old=1, new=2), OpGrowth(op=name, old=0, new=1), OpGrowth(op=name, old=None, new=1)),
    )
    judgement = Judgement(
        name="launches",
        of="launches",
        state="over",
        value=2,
        limit=1,
        least=False,
        source="baseline",
        baseline=1,
        lines=(line,),
        lines_by="launches",
        grown=True,
    )
    return render_check(
        Check(target="net.py", passed=False, judgements=(judgement,)), width=80, color=False, unicode=True
    )


def texts(name: str) -> dict[str, str]:
    report, after = spelled(name), spelled(name, calls=2)
    document = report_document(report, folder=sample_reports.FOLDER)
    found = compare_reports(report, after, name_a="a.json", name_b="b.json", across_machines=False)
    return {
        "terminal": render_report(report, width=80, color=False, unicode=True),
        "markdown": render_markdown(document),
        "html": render_html(document),
        "compare": render_comparison(found, width=80, color=False, unicode=True, folder=sample_reports.FOLDER),
        "check": checked(name),
    }


@pytest.mark.parametrize("given", SPELLED)
def test_every_page_spells_an_op_alike(given: str) -> None:
    for place, text in texts(given).items():
        assert "aten.mm" in text, place
        assert "aten.mm.default" not in text, place
        assert "aten::mm" not in text, place
