"""A loop around one compiled call: neither an optimizer's step nor a module's call is to be seen from outside."""

import torch

model = torch.nn.Linear(8, 8)


@torch.compile(backend="eager")
def answer(x):
    return model(x).relu()


x = torch.ones(4, 8)
with torch.no_grad():
    for _ in range(30):
        y = answer(x)
print("shape", tuple(y.shape))
