"""Ranks of one host that share a core, and the algorithms that are made for them. Plain values.

In:  on which core each rank runs. Out: whether ranks share some.
May not touch: how a rank was bound to its core, schedules, buffers.

Ranks on one core take turns: what one sends to another stays in that core's caches, but each message is a change of
ranks. So one rank of each core, its leader, sums up or hands out for the others, and data cross between cores once. The
config knob ``shared_cores`` names such an algorithm. Where no two ranks are bound to one core, the config's own
algorithm runs, so a table holds on either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

FOR_SHARED_CORES = ("leaders", "folded_leaders", "owners")
"""Of those that need groups, what may be worth a sample: the others spread a group's messages over all of its ranks,
which gains nothing where these take turns."""


def sharing(cores: Sequence[int]) -> tuple[int, ...]:
    """The cores of the ranks, where groups of ranks share some; else ().

    Args:
        cores: by rank, the only core on which it runs; negative where there are several.
    """
    ranks_on = Counter(cores)
    known = min(ranks_on, default=-1) >= 0
    return tuple(cores) if known and len(ranks_on) > 1 and max(ranks_on.values()) > 1 else ()
