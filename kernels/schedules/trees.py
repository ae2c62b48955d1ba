r"""Trees: binomial, and two binary trees at once.

Idea. Binomial (``tree``): whoever has the data sends it on in every step, so those who have it double. The far half is
served first, so that subtrees are neighbouring positions, and scatter sends each subtree one range. Two trees
(``double_tree``): in a binary tree the leaves, half of all positions, send nothing. A second tree over the same
positions, in which the leaves of the first are the inner ones, carries the other half of the buffer; nobody is inner in
both.

Picture (4 positions; binomial broadcast on the left, the two trees of an all_reduce on the right):

    step 1   0 --> 2                first half      3        second half     0
    step 2   0 --> 1, 2 --> 3                       |                        |
                                                    1                        2
                                                   / \                      / \
                                                  0   2                    1   3

Steps: tree: broadcast, reduce, scatter, gather ceil(log2 n), all_reduce 2 ceil(log2 n); double_tree: broadcast, reduce
ceil(log2 n), all_reduce 2 floor(log2 n). Bytes on the wire of the busiest rank, in messages: tree: broadcast, reduce,
all_reduce ceil(log2 n), scatter, gather (n - 1)/n; double_tree: broadcast, reduce 1, all_reduce 2 (3/2 for n = 3, 1 for
n = 2).
Legal n: any. Long messages are cut into slices that follow each other down the tree.
Source: binomial: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH",
on broadcast; two trees: Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction
and scan".
"""

from __future__ import annotations

import numpy as np

from .combine import there_and_back
from .ir import IntArray, Schedule, Step


def broadcast(n: int) -> Schedule:
    """Binomial: positions that are multiples of 2d have the data and send it d further, for falling d."""
    senders = ((np.arange(0, n - d, 2 * d), d) for d in _falling_distances(n))
    return Schedule(n=n, blocks=1, steps=tuple(Step.of(r, r + d) for r, d in senders))


def scatter(n: int) -> Schedule:
    """Binomial: each subtree gets its blocks in one range."""
    senders = ((np.arange(0, n - d, 2 * d), d) for d in _falling_distances(n))
    steps = (Step.of(r, r + d, r + d, np.minimum(d, n - r - d)) for r, d in senders)
    return Schedule(n=n, blocks=n, steps=tuple(steps))


def all_reduce(n: int) -> Schedule:
    """Binomial reduce, then binomial broadcast."""
    return there_and_back(broadcast(n))


def double_all_reduce(n: int) -> Schedule:
    """Half of the buffer up and down each of two trees over all positions."""
    first, second = _two_orders(n)
    up_down = there_and_back(_binary(n))
    return up_down.place(first, n, 0, 2) | up_down.place(second, n, 1, 2)


def double_broadcast(n: int) -> Schedule:
    """The root hands half of the buffer to the top of each of two trees over the other positions."""
    if n == 1:
        return Schedule(n=1, blocks=2)
    first, second = (1 + order for order in _two_orders(n - 1))
    down, top = _binary(n - 1), _top(n - 1)
    start = Schedule(n=n, blocks=2, steps=(Step.of(0, [first[top], second[top]], [0, 1]),))
    return start + (down.place(first, n, 0, 2) | down.place(second, n, 1, 2))


def _two_orders(n: int) -> tuple[IntArray, IntArray]:
    """For each place of a binary tree over n, the position there in the first and in the second tree.

    Inner places are odd. The mirror image (n even) or a shift by one (n odd: the last place is a leaf) makes them even.
    """
    place = np.arange(n, dtype=np.int32)
    return place, place[::-1] if n % 2 == 0 else np.roll(place, -1)


def _binary(n: int) -> Schedule:
    """Broadcast from the top of the in-order binary tree over places 0 .. n-1, one depth a step."""
    number = np.arange(1, n + 1)  # in-order trees are simplest when counted from 1: leaves are odd
    lowest = number & -number
    parent = (number ^ lowest) | (lowest << 1)
    parent = np.where(parent <= n, parent, number ^ lowest)
    steps = []
    reached = number == _top(n) + 1
    while not reached.all():
        next_level = ~reached & np.append(False, reached)[parent]
        steps.append(Step.of(parent[next_level] - 1, number[next_level] - 1))
        reached |= next_level
    return Schedule(n=n, blocks=1, steps=tuple(steps))


def _top(n: int) -> int:
    """The place at the top: counted from 1, the largest power of two."""
    return (1 << (n.bit_length() - 1)) - 1


def _falling_distances(n: int) -> list[int]:
    return [1 << k for k in reversed(range((n - 1).bit_length()))]
