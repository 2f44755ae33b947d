"""One large matrix product, repeated."""

from workload import large_matmul, run

run([(large_matmul(), 1.0)])
