"""Products bind this training step: how its few parameters are stepped hardly matters."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(1024, 512)
for _ in range(1500):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
