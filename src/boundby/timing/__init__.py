"""Timing: a clock that can be faked, sampling in turns, and what samples say. Knows nothing of torch."""
