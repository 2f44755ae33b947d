"""One browser for all tests of pages: starting it takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import HOW_TO_GET_IT, Page, browsing, find_chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A tab with its network off."""
    if find_chromium() is None:
        pytest.fail(HOW_TO_GET_IT, pytrace=False)
    with browsing(tmp_path_factory.mktemp("browser")) as page:
        yield page
