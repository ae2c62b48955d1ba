"""Checks that ranks of a job run before it ends, in one way or another."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from pytorch.behaviour import told


def start(destroys: bool) -> None:
    """Use every kind of call, so that threads and channels are there."""
    peer = 1 - dist.get_rank()
    for work in (dist.isend(torch.ones(3), peer), dist.irecv(torch.ones(3), peer)):
        work.wait()
    dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(100_000), async_op=True).wait()
    if destroys:
        dist.destroy_process_group()


def pid() -> int:
    return os.getpid()


def one_more() -> list[str]:
    return told(lambda: dist.all_reduce(torch.ones(4)))
