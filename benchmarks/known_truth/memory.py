"""A chain of in-place multiplies over an array far larger than the last-level cache."""

from workload import run, streaming

run([(streaming(), 1.0)])
