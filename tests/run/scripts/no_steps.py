"""Works with tensors but has neither an optimizer nor a module, so no step can be found."""

import torch

x = torch.eye(8)
for _ in range(30):
    x = x @ x + 0.1
print("sum", x.isfinite().sum().item())
