"""Owners: each group's first position owns a share, collects it from everybody, and everybody reads it there.

Idea. Positions that take turns on one core gain nothing from spreading work over all of them: every further message is
a further change of positions, and what crosses between cores should cross once. So there is one block for each group,
and its owner is the group's first position. The members of other groups hand the block to their own first one, which
sums it up; the owner takes these sums together with its own members' parts, in one instruction, so that no partial sum
is written to memory; then everybody reads the finished block from its owner.

Picture (4 positions in the groups (0 1) (2 3); block 0, whose owner is 0; block 1 is the mirror image):

    step 1    3 --> 2              step 2    1, 2 --> 0              step 3    0 --> 1, 2, 3

G groups of g positions. Steps: 3. Bytes on the wire of the busiest rank, in messages: n - 1 readers of a share, (n -
1)/G, and what its group contributes to the other shares, (G - 1)/G; together g - 1 + 2(G - 1)/G.
Legal n: any; two groups or more, one of two or more. It is meant for groups that share a core: between hosts each byte
would cross once for every reader.
Source: within and between groups, Karonis et al. 2000, "Exploiting hierarchy in parallel computer networks to optimize
collective operation performance"; shares, Rabenseifner 2004, "Optimization of collective reduction operations".
"""

from __future__ import annotations

from .hierarchical import Groups
from .ir import Schedule, Step


def all_reduce(groups: Groups) -> Schedule:
    """Two steps to the owners, one back."""
    n, blocks = sum(len(group) for group in groups), len(groups)
    owners = [group[0] for group in groups]
    to_leaders, to_owners, back = [], [], []
    for block, owner in enumerate(owners):
        for leader, *members in groups:
            to_leaders += [(member, leader, block) for member in members if leader != owner]
            to_owners += [(member, owner, block) for member in members if leader == owner]
        to_owners += [(leader, owner, block) for leader in owners if leader != owner]
        back += [(owner, reader, block) for reader in range(n) if reader != owner]
    steps = [Step.of(*zip(*pairs, strict=True), reduce=pairs is not back) for pairs in (to_leaders, to_owners, back)]
    return Schedule(n=n, blocks=blocks, steps=tuple(steps))
