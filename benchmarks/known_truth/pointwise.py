"""The cosine of an array in cache."""

from workload import cosine_in_cache, run

run([(cosine_in_cache(), 1.0)])
