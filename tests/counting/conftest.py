"""Makes the case collection importable, with pytest's explanations for its assertions; finds the shared bank."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("counting_cases")

BANK = Path(__file__).parents[3] / "shared" / "cases"

collect_ignore = [] if (BANK / "run_bank.py").exists() else ["test_shared_bank.py"]
