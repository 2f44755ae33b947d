"""Seven parts of tiny ops to three of matrix products."""

from workload import large_matmul, run, tiny_ops

run([(tiny_ops(), 0.7), (large_matmul(), 0.3)])
