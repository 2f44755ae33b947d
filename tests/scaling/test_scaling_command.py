"""`boundby scaling`: its three uses, real scripts and functions at one and two threads, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest

import boundby
from boundby.cli.main import main
from boundby.remedies.thread_scaling import callable_scaling, thread_counts
from boundby.results.errors import BoundbyError
from boundby.results.scaling import decode_scaling

TRAIN = """
import torch
{first}
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
while True:
    optimizer.zero_grad()
    layer(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""
FUNCTIONS = """
import torch

def make():
    return torch.nn.Linear(8, 8), torch.randn(4, 8)

def number():
    return 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return tmp_path


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["scaling", *words])
    return int(ended.value.code or 0)


def test_laws_from_numbers(capsys):
    assert run("--serial", "0.01,0.1%", "--n", "8,132,16896,135168,inf") == 0
    text = capsys.readouterr().out
    found = [line.split() for line in text.splitlines() if re.match(r" +\S+ +\S+x +\S+%? +", line)]
    assert [cells[1] for cells in found[:5]] == ["7.48x", "57.1x", "99.4x", "99.9x", "100x"]
    assert [cells[3] for cells in found[:4]] == ["7.93x", "131x", "16,727x", "133,816x"]
    assert found[5:9][2][1:4:2] == ["944x", "16,879x"]
    assert "more than 100x as fast" in " ".join(text.split())


def test_given_speedups_are_fitted_and_what_is_modelled_is_called_so(capsys):
    assert run("--measured", "1:1.0,2:1.8,4:3.1", "--n", "16") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("4 workers are 3.10x (3.05-3.15) as fast as one: 9.9%")
    assert "16 workers would be" in text
    assert "(modelled)" in text
    assert "not fitted: 2 speed-ups" in text


def test_files_of_every_format_are_written_and_read_again(capsys, folder):
    for name in ("a.json", "a.md", "a.html"):
        assert run("--measured", "1:1.0,2:1.9,4:3.4,8:5.2", "-o", name) == 0
    kept = decode_scaling((folder / "a.json").read_bytes())
    assert kept.usl is not None
    assert "| workers |" in (folder / "a.md").read_text()
    assert "<html" in (folder / "a.html").read_text()
    capsys.readouterr()
    assert run("--measured", "a.json", "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["amdahl"] == json.loads((folder / "a.json").read_text())["amdahl"]
    assert again["schema"] == "boundby.scaling"


def test_a_script_runs_at_each_count_in_turns(capsys, folder):
    (folder / "train.py").write_text(TRAIN.format(first=""))
    assert run("--threads", "2", "--budget", "1", "--json", "train.py") == 0
    found = decode_scaling(capsys.readouterr().out.encode())
    assert (found.origin, found.unit, found.target) == ("measured", "threads", "train.py")
    assert [one.workers for one in found.points] == [1, 2]
    assert all(one.time_s is not None and one.time_s.value > 0 for one in found.points)
    assert found.points[1].turns is not None
    assert found.points[1].turns >= 4
    assert sorted(one.name for one in folder.iterdir()) == ["functions.py", "train.py"]


def test_a_script_that_chooses_its_threads_is_told_so(capsys, folder):
    (folder / "train.py").write_text(TRAIN.format(first="torch.set_num_threads(2)"))
    assert run("--threads", "2", "--budget", "1", "train.py") == 1
    assert "the script itself chooses 2 threads" in capsys.readouterr().err


def test_a_function_is_timed_at_each_count(capsys):
    assert run("--threads", "1,2", "--budget", "1", "functions.py:make") == 0
    text = capsys.readouterr().out
    assert "functions.py:make" in text
    assert "Measured here" in text


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--serial", "1.5"], "bad-serial-share"),
        (["--serial", "nan"], "bad-serial-share"),
        (["--serial", "-1%"], "bad-serial-share"),
        (["--serial", "0.1", "--n", "0"], "bad-workers"),
        (["--serial", "0.1", "--n", "2.5"], "bad-workers"),
        (["--measured", "2:0"], "bad-speedups"),
        (["--measured", ""], "bad-speedups"),
        (["--measured", "nothing"], "bad-speedups"),
        (["--measured", "no.csv"], "no-such-file"),
        (["--measured", "no/1:2.csv"], "no-such-file"),
        (["--measured", "1e300:5,2:1.8"], "bad-speedups"),
        (["--measured", "a:5,2:1.8"], "bad-speedups"),
        (["--measured", ",".join(f"{count}:x" for count in range(1, 200))], "bad-speedups"),
        (["--threads", "0", "functions.py"], "bad-workers"),
        (["--threads", "100000", "functions.py"], "bad-threads"),
        (["--threads", "2", "2fast.py:make"], "no-such-target"),
        (["--threads", "2", "no.py"], "no-such-script"),
        (["--threads", "2", "functions.py:number"], "bad-target"),
        (["--threads", "2", "functions.py:none"], "no-such-target"),
        (["--serial", "0.1", "-o", "a.txt"], "output-format"),
    ],
)
def test_a_mistake_is_one_clear_line(words, code, capsys):
    assert run(*words) in (1, 2)
    lines = [line for line in capsys.readouterr().err.splitlines() if f"[{code}]" in line]
    assert len(lines) == 1


@pytest.mark.parametrize("words", [
    [], ["--serial", "0.1", "--measured", "2:1"], ["--threads", "2", "--serial", "0.1"], ["1:1,2:1.8"],
])  # fmt: skip
def test_what_cannot_go_together_is_a_usage_error(words):
    assert run(*words) == 2


def test_counts_go_up_to_the_cores_and_one_is_always_there():
    assert thread_counts(None, 1) == (1,)
    assert thread_counts(None, 6) == (1, 2, 4, 6)
    assert thread_counts(None, 1000)[-1] == 1000
    assert len(thread_counts(None, 1000)) <= 8
    assert thread_counts((3,), 4) == (1, 3)
    for wanted in ((0,), (True,), (1.5,), (9,), tuple(range(1, 10))):
        with pytest.raises(BoundbyError) as raised:
            thread_counts(wanted, 2)
        assert raised.value.code == "bad-threads"


def test_the_speedup_is_that_of_the_clock():
    class Machine:
        now = 0.0
        threads = 1

        def __call__(self):
            return self.now

        def work(self):
            # A tenth of the second is serial.
            self.now += 0.1 + 0.9 / self.threads

        def at(self, count):
            from contextlib import contextmanager

            @contextmanager
            def limited():
                self.threads = count
                yield

            return limited()

    machine = Machine()
    timed = callable_scaling(machine.work, (1, 2, 4), cores=2, budget_s=5, clock=machine, at_threads=machine.at)
    points = timed.points
    assert [one.speedup.value for one in points] == pytest.approx([1, 1 / 0.55, 1 / 0.325])
    assert [one.oversubscribed for one in points] == [False, False, True]
    assert points[1].serial_share.value == pytest.approx(0.1)


def test_in_python_and_torch_keeps_its_threads():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    a = torch.ones(64, 64)
    found = boundby.thread_scaling(torch.mm, a, a, threads=[2], budget_s=0.1)
    assert torch.get_num_threads() == before
    assert [one.workers for one in found.points] == [1, 2]
    with pytest.raises(BoundbyError) as raised:
        boundby.thread_scaling(3)
    assert raised.value.code == "not-callable"


def test_a_busy_machine_is_told_of_before_anything_is_believed(monkeypatch):
    from boundby.remedies import thread_scaling
    from boundby.remedies.foreign_load import CoreTime
    from boundby.report.scaling_words import sentence
    from boundby.results.interval import interval
    from boundby.scaling.speedups import point
    from boundby.scaling.summary import scaling_of

    now = iter([0.0, 10.0, 20.0, 30.0])
    monkeypatch.setattr(thread_scaling.time, "monotonic", lambda: next(now))
    readings = iter([(100.0, 0.0), (118.0, 10.0), (100.0, 0.0), (112.0, 11.5)])

    def reading(process_id, affinity):
        machine_s, own_s = next(readings)
        return CoreTime(machine_s=machine_s, own_s=own_s)

    monkeypatch.setattr(thread_scaling, "core_time", reading)
    (finding,) = thread_scaling._OtherLoad().findings((1, 2), 2)  # 18 busy seconds of 10, of which 10 its own
    assert finding.code == "scaling-load"
    assert "0.8 cores" in finding.message
    assert thread_scaling._OtherLoad().findings((1, 2), 2) == ()
    points = (point(1, interval(1.0)), point(2, interval(0.9, 0.8, 0.95)))
    assert "do not rely" in sentence(scaling_of(points, origin="measured", findings=(finding,)))


def test_bands_of_given_times_are_not_rounded_onto_them(capsys):
    assert run("--measured", "1:35ms,2:20ms") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("35.0 ms (34.5-35.5 ms)" in line for line in lines)
    assert any("20.0 ms (19.5-20.5 ms)" in line for line in lines)
