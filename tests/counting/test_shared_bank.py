"""The bank of counting cases that stands beside the checkout; conftest.py leaves this file out where there is none."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from counting_cases import count

from conftest import BANK

sys.path.insert(0, str(BANK))

from cases import FIELDS, all_cases, score


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.family}-{case.id}")
def test_bank(case: Any) -> None:
    torch.manual_seed(0)
    seen = count(case.build())
    got = {field: getattr(seen, field) for field in FIELDS}
    wrong = {field: (want, got[field]) for field, want in case.expect.items() if score(want, field, got) != "right"}
    assert not wrong
