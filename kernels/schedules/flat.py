"""Flat: one step, whole pieces, straight from those who have them to those who want them.

Idea. The fewest steps possible, for messages so small that a step costs more than the bytes. all_reduce: everybody
reads everybody's whole buffer and sums it, so no second step hands out the result. broadcast and scatter: everybody
reads the root; reduce and gather are their mirror images.

Picture (4 positions; every arrow carries the whole buffer, all of them at once):

    all_reduce, as 0 sees it   1 --> 0    2 --> 0    3 --> 0      and the like for 1, 2 and 3
    broadcast                  0 --> 1    0 --> 2    0 --> 3

Steps 1. Bytes on the wire of the busiest rank, in messages: all_reduce, broadcast, reduce n - 1; scatter, gather (n -
1)/n.
Legal n: any; all_reduce has n(n - 1) transfers and is refused above 1024.
Source: flat tree in Pjesivac-Grbic et al. 2007, "Performance analysis of MPI collective operations"; all_reduce is
"one-phase all-pairs" in Shah et al. 2025, "MSCCL++".
"""

from __future__ import annotations

import numpy as np

from .ir import IntArray, Schedule, Step


def every_pair(n: int) -> tuple[IntArray, IntArray]:
    """All (src, dst) with src != dst, src ascending."""
    src, dst = np.divmod(np.arange(n * n, dtype=np.int32), np.int32(n))
    different = src != dst
    return src[different], dst[different]


def all_reduce(n: int) -> Schedule:
    """Everybody sums everybody's whole buffer."""
    return Schedule(n=n, blocks=1, steps=(Step.of(*every_pair(n), reduce=True),))


def broadcast(n: int) -> Schedule:
    """Everybody reads the root's buffer."""
    return Schedule(n=n, blocks=1, steps=(Step.of(0, np.arange(1, n)),))


def scatter(n: int) -> Schedule:
    """Everybody reads its own block at the root."""
    return Schedule(n=n, blocks=n, steps=(Step.of(0, np.arange(1, n), np.arange(1, n)),))
