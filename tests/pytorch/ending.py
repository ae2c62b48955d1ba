"""Checks that ranks of a job run before it ends, in one way or another."""

from __future__ import annotations

import gc
import os
import weakref

import torch
import torch.distributed as dist
from pytorch.behaviour import told

from autotune import mc2_all_reduce


def start(destroys: bool) -> None:
    """Use every kind of call, so that threads and channels are there."""
    peer = 1 - dist.get_rank()
    for work in (dist.isend(torch.ones(3), peer), dist.irecv(torch.ones(3), peer)):
        work.wait()
    dist.all_reduce(torch.ones(4))
    dist.all_reduce(torch.ones(100_000), async_op=True).wait()
    if destroys:
        dist.destroy_process_group()


def destroyed() -> list[object]:
    """What is left of a group, that calls placed by hand ran on, when it was destroyed: itself, and threads more than
    there were before it."""
    before = len(os.listdir("/proc/self/task"))
    group = dist.new_group(backend="gloo")
    mc2_all_reduce(torch.ones(4), group=group)
    mc2_all_reduce(torch.ones(4), topo="ring", group=group)
    left = weakref.ref(group)
    dist.destroy_process_group(group)
    del group
    gc.collect()
    return [left() is not None, len(os.listdir("/proc/self/task")) - before]


def under_way(destroys: bool) -> None:
    """End with calls under way that nobody waits for."""
    for _ in range(4):
        mc2_all_reduce(torch.ones(1 << 20), async_op=True)
    if destroys:
        dist.destroy_process_group()


def pid() -> int:
    return os.getpid()


def one_more() -> list[str]:
    return told(lambda: dist.all_reduce(torch.ones(4)))
