"""Reports to predict from: those that the report room's tests are made with."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from boundby.results.report import Report

# Tests' trials are not the user's own.
os.environ["BOUNDBY_KEEP_TRIALS"] = "0"


@pytest.fixture(scope="session")
def sample_report() -> Callable[[str], Report]:
    """A made-up report by the name of its bound: ``overhead`` or ``memory``."""
    name = "sample_reports_for_remedies"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent.parent / "report" / "sample_reports.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return lambda bound: module.ALL[bound]()
