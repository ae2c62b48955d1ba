"""Bruck: log2 n steps for any n, on a circle whose distances double.

Idea. all_gather: position r holds r, r+1, ... and sends all of it (in the last step: what is still missing) to the
position 1, 2, 4, ... before it, so that what it holds doubles. all_to_all: a block that has j places to go moves by 1,
2, 4, ... for the ones in the binary form of j. Nothing is special about powers of two, and nothing is folded.

Picture (4 positions; all_gather):

    step 1, distance 1   1 --[1]-----> 0     2 --[2]-----> 1     3 --[3]-----> 2     0 --[0]-----> 3
    step 2, distance 2   2 --[2 3]---> 0     3 --[3 0]---> 1     0 --[0 1]---> 2     1 --[1 2]---> 3

Steps: all_gather, reduce_scatter, all_to_all ceil(log2 n); all_reduce 2 ceil(log2 n). Bytes on the wire of a rank, in
messages: all_gather, reduce_scatter (n - 1)/n; all_reduce 2(n - 1)/n; all_to_all: the binary ones in 1, 2, ... n - 1
together, over n (log2(n)/2 for a power of two).
Legal n: any; all_to_all 1 to 1024 (it has n * n blocks).
Source: Bruck, Ho, Kipnis, Upfal and Weathersby 1997, "Efficient algorithms for all-to-all communications in multiport
message-passing systems", on the index (all_to_all) and the concatenation (all_gather) operation; backwards, and there
and back: Traeff 2024, "Optimal, non-pipelined reduce-scatter and allreduce algorithms". HCCL calls the all_reduce NB.
"""

from __future__ import annotations

import numpy as np

from .combine import there_and_back
from .ir import Schedule, Step


def all_gather(n: int) -> Schedule:
    """Distances 1, 2, 4, ...: the largest messages go farthest, and are always one range of blocks."""
    r = np.arange(n)
    distances = [1 << k for k in range((n - 1).bit_length())]
    return Schedule(n=n, blocks=n, steps=tuple(Step.of(r, (r - d) % n, r, min(d, n - d)) for d in distances))


def all_reduce(n: int) -> Schedule:
    """reduce_scatter over falling distances, all_gather over rising ones."""
    return there_and_back(all_gather(n))


def all_to_all(n: int) -> Schedule:
    """In step k, blocks with bit k set in the places they have to go move by 2**k."""
    steps = []
    for k in range((n - 1).bit_length()):
        distance = 1 << k
        places = np.array([j for j in range(n) if j & distance])
        src, to_go = (part.ravel() for part in np.meshgrid(np.arange(n), places, indexing="ij"))
        origin = (src - to_go % distance) % n
        steps.append(Step.of(src, (src + distance) % n, origin * n + (origin + to_go) % n))
    return Schedule(n=n, blocks=n * n, steps=tuple(steps))
