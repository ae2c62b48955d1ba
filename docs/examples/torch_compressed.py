"""Gradients as int8 with error feedback: start with `torchrun --nproc-per-node 2 torch_compressed.py`.

The first steps travel as they are; then what each rank's codec drops is added to its next contribution.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import autotune
import autotune.runtime.torch  # registers the backend mc2
from autotune.runtime.torch.ddp import Exchange

dist.init_process_group("cpu:mc2")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)))
exchange = Exchange(compression="int8", lossless_steps=5)
model.register_comm_hook(exchange, autotune.ddp_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    inputs = torch.randn(8, 16)
    loss = (model(inputs) - inputs.mean(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    left = {name: f"{exchange.feedback.norm(name):.1e}" for name in exchange.feedback.names()}
    print(f"loss {loss.item():.3f}; left over by bucket: {left}")
dist.destroy_process_group()
