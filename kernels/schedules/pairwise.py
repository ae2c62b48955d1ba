"""Pairwise: all_to_all in n - 1 steps, each a permutation.

Idea. In step k everybody sends to the position k further on and receives from the one k before: one message out, one
in, so no reader is the goal of many writers at once, and only one block a position is on its way.

Picture (4 positions; [s d] is the block from s to d):

    step 1   0 -[0 1]-> 1 -[1 2]-> 2 -[2 3]-> 3 -[3 0]-> (0)
    step 2   0 -[0 2]-> 2 -[2 0]-> (0)       1 -[1 3]-> 3 -[3 1]-> (1)
    step 3   0 -[0 3]-> 3 -[3 2]-> 2 -[2 1]-> 1 -[1 0]-> (0)

Steps n - 1. Bytes on the wire of a rank, in messages: (n - 1)/n.
Legal n: 1 to 1024 (there are n(n - 1) transfers).
Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", on
all-to-all.
"""

from __future__ import annotations

import numpy as np

from .ir import Schedule, Step


def all_to_all(n: int) -> Schedule:
    """In step k, block (r, r + k) goes from r to r + k."""
    r = np.arange(n)
    steps = (Step.of(r, (r + k) % n, r * n + (r + k) % n) for k in range(1, n))
    return Schedule(n=n, blocks=n * n, steps=tuple(steps))
