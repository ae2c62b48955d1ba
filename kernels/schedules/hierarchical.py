"""Hierarchical: first inside groups with fast links, then between groups, each byte over the slow links once.

Idea. Position i of every group forms *column* i. all_gather: the columns gather (bruck: few steps for any number of
groups), then the groups (direct: they have links between all pairs). Backwards it is reduce_scatter, both together
all_reduce: every position drives its own share of the slow links at the same time. broadcast, and all_reduce over
groups of unequal size: the first position of each group, its *leader*, talks to the other leaders. all_to_all: what
goes to column j is first collected at position j of the own group, then crosses in one message per group.

Picture (4 positions in the groups (0 1) (2 3); all_gather):

    step 1, columns   0 <--[0] [2]--> 2      1 <--[1] [3]--> 3
    step 2, groups    0 <--[0 2] [1 3]--> 1      2 <--[0 2] [1 3]--> 3

G groups of g positions. Steps: all_gather, reduce_scatter 1 + ceil(log2 G); all_reduce 2 + 2 ceil(log2 G); broadcast,
reduce 1 + ceil(log2 G); all_to_all 2. Bytes on the wire of the busiest rank, in messages: all_gather, reduce_scatter (n
- 1)/n; all_reduce 2(n - 1)/n; broadcast, reduce g - 1 + ceil(log2 G); all_to_all 2 - 1/g - 1/G.
Legal: two groups or more, one of two or more. all_gather, reduce_scatter, all_to_all: equal groups, n up to 1024.
Source: Cho et al. 2019, "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy";
leaders: Karonis et al. 2000, "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance"; all_to_all: "2DH" in Hwang et al. 2023, "Tutel".
"""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from . import bruck, direct, flat, trees
from .combine import there_and_back
from .ir import IntArray, Schedule, Step

Groups = tuple[tuple[int, ...], ...]
"""Positions of each group, ascending; the groups ascend by their first position, so that groups[0][0] is the root."""


def all_reduce(groups: Groups) -> Schedule:
    """reduce_scatter in groups, all_reduce in columns, all_gather in groups; with leaders where groups are unequal."""
    if len({len(group) for group in groups}) > 1:
        return _all_reduce_by_leaders(groups)
    return there_and_back(_two_levels(groups))


def all_gather(groups: Groups) -> Schedule:
    """Columns, then groups: each byte enters a group once."""
    return _two_levels(groups).renamed(_rows(groups).T.ravel())


def broadcast(groups: Groups) -> Schedule:
    """A binomial tree over the leaders, then everybody reads its leader."""
    n = sum(len(group) for group in groups)
    return trees.broadcast(len(groups)).place([group[0] for group in groups], n) + _from_leaders(groups, 1)


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


def _all_reduce_by_leaders(groups: Groups) -> Schedule:
    n = sum(len(group) for group in groups)
    between = bruck.all_reduce(len(groups)).place([group[0] for group in groups], n)
    down = _from_leaders(groups, between.blocks)
    return down.reversed() + between + down


def _from_leaders(groups: Groups, blocks: int) -> Schedule:
    n = sum(len(group) for group in groups)
    return reduce(or_, (flat.broadcast(len(group)).refine(blocks).place(group, n) for group in groups))


def _rows(groups: Groups) -> IntArray:
    """[group, index in the group] -> position.

    Raises:
        ValueError: groups of unequal size.
    """
    if len({len(group) for group in groups}) != 1:
        raise ValueError(f"groups of {[len(group) for group in groups]} positions have no columns")
    return np.array(groups, dtype=np.int32)
