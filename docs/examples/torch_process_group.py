"""A process group over mc2: start with `torchrun --nproc-per-node 2 torch_process_group.py`."""

import torch
import torch.distributed as dist

import autotune.runtime.torch  # noqa: F401 - registers the backend mc2

dist.init_process_group("cpu:mc2")
rank, n_ranks = dist.get_rank(), dist.get_world_size()

tensor = torch.full((4,), float(rank))
dist.all_reduce(tensor)
work = dist.all_reduce(torch.ones(1 << 20), async_op=True)  # goes on beside what follows
print(f"rank {rank} of {n_ranks}: sum {tensor.tolist()}", flush=True)
work.wait()

dist.destroy_process_group()
