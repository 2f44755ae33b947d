"""Seven parts of cosines in cache to three of tiny ops."""

from workload import cosine_in_cache, run, tiny_ops

run([(cosine_in_cache(), 0.7), (tiny_ops(), 0.3)])
