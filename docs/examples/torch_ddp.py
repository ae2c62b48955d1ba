"""Training with tuned gradient exchange: start with `torchrun --nproc-per-node 2 torch_ddp.py`."""

import torch
import torch.distributed as dist

import autotune
import autotune.runtime.torch  # registers the backend mc2

dist.init_process_group("cpu:mc2")
torch.manual_seed(0)
model = autotune.MC2DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    inputs = torch.randn(8, 16)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0 and step % 5 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
dist.destroy_process_group()
