"""Calls placed by hand, over any backend: start with `torchrun --nproc-per-node 2 torch_calls.py`."""

import torch
import torch.distributed as dist

import autotune

dist.init_process_group("gloo")  # or cpu:mc2, nccl, hccl
rank = dist.get_rank()

total = autotune.mc2_all_reduce(torch.full((4,), float(rank)))
everyone = autotune.mc2_all_gather(torch.tensor([float(rank)]))
handle = autotune.mc2_reduce_scatter(torch.ones(8, 1 << 16), async_op=True)
ring = autotune.mc2_all_reduce(torch.ones(1000), "avg", topo="ring")
part = handle.wait()
if rank == 0:
    print(f"sum {total.tolist()}, gathered {everyone.flatten().tolist()}, part {tuple(part.shape)}, mean {ring[0]:.0f}")
dist.destroy_process_group()
