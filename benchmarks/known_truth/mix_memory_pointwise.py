"""Seven parts of streaming to three of cosines in cache."""

from workload import cosine_in_cache, run, streaming

run([(streaming(), 0.7), (cosine_in_cache(), 0.3)])
