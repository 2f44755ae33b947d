"""Equal parts of everything but input."""

from workload import cosine_in_cache, large_matmul, run, streaming, tiny_ops

run([(tiny_ops(), 0.25), (large_matmul(), 0.25), (streaming(), 0.25), (cosine_in_cache(), 0.25)])
