"""Hierarchical: first inside groups with fast links, then between groups, each byte over the slow links once.

Idea. Position i of every group forms *column* i. all_gather: the columns gather (bruck: few steps for any number of
groups), then the groups (direct: they have links between all pairs). Backwards it is reduce_scatter, both together
all_reduce: every position drives its own share of the slow links at the same time. all_reduce needs no equal groups:
the first k positions of each group, its *leaders*, form k columns and share the buffer, and what runs in the columns
may be any all_reduce. all_gather by leaders, for groups of any size: one of each collects, exchanges and hands out.
broadcast: the first leaders are a tree; by leaders, the root hands out to its own group and to the other leaders at
once, and backwards, in reduce, it takes its group's parts together with what the other leaders have summed. all_to_all:
what goes to column j is first collected at position j of the own group, then crosses in one message per group.

Picture (4 positions in the groups (0 1) (2 3); all_gather):

    step 1, columns   0 <--[0] [2]--> 2      1 <--[1] [3]--> 3
    step 2, groups    0 <--[0 2] [1 3]--> 1      2 <--[0 2] [1 3]--> 3

G groups of g positions. Steps: all_gather, reduce_scatter 1 + ceil(log2 G); all_reduce 2 and those of the columns'
all_reduce over G, 2 ceil(log2 G) for bruck; broadcast, reduce 1 + ceil(log2 G), by leaders 2; all_to_all 2. Bytes on
the wire of the busiest rank, in messages: all_gather, reduce_scatter (n - 1)/n; all_reduce with k leaders and bruck (g
+ k - 2 + 2(G - 1)/G)/k, which is 2(n - 1)/n for k = g; all_gather by leaders ((g - 1)(n - 1) + n - g)/n, in 3 steps;
broadcast, reduce g - 1 + ceil(log2 G), by leaders g + G - 2; all_to_all 2 - 1/g - 1/G.
Legal: two groups or more, one of two or more. all_to_all, and all_gather and reduce_scatter but for those by leaders:
equal groups. All three n up to 1024.
Source: Cho et al. 2019, "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy";
leaders: Karonis et al. 2000, "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance"; all_to_all: "2DH" in Hwang et al. 2023, "Tutel".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_

import numpy as np

from . import bruck, direct, flat, trees
from .ir import IntArray, Schedule, Step

Groups = tuple[tuple[int, ...], ...]
"""Positions of each group, ascending; the groups ascend by their first position, so that groups[0][0] is the root."""


def all_reduce(
    groups: Groups, between: Callable[[int], Schedule] = bruck.all_reduce, n_leaders: int | None = None
) -> Schedule:
    """reduce_scatter to the leaders of each group, all_reduce in the columns, all_gather from the leaders.

    Args:
        between: the columns' all_reduce, over as many positions as there are groups.
        n_leaders: of each group at most; None is every position, in groups of unequal size as many as the smallest has.
    """
    smallest = min(len(group) for group in groups)
    k = smallest if n_leaders is None else min(n_leaders, smallest)
    columns = np.array([[group[j] for group in groups] for j in range(k)], dtype=np.int32)
    n, own = sum(len(group) for group in groups), between(len(groups))
    down = _from_leaders(groups, k, own.blocks)
    return down.reversed() + own.place(columns, n, np.arange(k) * own.blocks, k * own.blocks) + down


def all_gather(groups: Groups) -> Schedule:
    """Columns, then groups: each byte enters a group once."""
    return _two_levels(groups).renamed(_rows(groups).T.ravel())


def all_gather_by_leaders(groups: Groups) -> Schedule:
    """The first of each group collects its blocks, the leaders exchange them, and each hands out all the rest."""
    n = sum(len(group) for group in groups)
    leader = _leaders(groups)
    block, other = (part.ravel() for part in np.meshgrid(np.arange(n), [group[0] for group in groups], indexing="ij"))
    collect, hand_out = round_leaders(groups)
    cross = Step.of(leader[block], other, block).only(leader[block] != other)
    return Schedule(n=n, blocks=n, steps=(collect, cross, hand_out))


def round_leaders(groups: Groups) -> tuple[Step, Step]:
    """Of an all_gather by leaders, its ends: the first of each group collects its blocks; it hands out all the rest."""
    leader = _leaders(groups)
    n = leader.size
    members = np.flatnonzero(leader != np.arange(n))
    return Step.of(members, leader[members], members), Step.of(leader[members], members, (members + 1) % n, n - 1)


def broadcast(groups: Groups) -> Schedule:
    """A binomial tree over the leaders, then everybody reads its leader."""
    n = sum(len(group) for group in groups)
    return trees.broadcast(len(groups)).place([group[0] for group in groups], n) + _from_leaders(groups, 1, 1)


def broadcast_by_leaders(groups: Groups) -> Schedule:
    """The root hands out to its own group and to the other leaders, these to theirs."""
    n = sum(len(group) for group in groups)
    own, *others = groups
    start = Step.of(0, [*own[1:], *(group[0] for group in others)])
    pairs = [(group[0], member) for group in others for member in group[1:]]
    src, dst = np.array(pairs, np.int32).reshape(-1, 2).T
    return Schedule(n=n, blocks=1, steps=(start, Step.of(src, dst)))


def all_to_all(groups: Groups) -> Schedule:
    """Position i collects in its group what goes to column i, then exchanges it within the column."""
    rows = _rows(groups)
    n_groups, size = rows.shape
    a, i, b, j = (part.ravel() for part in np.indices((n_groups, size, n_groups, size), dtype=np.int32))
    block = rows[a, i] * rows.size + rows[b, j]
    collect = Step.of(rows[a, i], rows[a, j], block).only(i != j)
    cross = Step.of(rows[a, j], rows[b, j], block).only(a != b)
    return Schedule(n=rows.size, blocks=rows.size**2, steps=(collect, cross))


def _two_levels(groups: Groups) -> Schedule:
    """all_gather with blocks named by columns: position i of group a owns block i * len(groups) + a."""
    rows = _rows(groups)
    n_groups, size = rows.shape
    in_columns = bruck.all_gather(n_groups).place(rows.T, rows.size, np.arange(size) * n_groups, rows.size)
    in_groups = direct.all_gather(size).refine(n_groups).place(rows, rows.size)
    return in_columns + in_groups


def _from_leaders(groups: Groups, n_leaders: int, blocks: int) -> Schedule:
    """Leader j of each group hands its share, blocks of number j, to the others of the group."""
    n = sum(len(group) for group in groups)
    shares = np.arange(n_leaders) * blocks

    def of_size(size: int) -> Schedule:
        own = [group for group in groups if len(group) == size]
        leader_first = [np.roll(group, -j) for group in own for j in range(n_leaders)]
        share = flat.broadcast(size).refine(blocks)
        return share.place(np.array(leader_first), n, np.tile(shares, len(own)), n_leaders * blocks)

    return reduce(or_, map(of_size, sorted({len(group) for group in groups})))


def _leaders(groups: Groups) -> IntArray:
    """[position] -> the first of its group."""
    leader = np.zeros(sum(len(group) for group in groups), np.int32)
    for group in groups:
        leader[list(group)] = group[0]
    return leader


def _rows(groups: Groups) -> IntArray:
    """[group, index in the group] -> position.

    Raises:
        ValueError: groups of unequal size.
    """
    if len({len(group) for group in groups}) != 1:
        raise ValueError(f"groups of {[len(group) for group in groups]} positions have no columns")
    return np.array(groups, dtype=np.int32)
