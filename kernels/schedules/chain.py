"""Chain: the data passes through all positions in a row.

Idea. Each position sends to one other and receives from one other. A single message takes n - 1 steps, but a long one,
cut into slices that follow each other, keeps every link of the row busy, and nobody sends a byte twice.

Picture (4 positions; broadcast; all_reduce walks it backwards first, reducing):

    0 --> 1 --> 2 --> 3        one arrow a step; the next slice starts when the first has left 0

Steps: broadcast, reduce n - 1; all_reduce 2(n - 1). Bytes on the wire of the busiest rank, in messages: broadcast,
reduce 1; all_reduce 2 (1 for n = 2).
Legal n: any. Stored: one step for each arrow.
Source: "pipeline" in Pjesivac-Grbic et al. 2007, "Performance analysis of MPI collective operations".
"""

from __future__ import annotations

from .combine import there_and_back
from .ir import Schedule, Step


def broadcast(n: int) -> Schedule:
    """From each position to the next."""
    return Schedule(n=n, blocks=1, steps=tuple(Step.of(r, r + 1) for r in range(n - 1)))


def all_reduce(n: int) -> Schedule:
    """Down the row to the root, summing, and back."""
    return there_and_back(broadcast(n))
