"""Recursive doubling and halving: partners at distance 1, 2, 4, ... exchange all they have.

Idea. Position r's partner at distance d is r with bit d flipped. all_reduce, small messages (recursive doubling):
partners exchange whole sums, log2 n steps. all_gather: partners exchange what they hold, which doubles; backwards it is
a reduce_scatter (recursive halving), and both together an all_reduce with few steps and the fewest bytes.

Picture (4 positions; all_gather):

    step 1, distance 1   0 <--[0] [1]--> 1          2 <--[2] [3]--> 3
    step 2, distance 2   0 <--[0 1] [2 3]--> 2      1 <--[0 1] [2 3]--> 3

Not a power of two: p is the largest power of two up to n. Of the first n - p pairs (0, 1), (2, 3), ... the odd position
hands its data to the even one, waits, and gets the result (*folding*).

Steps, with f = 0 for a power of two and 1 otherwise: all_reduce ceil(log2 n) + f (recursive_doubling), 2 ceil(log2 n)
(recursive_halving_doubling); all_gather, reduce_scatter ceil(log2 n) + f; broadcast, reduce 2 ceil(log2 n) - f. Bytes
on the wire of the busiest rank, in messages: all_reduce ceil(log2 n) (recursive_doubling), 2(p - 1)/p + f; all_gather,
reduce_scatter (n - 1)/n, below 12/5 where folded; broadcast, reduce 2(p - 1)/p + f.
Legal n: any.
Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH", on
allgather, broadcast and allreduce; halving and doubling, and folding: Rabenseifner 2004, "Optimization of collective
reduction operations".
"""

from __future__ import annotations

import numpy as np

from .combine import there_and_back
from .ir import IntArray, Schedule, Step
from .trees import scatter


def all_reduce_whole(n: int) -> Schedule:
    """recursive_doubling: partners exchange and sum whole buffers; both sides reduce in the same step."""
    p = _core(n)
    r = np.arange(p)
    core = Schedule(n=p, blocks=1, steps=tuple(Step.of(r, r ^ d, reduce=True) for d in _distances(p)))
    return _fold(core, n)


def all_reduce_halves(n: int) -> Schedule:
    """recursive_halving_doubling: reduce_scatter by halving, all_gather by doubling."""
    return _fold(there_and_back(all_gather(_core(n))), n)


def all_gather(n: int) -> Schedule:
    """Partners exchange all they hold: neighbouring blocks, also where pairs were folded."""
    p, kept = _core(n), _kept(n)
    odd = _folded(n)
    r = np.arange(p)
    steps = [Step.of(odd, odd - 1, odd)]
    for d in _distances(p):
        first = r & -d
        steps.append(Step.of(kept[r], kept[r ^ d], kept[first], kept[first + d] - kept[first]))
    steps.append(Step.of(odd - 1, odd, (odd + 1) % n, n - 1))
    return Schedule(n=n, blocks=n, steps=tuple(steps))


def broadcast(n: int) -> Schedule:
    """Binomial scatter (halving), then all_gather (doubling) without what the reader has from the scatter."""
    p = _core(n)
    r = np.arange(p)
    gather = (Step.of(r, r ^ d, r & -d, d).only((r ^ d) % (2 * d) != 0) for d in _distances(p))
    core = scatter(p) + Schedule(n=p, blocks=p, steps=tuple(gather))
    return core.place(_kept(n)[:-1], n) + _unfold(n, p)


def _core(n: int) -> int:
    """p: the largest power of two up to n."""
    return 1 << (n.bit_length() - 1)


def _distances(p: int) -> list[int]:
    return [1 << k for k in range(p.bit_length() - 1)]


def _kept(n: int) -> IntArray:
    """[c] for c = 0 .. p: the position that plays c in the core; also, the first block of c. The last one is n."""
    core = np.arange(_core(n) + 1, dtype=np.int32)
    return core + np.minimum(core, n - _core(n), dtype=np.int32)


def _folded(n: int) -> IntArray:
    """The odd positions that take no part in the core."""
    return 2 * np.arange(n - _core(n), dtype=np.int32) + 1


def _fold(core: Schedule, n: int) -> Schedule:
    """An all_reduce of the core, with the data of the folded positions brought in before it."""
    unfold = _unfold(n, core.blocks)
    return unfold.reversed() + core.place(_kept(n)[:-1], n) + unfold


def _unfold(n: int, blocks: int) -> Schedule:
    """The even positions hand everything to the folded ones. Reversed: the folded ones hand in their data."""
    odd = _folded(n)
    return Schedule(n=n, blocks=blocks, steps=(Step.of(odd - 1, odd, 0, blocks),))
