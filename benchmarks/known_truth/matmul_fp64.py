"""One large matrix product in double precision, repeated."""

import torch
from workload import large_matmul, run

run([(large_matmul(torch.float64), 1.0)])
