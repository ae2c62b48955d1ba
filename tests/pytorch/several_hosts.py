"""Checks that ranks of a job on several hosts run."""

from __future__ import annotations

import torch
import torch.distributed as dist
from pytorch.behaviour import told
from pytorch.collectives import gloo

from autotune import mc2_all_reduce
from autotune.runtime.torch.executors import executor


def placed() -> list[object]:
    """Both executors know the hosts: their placement, and what forcing a hierarchical schedule comes to."""
    n, rank = dist.get_world_size(), dist.get_rank()
    said: list[object] = []
    for group in (None, gloo()):
        said.append(executor(group).ranks.placement)
        for codec in (False, "int8"):

            def run(codec: bool | str = codec, group: object = group) -> None:
                tensor = torch.arange(3000.0) + rank
                mc2_all_reduce(tensor, compression=codec, topo="hierarchical", group=group)
                want = n * torch.arange(3000.0) + n * (n - 1) / 2
                assert torch.allclose(tensor, want, atol=0 if codec is False else 0.02 * float(want.max()))

            said.append(told(run))
    return said
