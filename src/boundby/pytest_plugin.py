"""Budgets of what a test's call does: ``@pytest.mark.boundby(max_launches=40)`` and the fixture ``boundby_count``.

Nothing is counted, and neither PyTorch nor NumPy is loaded, unless pytest is run with ``--boundby`` or has
``boundby = true`` in its configuration. Counts are equal on every run and machine, so budgets hold under xdist too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torch import Tensor

    from boundby.capture.call_watch import CallWatch
    from boundby.results.budgets import Budget, Check
    from boundby.results.module_tree import CallCounts

_MARKER = "boundby(max_launches=..., max_saved_bytes=..., ...): budgets of what the test does; held with --boundby"
_WIDTH = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--boundby`` and the setting of the same name."""
    group = parser.getgroup("boundby", "budgets of what torch does")
    group.addoption("--boundby", action="store_true", help="Hold tests marked boundby to their budgets.")
    parser.addini("boundby", "Hold tests marked boundby to their budgets.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and what counts where that is asked for."""
    config.addinivalue_line("markers", _MARKER)
    if _is_on(config):
        config.pluginmanager.register(_Counting(), "boundby-counting")


def _is_on(config: pytest.Config) -> bool:
    return bool(config.getoption("--boundby") or config.getini("boundby"))


class CountedBlock:
    """What ran inside ``with boundby_count(...)``: ``counts`` once the block has ended, None where nothing is counted.

    Args:
        given: budgets by name.
        test: the test's name.
        root: the folder that paths are shown relative to.
        on: whether anything is counted.
    """

    def __init__(self, given: dict[str, Any], *, test: str, root: str, on: bool) -> None:
        self.counts: CallCounts | None = None
        self._test, self._root = test, root
        self._budgets = _read(given, "boundby_count") if on else ()
        self._watch = _new_watch() if on else None

    def __enter__(self) -> CountedBlock:
        if self._watch is not None:
            _start(self._watch, self._budgets)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is None:
            return
        self._watch.stop()
        self.counts = self._watch.counts(_results_in(sys._getframe(1)) if self._watch.recorded else None)
        if kind is None:
            _hold(self._watch, self.counts, self._budgets, test=self._test, root=self._root)


@pytest.fixture
def boundby_count(request: pytest.FixtureRequest) -> Callable[..., CountedBlock]:
    """Counts a block and holds it to budgets: ``with boundby_count(max_launches=40) as counted: ...``.

    Without ``--boundby`` the block runs and nothing is counted: ``counted.counts`` is None.
    """
    config = request.config

    def count(**budgets: Any) -> CountedBlock:
        return CountedBlock(budgets, test=request.node.nodeid, root=str(config.rootpath), on=_is_on(config))

    return count


class _Counting:
    """The hooks that count; registered only where that is asked for."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Counts the call of a marked test, and fails it where a budget is not kept."""
        given = _of_markers(item)
        if given is None:
            return (yield)
        budgets = _read(given, "@pytest.mark.boundby")
        watch = _new_watch()
        _start(watch, budgets)
        try:
            result = yield
        finally:
            watch.stop()
        counts = watch.counts()
        item.user_properties.extend(_properties(counts))
        _hold(watch, counts, budgets, test=item.nodeid, root=str(item.config.rootpath))
        return result


def _of_markers(item: pytest.Item) -> dict[str, Any] | None:
    """The budgets of a test's markers, the nearest one's first; None where it has no marker."""
    markers = list(item.iter_markers("boundby"))
    if not markers:
        return None
    given: dict[str, Any] = {}
    for marker in reversed(markers):
        if marker.args:
            pytest.fail(
                f"@pytest.mark.boundby takes budgets by name, as max_launches=40, not {marker.args[0]!r}", False
            )
        given |= marker.kwargs
    return given


def _read(given: dict[str, Any], source: str) -> tuple[Budget, ...]:
    from boundby.bound.budget_limits import read_budgets
    from boundby.results.errors import BoundbyError

    try:
        return read_budgets(given, source=source, counts_only=True)
    except BoundbyError as error:
        told = str(error)
    pytest.fail(told, pytrace=False)


def _new_watch() -> CallWatch:
    from boundby.capture.call_watch import CallWatch

    return CallWatch()


def _start(watch: CallWatch, budgets: tuple[Budget, ...]) -> None:
    """Begin to count. For a budget of graph breaks all is compiled anew, whichever tests ran before."""
    if any(one.of == "graph_breaks" for one in budgets):
        from boundby.capture.graph_breaks import forget_compiled

        forget_compiled()
    watch.start()


def _results_in(frame: FrameType) -> list[Tensor]:
    """What a block computed is in the variables of whoever wrote it: their graphs keep what is saved."""
    from boundby.capture.frame_tensors import tensors_in

    return tensors_in(frame)


def _hold(watch: CallWatch, counts: CallCounts, budgets: tuple[Budget, ...], *, test: str, root: str) -> None:
    """Fails the test, naming lines and ops, where a budget is not kept."""
    if not budgets:
        return
    from boundby.bound.budgets import check_step
    from boundby.bound.counted import counted_call

    counted = counted_call(counts, roots=(root,), seen=watch.lines())
    check = check_step(counted, budgets, target=test)
    if not check.passed:
        pytest.fail(_told(check), pytrace=False)


def _told(check: Check) -> str:
    from dataclasses import replace

    from boundby.report.check_page import render_check
    from boundby.results.language import tr

    if any(one.of == "saved_bytes" and one.state == "unknown" for one in check.judgements):
        how = tr(
            "What is saved for backward is read from the graph: run backward in the test, or hold the block that makes "
            "the result to the budget, by {example}.",
            example="with boundby_count(max_saved_bytes=...): ...",
        )
        check = replace(check, notes=(*check.notes, how))
    return render_check(check, width=_WIDTH, color=False, unicode=True).rstrip("\n")


def _properties(counts: CallCounts) -> list[tuple[str, object]]:
    """The totals as properties of a test, which ``--junitxml`` writes; without those that are not known."""
    from boundby.bound.counted import counted_call

    totals = counted_call(counts).totals
    return [(f"boundby_{name}", value) for name, value in totals.items() if value is not None]
