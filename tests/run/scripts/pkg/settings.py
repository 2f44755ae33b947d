"""Settings that train.py imports relative to itself."""

STEPS = 30
