"""Square roots of numbers that have decayed below what fp32 holds with all its bits."""

import torch


class Decayed(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(x)


torch.manual_seed(0)
model = Decayed()
x = torch.rand(1 << 18) * 1e-39
with torch.inference_mode():
    for _ in range(8000):
        model(x)
