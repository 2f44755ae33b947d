"""Seven parts of matrix products to three of streaming."""

from workload import large_matmul, run, streaming

run([(large_matmul(), 0.7), (streaming(), 0.3)])
