"""Direct: every block goes straight from its source to its reader, all of them in one step.

Idea. all_gather: everybody reads everybody's block. all_reduce: position r reads piece r of every buffer and sums it
(reduce_scatter), then everybody reads everybody's piece: two steps for any n, and the fewest bytes. Wants links between
all pairs; inside a host it is what shared memory does best.

Picture (4 positions; all_gather as position 0 sees it; reduce_scatter has the arrows turned):

    1 --[1]--> 0
    2 --[2]--> 0        and at the same time the like for 1, 2 and 3
    3 --[3]--> 0

Steps: all_gather, reduce_scatter, all_to_all 1; all_reduce, broadcast, reduce 2. Bytes on the wire of the busiest rank,
in messages: all_gather, reduce_scatter, all_to_all (n - 1)/n; the others 2(n - 1)/n.
Legal n: 1 to 1024 (there are n(n - 1) transfers).
Source: "All Pairs" in Cowan et al. 2023, "MSCCLang"; "two-phase all-pairs" in Shah et al. 2025, "MSCCL++".
"""

from __future__ import annotations

from .combine import from_root, there_and_back
from .flat import every_pair, scatter
from .ir import Schedule, Step


def all_gather(n: int) -> Schedule:
    """Everybody reads everybody's block."""
    src, dst = every_pair(n)
    return Schedule(n=n, blocks=n, steps=(Step.of(src, dst, src),))


def all_reduce(n: int) -> Schedule:
    """Everybody sums one piece of all buffers; then everybody reads all sums."""
    return there_and_back(all_gather(n))


def broadcast(n: int) -> Schedule:
    """Everybody reads a piece at the root, then the other pieces from each other."""
    return from_root(all_gather(n))


def reduce(n: int) -> Schedule:
    """Everybody sums one piece of all buffers, the root's too, and the root reads the sums."""
    return all_gather(n).reversed() + scatter(n).mirrored()


def all_to_all(n: int) -> Schedule:
    """Everybody reads its block at everybody."""
    src, dst = every_pair(n)
    return Schedule(n=n, blocks=n * n, steps=(Step.of(src, dst, src * n + dst),))
