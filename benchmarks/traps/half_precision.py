"""Products in fp16 on a processor that may have no instructions for them."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128)).half()
x = torch.randn(64, 128).half()
with torch.inference_mode():
    for _ in range(4000):
        model(x)
