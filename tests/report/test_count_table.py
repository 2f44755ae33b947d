"""The table of `boundby count`: every width, alike modules on one line, unmodelled ops with their modules."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from boundby.report.count_table import render_counts
from boundby.results.count_file import CountFile, decode_counts, encode_counts
from boundby.results.counts import GroupCounts, Unmodelled
from boundby.results.errors import BoundbyError
from boundby.results.machine import Finding
from boundby.results.module_tree import CallCounts, ModuleNode
from boundby.results.report import Tool


def node(
    name: str = "layer",
    kind: str = "Linear",
    children: Sequence[ModuleNode] = (),
    *,
    flops: int = 1000,
    calls: int = 1,
    parameters: int = 10,
    unmodelled: tuple[Unmodelled, ...] = (),
    path: str | None = None,
) -> ModuleNode:
    """A node whose own work is ``flops`` and whose totals add up."""
    own = GroupCounts(
        name=name, ops=1 if flops else 0, launches=1 if flops else 0, matmul_flops=flops, bytes_read=flops
    )
    total = GroupCounts(
        name=name,
        ops=own.ops + sum(one.total.ops for one in children),
        launches=own.launches + sum(one.total.launches for one in children),
        matmul_flops=flops + sum(one.total.matmul_flops for one in children),
        bytes_read=flops + sum(one.total.bytes_read for one in children),
    )
    return ModuleNode(
        name=name,
        path=name if path is None else path,
        type=kind,
        calls=calls,
        parameters=parameters + sum(one.parameters for one in children),
        own_parameters=parameters,
        total=total,
        own=own,
        saved_bytes=sum(one.saved_bytes for one in children) + 64,
        own_saved_bytes=64,
        unmodelled=unmodelled,
        children=tuple(children),
    )


def file_of(*outermost: ModuleNode, findings: tuple[Finding, ...] = (), target: str = "m.py:make") -> CountFile:
    inside = node("", "", outermost, flops=0, calls=0, parameters=0)
    tree = ModuleNode(**{name: getattr(inside, name) for name in ModuleNode.__slots__} | {"own_saved_bytes": 0})
    total = tree.total
    named = [one for each in outermost for one in each.unmodelled]
    counts = CallCounts(
        ops=total.ops,
        launches=total.launches,
        matmul_flops=total.matmul_flops,
        causal_matmul_flops=total.matmul_flops,
        bytes_read=total.bytes_read,
        saved_bytes=tree.saved_bytes,
        saved_input_bytes=0,
        unmodelled=tuple(named),
        tree=tree,
        devices=("cpu",),
        findings=findings,
    )
    return CountFile(target=target, backward=False, fake=False, tool=Tool(name="boundby", version="0"), counts=counts)


def rows(text: str) -> list[str]:
    """The lines of the tree."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Modules"))
    end = next((at for at in range(start, len(lines)) if not lines[at]), len(lines))
    return lines[start + 1 : end]


def render(file: CountFile, *, width: int = 80, unicode: bool = True, depth: int | None = None) -> str:
    return render_counts(file, width=width, color=False, unicode=unicode, depth=depth)


def test_alike_neighbours_share_a_line() -> None:
    layers = [node(str(at)) for at in range(5)] + [node("5", flops=7), node("6"), node("7")]
    shown = rows(render(file_of(node("Net", "Net", layers, flops=0))))
    assert [re.split(r" {2,}", line)[0] for line in shown] == [
        "Net",
        "├ 0 ... 4, each Linear",
        "├ 5 Linear",
        "├ 6 Linear",
        "├ 7 Linear",
        "└ (its own ops)",
    ]


def test_neighbours_that_differ_below_do_not_share_a_line() -> None:
    layers = [node(str(at), "Block", [node("inner", flops=at)]) for at in range(4)]
    assert sum("Block" in line for line in rows(render(file_of(node("Net", "Net", layers))))) == 4


def test_a_deep_tree_is_cut_where_it_has_too_many_lines() -> None:
    blocks = [node(f"b{at}", "Block", [node(f"c{one}", flops=one) for one in range(9)], flops=at) for at in range(9)]
    file = file_of(node("Net", "Net", blocks))
    assert len(rows(render(file))) == 11
    assert len(rows(render(file, depth=3))) > 80
    assert [line.split()[0] for line in rows(render(file, depth=1))] == ["Net"]


def test_a_module_that_was_not_called_has_dashes() -> None:
    spare = node("spare", flops=0, calls=0)
    line = next(one for one in rows(render(file_of(node("Net", "Net", [spare])))) if "spare" in one)
    assert line.split() == ["├", "spare", "Linear", "-", "10", "-", "-", "-"]


def test_work_outside_modules_has_a_line() -> None:
    shown = rows(render(file_of(node("Linear"), node("Loss", "Loss"))))
    assert shown[0].startswith("whole call")
    assert len(shown) == 3


def test_unmodelled_ops_are_named_with_their_modules() -> None:
    opaque = (Unmodelled(name="mylib::fused", calls=4),)
    text = render(file_of(node("Net", "Net", unmodelled=opaque)))
    assert "  - mylib.fused, 4 calls, in Net" in text


def test_findings_stand_below_in_order_of_weight() -> None:
    findings = (
        Finding(code="values-unknown", message="no values", advice="Count on real tensors."),
        Finding(code="meta-differs", message="other ops"),
    )
    text = render(file_of(node("Net", "Net"), findings=findings))
    assert text.index("other ops. [meta-differs]") < text.index("no values. Count on real tensors. [values-unknown]")


def test_no_op_at_all() -> None:
    assert "no op ran" in render(file_of())


@given(
    names=st.lists(st.text(max_size=30), min_size=1, max_size=4),
    width=st.integers(20, 200),
    unicode=st.booleans(),
    deep=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_lines_fit_and_are_clean_whatever_the_names(names: list[str], width: int, unicode: bool, deep: int) -> None:
    inside = [node(name, name, flops=at) for at, name in enumerate(names)]
    for at in range(deep):
        inside = [node(names[at % len(names)], "Block", inside)]
    text = render(file_of(*inside, target="\x1b[31m.py:make"), width=width, unicode=unicode, depth=deep + 1)
    assert max(cell_len(line) for line in text.splitlines()) <= min(max(width, 40), 100)
    assert "\x1b" not in text
    assert unicode or text.isascii()


def test_a_file_is_read_as_it_was_written() -> None:
    findings = (Finding(code="meta-differs", message="other ops"),)
    file = file_of(
        node("Net", "Net", [node("a"), node("b", unmodelled=(Unmodelled(name="x::y", calls=1),))]), findings=findings
    )
    assert decode_counts(encode_counts(file)) == file


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((b'"version": 1', b'"version": 2'), "unknown-version"),
        ((b"boundby.counts", b"boundby.other"), "unknown-schema"),
        ((b'"backward": false', b'"backward": 3'), "damaged-file"),
        ((b"{", b""), "damaged-file"),
    ],
)
def test_files_that_cannot_be_read_are_refused(change: tuple[bytes, bytes], code: str) -> None:
    data = encode_counts(file_of(node("Net", "Net"))).replace(*change, 1)
    with pytest.raises(BoundbyError) as refused:
        decode_counts(data, name="c.json")
    assert refused.value.code == code
