"""A judge of schedules that shares nothing with check(): it moves random integers and compares the outcome.

Beside a wrong outcome it objects to what no executor should have to carry out: a send to itself, a send of nothing, a
reduction into nothing, a block written twice in a step, and a contribution that is in a sum twice (also where a later
step overwrites that sum).
"""

from __future__ import annotations

import numpy as np

from autotune.kernels.schedules import Schedule
from autotune.types import Collective

_REDUCING = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)


def fault(collective: Collective, schedule: Schedule, seed: int = 0) -> str | None:
    """What is wrong, or None."""
    n, blocks = schedule.n, schedule.blocks
    values = np.random.default_rng(seed).integers(1, 1 << 40, size=(n, blocks))
    present = np.array([[_starts(collective, n, blocks, p, b) for b in range(blocks)] for p in range(n)])
    inputs = values.copy()
    # parts[p, b, q]: how often position q's input is in what p holds of block b.
    parts = np.eye(n, dtype=np.int64)[:, None, :] * present[:, :, None]
    for step in schedule.expand():
        old_values, old_present, old_parts = values.copy(), present.copy(), parts.copy()
        copied = np.zeros_like(present)
        for src, dst, moved, reduce in step:
            b = list(moved)
            if src == dst:
                return "sends to itself"
            if not old_present[src, b].all():
                return "sends nothing"
            if copied[dst, b].any():
                return "written twice"
            if reduce:
                if not old_present[dst, b].all():
                    return "reduces into nothing"
                values[dst, b] += old_values[src, b]
                parts[dst, b] += old_parts[src, b]
            else:
                values[dst, b], parts[dst, b] = old_values[src, b], old_parts[src, b]
                present[dst, b] = copied[dst, b] = True
            if parts[dst, b].max() > 1:
                return "counted twice"
    for p in range(n):
        for b in range(blocks):
            if _ends(collective, n, blocks, p, b):
                right = inputs[:, b].sum() if collective in _REDUCING else inputs[_origin(collective, n, blocks, b), b]
                if not present[p, b] or values[p, b] != right:
                    return f"position {p} ends with a wrong block {b}"
    return None


def _origin(collective: Collective, n: int, blocks: int, block: int) -> int:
    if collective in (Collective.BROADCAST, Collective.SCATTER):
        return 0
    if collective is Collective.ALL_TO_ALL:
        return block // n
    return block * n // blocks


def _starts(collective: Collective, n: int, blocks: int, position: int, block: int) -> bool:
    return collective in _REDUCING or position == _origin(collective, n, blocks, block)


def _ends(collective: Collective, n: int, blocks: int, position: int, block: int) -> bool:
    if collective in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.BROADCAST):
        return True
    if collective in (Collective.REDUCE, Collective.GATHER):
        return position == 0
    if collective is Collective.ALL_TO_ALL:
        return position == block % n
    return position == block * n // blocks
