import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boundby.results.errors import BoundbyError
from boundby.results.machine import Ceiling, Finding, Machine, MachineDescription
from boundby.results.machine_file import SCHEMA, VERSION, decode_machine, encode_machine

rates = st.floats(min_value=1e-12, max_value=1e15)
ceilings = st.builds(
    Ceiling,
    kind=st.sampled_from(["matmul", "bandwidth", "function", "overhead", "launch", "anchor"]),
    name=st.text(max_size=20),
    dtype=st.none() | st.sampled_from(["fp32", "bf16"]),
    threads=st.integers(1, 512),
    stack=st.sampled_from(["torch", "numpy"]),
    size_bytes=st.none() | st.integers(1, 2**40),
    shape=st.none() | st.tuples(*[st.integers(1, 10**6)] * 4),
    value=st.just(1.0),
    low=st.just(1.0),
    high=st.just(1.0),
    unit=st.sampled_from(["flop/s", "byte/s", "s"]),
    source=st.sampled_from(["measured", "modelled", "datasheet"]),
)
# A ceiling with its band: three numbers in order.
ceilings = st.builds(
    lambda one, numbers: replace(one, low=numbers[0], value=numbers[1], high=numbers[2]),
    ceilings,
    st.lists(rates, min_size=3, max_size=3).map(sorted),
)
machines = st.builds(
    Machine,
    description=st.builds(
        MachineDescription,
        cpu=st.none() | st.text(max_size=30),
        usable_cores=st.integers(1, 512),
        logical_cores=st.none() | st.integers(1, 1024),
        memory_bytes=st.none() | st.integers(1, 2**50),
        memory_limit_bytes=st.none() | st.integers(1, 2**50),
        os=st.text(max_size=20),
        python=st.text(max_size=10),
        torch=st.none() | st.text(max_size=20),
        threads=st.integers(1, 512),
        affinity=st.none() | st.lists(st.integers(0, 511), max_size=4).map(tuple),
        measured_at=st.none() | st.just("2026-01-01T00:00:00+00:00"),
    ),
    ceilings=st.lists(ceilings, max_size=5).map(tuple),
    findings=st.lists(st.builds(Finding, code=st.text(), message=st.text(), advice=st.text()), max_size=2).map(tuple),
)

VERSION_1 = Path(__file__).parent / "files" / "machine-version-1.json"
DESCRIPTION = decode_machine(VERSION_1.read_bytes()).description


@settings(deadline=None)
@given(machines)
def test_a_machine_survives_its_file(machine):
    assert decode_machine(encode_machine(machine)) == machine


def test_the_schema_and_its_version_stand_first():
    machine = decode_machine(VERSION_1.read_bytes())
    assert list(json.loads(encode_machine(machine)))[:4] == ["schema", "version", "description", "ceilings"]


def test_a_file_of_version_1_reads_as_it_was_meant():
    machine = decode_machine(VERSION_1.read_bytes())
    assert machine.description.usable_cores == 2
    assert machine.description.affinity == (0, 1)
    product, stream = machine.ceilings
    assert (product.kind, product.shape, product.unit, product.value) == (
        "matmul",
        (1, 512, 512, 512),
        "flop/s",
        1.0e11,
    )
    assert (stream.name, stream.size_bytes, stream.source) == ("copy", 268435456, "measured")
    assert machine.findings[0].code == "dtype-slow"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "damaged-file"),
        (b"{", "damaged-file"),
        (b"[]", "damaged-file"),
        (b"{}", "damaged-file"),
        (b"\xff\xfe", "damaged-file"),
        (b'{"schema": "boundby.report", "version": 1}', "unknown-schema"),
        (b'{"schema": null, "version": 1}', "unknown-schema"),
        (b'{"schema": "boundby.machine", "version": 2}', "unknown-version"),
        (b'{"schema": "boundby.machine", "version": true}', "unknown-version"),
        (b'{"schema": "boundby.machine"}', "unknown-version"),
        (b'{"schema": "boundby.machine", "version": 1}', "damaged-file"),
        (b'{"schema": "boundby.machine", "version": 1, "description": {}, "ceilings": 3}', "damaged-file"),
    ],
)
def test_a_file_that_is_not_a_machine_is_refused_by_name(data, code):
    with pytest.raises(BoundbyError) as caught:
        decode_machine(data, name="some/file.json")
    assert caught.value.code == code
    assert "some/file.json" in caught.value.message
    assert caught.value.advice


def test_an_unknown_version_is_named():
    data = json.dumps({"schema": SCHEMA, "version": VERSION + 1}).encode()
    with pytest.raises(BoundbyError, match=f"version {VERSION + 1} of {SCHEMA}"):
        decode_machine(data)


@given(st.integers(0, 2000))
def test_half_a_file_is_never_taken_for_a_machine(length):
    data = VERSION_1.read_bytes().rstrip()
    if length < len(data):
        with pytest.raises(BoundbyError):
            decode_machine(data[:length])


def test_numbers_are_finite():
    assert all(math.isfinite(one.value) for one in decode_machine(VERSION_1.read_bytes()).ceilings)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"low": -1.0}, "ceilings[0] (-1.0, 2.0, 3.0)"),
        ({"low": 0.0}, "ceilings[0] (0.0, 2.0, 3.0)"),
        ({"low": 3.0, "high": 1.0}, "ceilings[0] (3.0, 2.0, 1.0)"),
        ({"value": 9.0}, "ceilings[0] (1.0, 9.0, 3.0)"),
    ],
)
def test_a_file_with_a_band_that_no_ceiling_has_is_damaged(fields, told):
    one = Ceiling(kind="overhead", name="view", threads=1, unit="s", value=2.0, low=1.0, high=3.0)
    machine = Machine(description=DESCRIPTION, ceilings=(one,))
    assert decode_machine(encode_machine(machine)) == machine
    with pytest.raises(BoundbyError, match=re.escape(told)) as caught:
        decode_machine(encode_machine(replace(machine, ceilings=(replace(one, **fields),))), name="edited.json")
    assert caught.value.code == "damaged-file"
    with pytest.raises(BoundbyError, match=r"description\.threads is 0"):
        decode_machine(encode_machine(replace(machine, description=replace(DESCRIPTION, threads=0))))
