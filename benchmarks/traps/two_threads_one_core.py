"""Two threads that take turns on one core, and wait for each other at the end of each op."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
x = torch.randn(256, 256)
with torch.inference_mode():
    for _ in range(4000):
        model(x)
