"""The pages of a machine, a sweep and an estimate: the answer first, and no number without its band and its source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_machine_table import MACHINE, ceiling, square
from test_sweep_page import GROWS, sweep_of

from boundby.llm.decode import DecodeEstimate, estimate_decode
from boundby.llm.hardware import find_hardware
from boundby.llm.models import find_model
from boundby.report.chart import Chart
from boundby.report.decode_document import decode_document
from boundby.report.document import Block, Bullets, Document, Paragraph, Table
from boundby.report.html import render_html
from boundby.report.machine_document import machine_document
from boundby.report.markdown import render_markdown
from boundby.report.sweep_document import sweep_document
from boundby.results.machine import Finding


def blocks_of(document: Document) -> list[Block]:
    return [*document.lead, *(block for section in document.sections for block in section.blocks)]


def chart_named(document: Document, name: str) -> Chart:
    return next(block for block in blocks_of(document) if isinstance(block, Chart) and block.name == name)


def answer(document: Document) -> str:
    first = document.lead[0]
    assert isinstance(first, Paragraph)
    assert first.emphasis
    return first.text


@pytest.fixture(scope="module")
def estimate() -> DecodeEstimate:
    return estimate_decode(find_model("llama-3.2-1b"), find_hardware("H100-SXM5"))


def test_a_machine_says_its_limits_in_a_sentence() -> None:
    document = machine_document(MACHINE)
    assert document.title == "a processor"
    assert answer(document) == (
        "Matrix products reach fp32 200 GFLOP/s. Main memory moves 50.0 GB/s. Below 4.0 FLOP/byte, memory binds in "
        "fp32. An op takes 1.00 µs at least."
    )


def test_a_machines_charts_hold_what_torch_reached_at_its_own_threads() -> None:
    document = machine_document(MACHINE)
    (fp32,) = chart_named(document, "products").lines
    assert (fp32.x, fp32.y) == ((64.0, 128.0, 512.0), (50e9, 150e9, 200e9))
    assert fp32.low == pytest.approx([0.995 * rate for rate in fp32.y])
    curves = {line.name: line for line in chart_named(document, "bandwidth").lines}
    assert set(curves) == {"read", "copy"}
    assert curves["copy"].y == (170e9, 50e9)
    functions = chart_named(document, "functions")
    assert [(bar.category, bar.group, bar.value) for bar in functions.bars] == [
        ("exp", "torch", 1e-9),
        ("exp", "torch.compile", 0.5e-9),
    ]
    assert [bar.value for bar in chart_named(document, "overhead").bars] == [1e-6]
    ridges = chart_named(document, "roofline").marks
    assert [(mark.label, mark.x, mark.y) for mark in ridges] == [("fp32", 4.0, 200e9)]


def test_what_was_not_measured_looks_and_reads_so() -> None:
    machine = replace(
        MACHINE,
        ceilings=(square(64, 50e9, source="datasheet"), square(128, 90e9, source="datasheet", unsteady=True)),
    )
    document = machine_document(machine)
    assert chart_named(document, "products").lines[0].look == "datasheet"
    text = render_markdown(document)
    assert "from a datasheet; moved while it was measured" in text
    assert "| measured |" not in text


def test_a_machine_of_which_nothing_is_known() -> None:
    document = machine_document(replace(MACHINE, ceilings=(), findings=()))
    assert answer(document) == "No limit is known of this machine."
    assert [section.title for section in document.sections] == ["How it was measured"]


def test_all_findings_of_a_machine_stand_on_its_page() -> None:
    findings = tuple(Finding(code=f"code-{place}", message=f"Message {place}.", advice="Do.") for place in range(5))
    document = machine_document(replace(MACHINE, findings=findings))
    (told,) = (one for one in blocks_of(document) if isinstance(one, Bullets) and "[code-0]" in one.items[0])
    assert told.items[4] == "Message 4. Do. [code-4]"


def test_many_functions_are_cut_to_those_that_people_know() -> None:
    names = [f"f{place}" for place in range(40)]
    many = tuple(ceiling("function", name, 1e-9, "s") for name in names)
    document = machine_document(replace(MACHINE, ceilings=(*MACHINE.ceilings, *many)))
    shown = chart_named(document, "functions").y.categories
    assert len(shown) == 20
    assert "exp" in shown


def test_a_sweeps_points_and_its_fit() -> None:
    document = sweep_document(sweep_of(*GROWS, spread=0.1))
    assert answer(document).startswith("A call takes 2.0 ms and 50 µs for each of batch")
    measured, fitted = chart_named(document, "times").lines
    assert (measured.look, fitted.look) == ("measured", "modelled")
    assert measured.x == (1.0, 4.0, 16.0, 64.0, 256.0)
    assert measured.low == pytest.approx([0.9 * time for time in measured.y])
    assert (fitted.x[0], fitted.x[-1]) == (1.0, pytest.approx(256.0))
    assert fitted.y[0] == pytest.approx(measured.y[0], rel=0.02)
    assert not fitted.points


def test_what_spoils_a_sweep_stands_on_its_page() -> None:
    text = render_markdown(sweep_document(sweep_of(*GROWS, spread=0.3)))
    assert "sweep-unsteady" in text
    assert "spoil" not in render_markdown(sweep_document(sweep_of(*GROWS)))


def test_an_estimate_is_marked_as_one_everywhere(estimate: DecodeEstimate) -> None:
    document = decode_document(estimate)
    assert "llama-3.2-1b on H100-SXM5" in answer(document)
    looks = {line.look for name in ("batch", "context") for line in chart_named(document, name).lines}
    looks |= {bar.look for name in ("parts", "launches") for bar in chart_named(document, name).bars}
    assert looks == {"modelled", "datasheet"}
    (note,) = (block for block in document.lead if isinstance(block, Paragraph) and block.note)
    assert "nothing was run" in note.text


def test_the_parts_of_an_estimate_add_up(estimate: DecodeEstimate) -> None:
    document = decode_document(estimate)
    assert sum(bar.value for bar in chart_named(document, "parts").bars) == pytest.approx(estimate.parts.step_s)
    launches = chart_named(document, "launches").bars
    assert len(launches) == 2 * len(estimate.launch_costs)
    for busy, added, cost in zip(launches[::2], launches[1::2], estimate.launch_costs, strict=True):
        assert added.start == busy.value
        assert busy.value + added.value == pytest.approx(cost.serial_s)


def test_an_unknown_peak_is_unknown_on_the_page(estimate: DecodeEstimate) -> None:
    prefill = replace(estimate.prefill, expected_s=None, floor_s=None)
    sweep = tuple(replace(one, mfu=None, fits=None) for one in estimate.sweep)
    document = decode_document(replace(estimate, prefill=prefill, sweep=sweep, peak_flops_per_s=None))
    text = render_markdown(document)
    assert "unknown, since no peak of 16-bit products is known" in text
    assert "MFU unknown; whether it fits is unknown" in text


def test_every_page_has_its_tables_and_one_name_a_chart(estimate: DecodeEstimate) -> None:
    for document in (machine_document(MACHINE), sweep_document(sweep_of(*GROWS)), decode_document(estimate)):
        names = [block.name for block in blocks_of(document) if isinstance(block, Chart)]
        assert len(names) == len(set(names)) > 0
        for block in blocks_of(document):
            if isinstance(block, Table):
                assert {len(row) for row in block.rows} <= {len(block.head)}
        assert render_html(document).count('class="plot"') == len(names)


def test_a_command_in_a_sentence_is_code_and_stays_escaped() -> None:
    lead = (Paragraph(text="See `boundby machine <x>` & go on."),)
    page = render_html(Document(title="T", lead=lead, sections=(), language="en"))
    assert "See <code>boundby machine &lt;x&gt;</code> &amp; go on." in page
