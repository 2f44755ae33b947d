"""In-place multiplies over cold chunks, each of which would fit a cache."""

from workload import run, streaming_in_chunks

run([(streaming_in_chunks(), 1.0)])
