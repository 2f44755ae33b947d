"""The pytest plugin: marked tests and counted blocks held to budgets, and nothing at all without its flag."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

import boundby.bound.budgets
import boundby.bound.counted
import boundby.capture.call_watch
import boundby.capture.frame_tensors
import boundby.report.check_page  # noqa: F401  # all loaded here, as an inner pytest forgets what it imports itself
from boundby import pytest_plugin

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
NAME = "boundby.pytest_plugin"

MODEL = """
    import pytest
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))


    def train(x):
        loss = net(x).sum()
        loss.backward()
        return loss
"""

Run = Callable[..., pytest.RunResult]


def plugin_options() -> tuple[str, ...]:
    """What makes pytest load the plugin where this checkout was installed before it had one."""
    installed = any(one.value == NAME for one in entry_points(group="pytest11"))
    return () if installed else ("-p", NAME)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Writes tests below the model, and runs them; with ``--boundby`` unless told otherwise."""

    def run_tests(tests: str, *options: str, on: bool = True, apart: bool = False) -> pytest.RunResult:
        pytester.makepyfile(MODEL + tests)
        words = [*plugin_options(), "--strict-markers", "-p", "no:cacheprovider", *options, *(["--boundby"] * on)]
        return pytester.runpytest_subprocess(*words) if apart else pytester.runpytest_inprocess(*words)

    return run_tests


def test_pyproject_names_the_plugin() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert content["project"]["entry-points"]["pytest11"] == {"boundby": NAME}
    assert pytest_plugin.__name__ == NAME


def test_a_marked_test_that_keeps_its_budgets_passes(run: Run) -> None:
    done = run(
        """
    @pytest.mark.boundby(max_launches=40, max_saved_bytes="1 KiB", max_graph_breaks=0, max_fp64_matmul_flops=0)
    def test_step():
        train(torch.ones(4, 8))
        """
    )
    done.assert_outcomes(passed=1)


def test_a_failure_names_count_limit_line_and_op(run: Run) -> None:
    done = run(
        """
    @pytest.mark.boundby(max_launches=3)
    def test_step():
        train(torch.ones(4, 8))
        """
    )
    done.assert_outcomes(failed=1)
    text = done.stdout.str()
    assert "test_step is over budget: launches." in text
    assert "at most 3 by max_launches" in text
    done.stdout.fnmatch_lines(["*test_a_failure_names_count_limit_line_and_op.py:10", "*loss = net(x).sum()"])
    assert "aten.addmm" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("marker", "told"),
    [
        ("max_lanches=3", "Did you mean max_launches?"),
        ("max_launches='many'", "max_launches is 'many'; expected a whole number."),
        ("max_overhead=0.4", "max_overhead has to be measured, and only counts are taken here."),
        ("40", "takes budgets by name"),
    ],
)
def test_a_budget_that_is_none_fails_before_the_test_runs(run: Run, marker: str, told: str) -> None:
    done = run(
        f"""
    @pytest.mark.boundby({marker})
    def test_step():
        print("the body ran")
        """
    )
    done.assert_outcomes(failed=1)
    assert told in done.stdout.str()
    assert "the body ran" not in done.stdout.str()


def test_what_is_saved_is_unknown_without_a_backward_and_known_of_a_block(run: Run) -> None:
    done = run(
        """
    @pytest.mark.boundby(max_saved_bytes="1 GiB")
    def test_forward():
        net(torch.ones(4, 8))

    @pytest.mark.boundby(max_saved_bytes=0)
    def test_no_grad():
        with torch.no_grad():
            net(torch.ones(4, 8))

    def test_block(boundby_count):
        with boundby_count(max_saved_bytes=256) as counted:
            out = net(torch.ones(4, 8))
        assert counted.counts.saved_bytes == 2 * 4 * 8 * 4

    def test_block_over(boundby_count):
        with boundby_count(max_saved_bytes=255):
            out = net(torch.ones(4, 8))
        """
    )
    done.assert_outcomes(passed=2, failed=2)
    text = " ".join(done.stdout.str().split())
    assert "test_forward cannot be told to keep its budgets; not known: saved bytes." in text
    assert "run backward in the test" in text
    assert "test_block_over is over budget: saved bytes." in text


def test_a_block_is_counted_without_what_is_around_it(run: Run) -> None:
    done = run(
        """
    def test_block(boundby_count):
        x = torch.ones(4)
        with boundby_count(max_ops=2) as counted:
            assert counted.counts is None
            y = x + x
            z = y * y
        x.exp()
        assert counted.counts.ops == 2
        with pytest.raises(ZeroDivisionError):
            with boundby_count(max_ops=0):
                x + x
                1 / 0
        """
    )
    done.assert_outcomes(passed=1)


def test_a_block_leaves_the_variables_around_it_alone(run: Run) -> None:
    done = run(
        """
    import weakref

    def test_tensors_die_when_they_are_deleted(boundby_count):
        x = torch.ones(4, 8)
        seen = weakref.ref(x)
        with boundby_count(max_saved_bytes=256):
            out = net(x)
        del x, out
        assert seen() is None

    def test_a_container_that_holds_itself(boundby_count):
        node = {"more": []}
        node["more"].append(node)
        with boundby_count(max_saved_bytes=256) as counted:
            node["out"] = (net(torch.ones(4, 8)),)
        assert counted.counts.saved_bytes == 256

    def test_a_dict_of_the_variables_stays_as_it_was(boundby_count):
        first = 1
        mine = locals()
        before = dict(mine)
        with boundby_count(max_ops=100) as counted:
            out = net(torch.ones(4, 8))
        assert mine == before
        assert counted.counts.saved_bytes is None
        """
    )
    done.assert_outcomes(passed=3)


@pytest.mark.parametrize("chosen", ["first or second", "second"])
def test_graph_breaks_are_met_whichever_tests_ran_before(run: Run, chosen: str) -> None:
    done = run(
        """
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    call = torch.compile(broken, backend="eager")

    @pytest.mark.boundby(max_graph_breaks=5)
    def test_first():
        call(torch.ones(3))

    @pytest.mark.boundby(max_graph_breaks=0)
    def test_second():
        call(torch.ones(3))

    @pytest.mark.boundby(max_graph_breaks=0)
    def test_second_without():
        torch.ones(3) + 1
        """,
        "-k",
        chosen,
        apart=True,
    )
    done.assert_outcomes(passed=2 if "first" in chosen else 1, failed=1)
    assert "test_second is over budget: graph breaks" in " ".join(done.stdout.str().split())


def test_nearer_markers_go_first_and_fixtures_are_not_counted(run: Run) -> None:
    done = run(
        """
    @pytest.fixture
    def batch():
        return torch.ones(4, 8).exp().exp()

    @pytest.mark.boundby(max_ops=0, max_graph_breaks=0)
    class TestSteps:
        def test_over(self, batch):
            batch + 1

        @pytest.mark.boundby(max_ops=1)
        def test_kept(self, batch):
            batch + 1
        """
    )
    done.assert_outcomes(passed=1, failed=1)


def test_the_tests_own_failures_and_skips_come_through(run: Run) -> None:
    done = run(
        """
    import unittest

    @pytest.mark.boundby(max_ops=0)
    def test_fails():
        torch.ones(1)
        assert 1 == 2

    @pytest.mark.boundby(max_ops=0)
    def test_skips():
        torch.ones(1)
        pytest.skip("not here")

    @pytest.mark.xfail(strict=True)
    @pytest.mark.boundby(max_ops=0)
    def test_known_to_be_over():
        torch.ones(1)

    class TestCase(unittest.TestCase):
        @pytest.mark.boundby(max_ops=0)
        def test_over(self):
            torch.ones(1)
        """
    )
    done.assert_outcomes(failed=2, skipped=1, xfailed=1)
    assert "assert 1 == 2" in done.stdout.str()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_without_the_flag_nothing_is_counted(run: Run) -> None:
    tests = """
    @pytest.mark.boundby(max_ops=0, max_banana=3)
    def test_marked():
        torch.ones(1)
        assert torch._C._len_torch_dispatch_stack() == 0

    def test_block(boundby_count):
        with boundby_count(max_ops=0) as counted:
            torch.ones(1)
        assert counted.counts is None
    """
    run(tests, on=False).assert_outcomes(passed=2)
    run(tests, "-o", "boundby=true", on=False).assert_outcomes(failed=2)


def test_counts_are_in_the_report_file(run: Run, pytester: pytest.Pytester) -> None:
    run(
        """
    @pytest.mark.boundby
    def test_step():
        torch.ones(4) + 1
        """,
        "--junitxml=report.xml",
    ).assert_outcomes(passed=1)
    text = (pytester.path / "report.xml").read_text()
    assert '<property name="boundby_ops" value="2"' in text
    assert 'name="boundby_launches" value="2"' in text


def test_under_xdist(run: Run) -> None:
    done = run(
        """
    @pytest.mark.boundby(max_ops=2)
    @pytest.mark.parametrize("number", range(4))
    def test_step(number):
        x = torch.ones(4)
        for _ in range(number):
            x = x + 1
        """,
        "-n",
        "1",
        apart=True,
    )
    done.assert_outcomes(passed=2, failed=2)
    assert "x = x + 1" in done.stdout.str()


def test_the_plugin_is_light() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import boundby.pytest_plugin; "
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(eval(done.stdout)) <= {"boundby", "__future__"}
