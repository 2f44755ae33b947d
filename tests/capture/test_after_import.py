"""Acting right after a module is imported, unseen by the module and by those who import it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader

import pytest

from boundby.capture.imports import after_import

NAME = "boundby_probe_module"


@pytest.fixture
def module_file(tmp_path, monkeypatch):
    path = tmp_path / f"{NAME}.py"
    path.write_text("import sys\nitself = sys.modules[__name__]\nspec = __spec__\nloader = __loader__\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    before = list(sys.meta_path)
    yield path
    sys.modules.pop(NAME, None)
    sys.meta_path[:] = before


def test_then_runs_once_and_only_after_the_module_has_run(module_file):
    seen = []
    after_import(NAME, lambda: seen.append(hasattr(sys.modules[NAME], "loader")))
    assert seen == []
    importlib.import_module(NAME)
    importlib.import_module(NAME)
    assert seen == [True]
    sys.modules.pop(NAME)
    importlib.import_module(NAME)
    assert seen == [True]


def test_a_module_already_imported_is_acted_on_at_once(module_file):
    importlib.import_module(NAME)
    before, seen = list(sys.meta_path), []
    withdraw = after_import(NAME, lambda: seen.append(1))
    assert seen == [1]
    assert sys.meta_path == before
    withdraw()


def test_the_module_looks_as_if_nobody_had_stood_between(module_file):
    after_import(NAME, lambda: None)
    module = importlib.import_module(NAME)
    assert module is sys.modules[NAME] is module.itself
    assert type(module.__loader__) is SourceFileLoader
    assert type(module.__spec__.loader) is SourceFileLoader
    assert type(module.loader) is SourceFileLoader  # already while it ran
    assert module.__spec__.origin == str(module_file) == module.__file__
    assert importlib.reload(module) is module


def test_nothing_stays_on_the_import_path(module_file):
    before = list(sys.meta_path)
    after_import(NAME, lambda: None)
    importlib.import_module(NAME)
    assert sys.meta_path == before


def test_a_withdrawn_request_is_not_acted_on(module_file):
    before, seen = list(sys.meta_path), []
    withdraw = after_import(NAME, lambda: seen.append(1))
    withdraw()
    withdraw()
    assert sys.meta_path == before
    importlib.import_module(NAME)
    assert seen == []


def test_two_requests_are_both_acted_on(module_file):
    seen = []
    after_import(NAME, lambda: seen.append("a"))
    after_import(NAME, lambda: seen.append("b"))
    module = importlib.import_module(NAME)
    assert sorted(seen) == ["a", "b"]
    assert type(module.__spec__.loader) is SourceFileLoader


def test_asking_whether_a_module_exists_does_not_use_the_request_up(module_file):
    """Libraries ask ``importlib.util.find_spec("torch")`` first and import it later, or never."""
    seen = []
    after_import(NAME, lambda: seen.append(1))
    spec = importlib.util.find_spec(NAME)
    assert spec is not None
    assert spec.origin == str(module_file)
    assert seen == []
    importlib.import_module(NAME)
    assert seen == [1]


def test_a_spec_that_was_asked_for_can_be_read_like_any_other(module_file):
    after_import(NAME, lambda: None)
    spec = importlib.util.find_spec(NAME)
    assert spec is not None
    assert spec.loader.get_filename(NAME) == str(module_file)
    assert "itself" in spec.loader.get_source(NAME)


def test_a_module_that_does_not_exist_fails_as_ever_and_can_come_later(module_file):
    seen = []
    after_import("boundby_probe_absent", lambda: seen.append(1))
    assert importlib.util.find_spec("boundby_probe_absent") is None
    with pytest.raises(ModuleNotFoundError, match="boundby_probe_absent"):
        importlib.import_module("boundby_probe_absent")
    (module_file.parent / "boundby_probe_absent.py").write_text("")
    importlib.invalidate_caches()
    importlib.import_module("boundby_probe_absent")
    sys.modules.pop("boundby_probe_absent")
    assert seen == [1]


def test_a_module_that_fails_to_import_raises_its_own_error_and_is_not_acted_on(module_file):
    module_file.write_text("raise RuntimeError('its own')")
    seen = []
    after_import(NAME, lambda: seen.append(1))
    with pytest.raises(RuntimeError, match="its own"):
        importlib.import_module(NAME)
    assert seen == []
    assert NAME not in sys.modules


def test_other_modules_are_none_of_its_business(module_file):
    (module_file.parent / "boundby_probe_other.py").write_text("")
    importlib.invalidate_caches()
    seen = []
    withdraw = after_import(NAME, lambda: seen.append(1))
    module = importlib.import_module("boundby_probe_other")
    sys.modules.pop("boundby_probe_other")
    assert type(module.__loader__) is SourceFileLoader
    assert seen == []
    withdraw()
