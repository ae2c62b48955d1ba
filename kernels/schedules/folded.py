"""Folding: the far half hands in to the near half, until two are left, which exchange; and back the same way.

Idea. A binomial tree needs the fewest messages of all, 2(n - 1), but its last step up and its first step down lie
between the same two positions and wait for each other. Here these two exchange instead, as in recursive doubling: as
few messages, one step less. Where a message costs its sender more than its bytes do (a network reached through the
kernel, cores that several ranks share), that beats recursive doubling, whose steps are fewer and whose messages are n
log2 n.

Picture (4 positions; all_reduce):

    step 1, in     0 <-- 2    1 <-- 3
    step 2         0 <--> 1
    step 3, back   0 --> 2    1 --> 3

It is what happens between the first positions of groups, each group's *leader*, which collects what its group has and
hands out; groups may be of one. So the messages between groups are 2(G - 1) for G groups of g positions.

Steps: all_reduce, all_gather 2 ceil(log2 G) - 1, and 2 more where groups are of two or more. Bytes on the wire of the
busiest rank, in messages: all_reduce g - 1 + ceil(log2 G); all_gather below that.
Legal: two groups or more; all_gather n up to 1024.
Source: folding: Rabenseifner 2004, "Optimization of collective reduction operations", there of all positions but a
power of two; leaders: Karonis et al. 2000, "Exploiting hierarchy in parallel computer networks to optimize collective
operation performance".
"""

from __future__ import annotations

import numpy as np

from . import hierarchical
from .hierarchical import Groups
from .ir import Schedule, Step


def all_reduce(n: int) -> Schedule:
    """Of two positions or more: sums go in, the last two positions exchange theirs, and the result goes back."""
    handing = (Step.of([p - d for p in far], list(far)) for d, far in reversed(_folds(n)))
    back = Schedule(n=n, blocks=1, steps=tuple(handing))
    exchange = Schedule(n=n, blocks=1, steps=(Step.of([0, 1], [1, 0], reduce=True),))
    return back.reversed() + exchange + back


def all_reduce_by_leaders(groups: Groups) -> Schedule:
    """The same between leaders."""
    return hierarchical.all_reduce(groups, between=all_reduce, n_leaders=1)


def all_gather_by_leaders(groups: Groups) -> Schedule:
    """Leaders collect the blocks of their groups, fold, exchange, and hand out what others do not have."""
    n, n_groups = sum(len(group) for group in groups), len(groups)
    collect, hand_out = hierarchical.round_leaders(groups)
    has = [sorted(group) for group in groups]
    folds = _folds(n_groups)
    steps = [collect]
    back = []
    for d, far in folds:
        steps.append(_moves(groups, [(leader, leader - d, has[leader]) for leader in far]))
        back.append(_moves(groups, [(leader - d, leader, sorted({*range(n)} - {*has[leader]})) for leader in far]))
        for leader in far:
            has[leader - d] = sorted(has[leader - d] + has[leader])
    steps.append(_moves(groups, [(0, 1, has[0]), (1, 0, has[1])]))
    return Schedule(n=n, blocks=n, steps=(*steps, *reversed(back), hand_out))


def _folds(n: int) -> list[tuple[int, range]]:
    """(distance, positions that hand in to the one so far before them), until two are left."""
    distances = [1 << k for k in range((n - 1).bit_length() - 1, 0, -1)]
    return [(d, range(d, min(2 * d, n))) for d in distances]


def _moves(groups: Groups, moves: list[tuple[int, int, list[int]]]) -> Step:
    """(leader, leader, blocks) as transfers of one block each."""
    rows = [(groups[a][0], groups[b][0], block) for a, b, blocks in moves for block in blocks]
    src, dst, block = np.array(rows, np.int32).reshape(-1, 3).T
    return Step.of(src, dst, block)
