"""For all tests: their order; drawing examples may be slow on a busy machine, and no fault of what is tested."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole runs first, whose files last longest: no process is left with one of them when the other is done."""
    items.sort(key=lambda item: item.path.parent.name != "run")
