"""`boundby sweep`: what is named, what is refused, one real small sweep."""

from __future__ import annotations

import json

import click
import pytest

import boundby
from boundby.capture.factory import FactoryTarget
from boundby.capture.sweeping import check_argument, checked_values, time_sizes
from boundby.cli.main import main
from boundby.cli.sweep import parse_over

MODELS = """
import torch

def make(batch=8, *, width=16):
    return torch.nn.Linear(width, width), torch.randn(batch, width)

def two(batch, other):
    return lambda: None
"""


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)
    return "models.py"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sweep", *words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("batch=1,2,4", "batch", (1, 2, 4)),
        ("batch = 1..8".replace(" ", ""), "batch", (1, 2, 4, 8)),
        ("n=3..20", "n", (3, 6, 12, 20)),
        ("d_model=64, 100,128..256", "d_model", (64, 100, 128, 256)),
        ("n=5..5", "n", (5,)),
    ],
)
def test_values_are_listed_or_doubled(text, name, values):
    assert parse_over(text) == (name, values)


@pytest.mark.parametrize("text", ["batch", "=1,2", "batch=", "batch=a", "batch=1.5", "batch=8..1", "batch=-1", "2=1"])
def test_what_names_no_values_is_refused(text):
    with pytest.raises(click.BadParameter):
        parse_over(text)


@pytest.mark.parametrize("values", [(), (1, 2), (1, 1, 1), (0, 1, 2), (1, 2, 2.5), (True, 2, 3)])
def test_values_that_cannot_be_fitted_are_refused(values):
    with pytest.raises(boundby.BoundbyError) as raised:
        checked_values(values)
    assert raised.value.code == "bad-sweep"


def test_values_are_put_in_order_once():
    assert checked_values((4, 1, 2, 4)) == (1, 2, 4)


def test_the_factory_must_take_the_argument_and_need_no_other():
    target = FactoryTarget(home="m", name="make", is_module=True)
    check_argument(lambda batch: None, "batch", target)
    check_argument(lambda **sizes: None, "batch", target)
    for make in (lambda width=1: None, lambda batch, other: None, lambda: None):
        with pytest.raises(boundby.BoundbyError) as raised:
            check_argument(make, "batch", target)
        assert raised.value.code == "bad-target"


def test_sizes_take_turns_on_any_clock():
    """Calls that move the clock by 2 ms and 1 ms a unit of size."""
    now = [0]
    order = []

    def make(n):
        def call():
            order.append(n)
            now[0] += 2_000_000 + 1_000_000 * n

        return call

    target = FactoryTarget(home="m", name="make", is_module=True)

    def clock():
        now[0] += 1
        return now[0]

    points = time_sizes(make, "n", (1, 4, 16), target=target, budget_s=0.1, clock=clock)
    assert [one.at for one in points] == [1, 4, 16]
    assert [one.time_s.value for one in points] == pytest.approx([3e-3, 6e-3, 18e-3], rel=1e-3)
    assert order[:3] == [1, 4, 16]


def test_a_real_sweep_in_python():
    import torch

    def make(width):
        layer = torch.nn.Linear(width, width)
        return layer, torch.randn(64, width)

    found = boundby.sweep(make, "width", (16, 64, 256), backward=True, budget_s=0.2)
    assert [one.at for one in found.points] == [16, 64, 256]
    assert found.backward
    assert found.fit.fixed_s.value >= 0
    assert json.loads(found.to_json())["schema"] == "boundby.sweep"


def test_the_command_prints_and_writes(models, tmp_path, capsys):
    assert run(f"{models}:make", "--over", "batch=1..256", "--budget", "0.1", "-o", "s.json") == 0
    text = capsys.readouterr().out
    assert "batch" in text
    assert "Plot" in text
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["target"] == "models.py:make"
    assert len(written["points"]) == 9
    with pytest.raises(SystemExit) as ended:
        main(["show", "s.json"])
    assert not ended.value.code
    # All but the command to type next.
    assert capsys.readouterr().out.strip() == text.partition("\nNext")[0].strip()
    assert run(f"{models}:make", "--over", "batch=1..4", "--budget", "0.1", "-o", "s.json") == 1
    capsys.readouterr()
    assert run(f"{models}:make", "--over", "batch=1..4", "--budget", "0.1", "--json") == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("models.py:make", "--over", "bach=1..8"), "[bad-target]"),
        (("models.py:two", "--over", "batch=1..8"), "other"),
        (("models.py:make", "--over", "batch=1,2"), "[bad-sweep]"),
        (("models.py:mak", "--over", "batch=1..8"), "[no-such-target]"),
        (("--over", "batch=1..8"), "Name one function"),
        (("models.py:make",), "--over"),
    ],
)
def test_mistakes_are_told_in_a_line(models, capsys, words, says):
    assert run(*words) == 2
    told = capsys.readouterr().err
    assert says in told
    assert "Traceback" not in told


def test_what_a_size_raises_names_the_size(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text(
        "def make(batch):\n    def call():\n        assert batch < 4, 'too large'\n    return call\n"
    )
    assert run("--over", "batch=1,2,4", "--budget", "0.1", "small.py:make") == 1
    told = capsys.readouterr().err
    assert "AssertionError: too large" in told
    assert "That was with batch=4." in told
    assert "[target-failed]" in told
