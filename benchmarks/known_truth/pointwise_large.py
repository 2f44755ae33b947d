"""The cosine of an array far larger than the last-level cache."""

from workload import cosine_of_large, run

run([(cosine_of_large(), 1.0)])
