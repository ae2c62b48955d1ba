"""NHR (nonuniform hierarchical ring): bruck with the distances the other way round, for any n.

Idea. all_gather over the distances ..., 4, 2, 1: while messages are small they go far, and the last step, which moves
half of all data, goes to the neighbour. On machines where near positions have the better links that is worth much. What
a position sends is every second (4th, 8th ...) block, so it is not one range as in bruck. all_reduce may name its
blocks freely and names them so that it is, for powers of two.

Picture (4 positions; all_gather):

    step 1, distance 2   0 --[0]-----> 2     1 --[1]-----> 3     2 --[2]-----> 0     3 --[3]-----> 1
    step 2, distance 1   0 --[0 2]---> 1     1 --[1 3]---> 2     2 --[2 0]---> 3     3 --[3 1]---> 0

Steps: all_gather, reduce_scatter ceil(log2 n); all_reduce 2 ceil(log2 n); broadcast, reduce 1 + ceil(log2 n). Bytes on
the wire of the busiest rank, in messages: all_gather, reduce_scatter (n - 1)/n; the others 2(n - 1)/n.
Legal n: 1 to 1024 (up to n(n - 1) ranges).
Source: HCCL of CANN, algorithm NHR; the distance-halving all_gather for any n is also "Sparbit" of Loch and Koslovski
2021.
"""

from __future__ import annotations

import numpy as np

from .combine import from_root, there_and_back
from .ir import IntArray, Schedule, Step


def all_gather(n: int) -> Schedule:
    """Distances ..., 4, 2, 1: before distance d, position r holds r, r - 2d, r - 4d, ..."""
    steps = []
    for k in reversed(range((n - 1).bit_length())):
        distance = 1 << k
        held = (n - 1 + distance) // (2 * distance)
        r, i = (part.ravel() for part in np.meshgrid(np.arange(n), np.arange(held), indexing="ij"))
        steps.append(Step.of(r, (r + distance) % n, (r - 2 * distance * i) % n))
    return Schedule(n=n, blocks=n, steps=tuple(steps))


def all_reduce(n: int) -> Schedule:
    """reduce_scatter and all_gather, with blocks named so that ranges are few."""
    return there_and_back(all_gather(n).renamed(_bit_reversed(n)))


def broadcast(n: int) -> Schedule:
    """The root deals out n blocks, which are then gathered; the names again make ranges few."""
    return from_root(all_gather(n)).renamed(_bit_reversed(n))


def _bit_reversed(n: int) -> IntArray:
    """names[b]: the rank of b when 0 .. n-1 are sorted by their binary forms read backwards."""
    width = (n - 1).bit_length()
    backwards = [int(f"{b:0{width}b}"[::-1], 2) if width else 0 for b in range(n)]
    return np.argsort(np.argsort(backwards)).astype(np.int32)
