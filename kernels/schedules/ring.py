"""Ring: every position sends to its right neighbour only, all the time.

Idea. What arrived in the last step is sent on in the next. Every link carries every block once, none twice, so that the
bytes are the least possible on any machine with a ring in it; the price is one step for every position.

Picture (4 positions; all_gather; a number in brackets is the block on its way):

    step 1   0 -[0]-> 1 -[1]-> 2 -[2]-> 3 -[3]-> (0)
    step 2   0 -[3]-> 1 -[0]-> 2 -[1]-> 3 -[2]-> (0)
    step 3   0 -[2]-> 1 -[3]-> 2 -[0]-> 3 -[1]-> (0)

reduce_scatter is the same ring walked backwards; all_reduce is both, each walked so that the data goes to the right.

Steps: all_gather, reduce_scatter n - 1; all_reduce 2(n - 1); broadcast, reduce n. Bytes on the wire of the busiest
rank, in messages: all_gather, reduce_scatter (n - 1)/n; the others 2(n - 1)/n.
Legal n: any. Stored: one step for each half, whatever n is.
Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"; all_gather:
Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", on allgather;
broadcast: the same, on broadcast (scatter and ring allgather).
"""

from __future__ import annotations

import numpy as np

from .combine import from_root
from .ir import Schedule, Step


def all_gather(n: int, way: int = 1) -> Schedule:
    """Position r sends to r + way, first its own block, then what it got last."""
    r = np.arange(n)
    return Schedule(n=n, blocks=n, steps=(Step.of(r, (r + way) % n, r, times=n - 1, shift=-way),))


def reduce_scatter(n: int) -> Schedule:
    """Partial sums go to the right and end at the block's owner."""
    return all_gather(n, way=-1).reversed()


def all_reduce(n: int) -> Schedule:
    """reduce_scatter and all_gather in the same direction, over the same links."""
    return reduce_scatter(n) + all_gather(n)


def broadcast(n: int) -> Schedule:
    """The root deals out n blocks, which then go around."""
    return from_root(all_gather(n))
