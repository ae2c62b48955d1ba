"""A job under torchrun that runs on the groups of portfolio.json in its working directory: one line from each rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

from autotune.runtime.torch_groups import open_groups
from autotune.types import Collective, DType

COUNT = 256

if __name__ == "__main__":
    dist.init_process_group("gloo")
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    comm = open_groups("portfolio.json")
    routed = comm.route(Collective.BROADCAST, 4 * COUNT, DType.FLOAT32)
    tensor = torch.arange(COUNT, dtype=torch.float32) * (rank + 1)
    comm.broadcast(tensor, root=1)
    right = torch.equal(tensor, torch.arange(COUNT, dtype=torch.float32) * 2)
    words = [
        "" if routed.route is None else "+".join(map(str, routed.route.key.placement)),
        "routed" if routed.group else "not routed",
        "right" if right else "wrong",
    ]
    print(f"rank {rank}: {', '.join(words)}", flush=True)
    comm.close()
    dist.destroy_process_group()
