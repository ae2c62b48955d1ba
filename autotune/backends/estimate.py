"""How long a config's calls take, from its first ones: by that its samples are batches, or calls timed one by one.

In:  what makes and times calls, and how ranks agree. Out: the calls of a batch and the microseconds of one, alike on
all ranks. May not touch: buffers, checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..measure import batch_calls
from ..measure.timing import BATCH_US

_ALONE = 3  # calls, those that checks made among them, that say whether a config's are surely timed one by one
_SURELY_SINGLE_US = 2000.0  # for the least of these: more than scheduling can add to all of them


def estimated(
    timed: Callable[[int], float], seconds: Sequence[float], agreed_us: Callable[[Sequence[float]], float]
) -> tuple[int, float]:
    """How many calls make a batch, and the microseconds of one; 1 where they are timed one by one.

    The least of several readings counts: a disturbed one would put short calls among those timed one by one.

    Args:
        timed: makes so many calls back to back; the seconds of one.
        seconds: of calls made alone before, the first touch of pages and of both outbox halves among them.
        agreed_us: the microseconds of the least of some readings, each as the slowest rank took it.
    """
    alone_us = agreed_us([*seconds, *(timed(1) for _ in range(_ALONE - len(seconds)))])
    if alone_us >= _SURELY_SINGLE_US:
        return 1, alone_us
    estimate_us = agreed_us([timed(4)])
    if min(alone_us, estimate_us) < BATCH_US:  # else both say ten times what is timed alone
        estimate_us = min(estimate_us, agreed_us([timed(4), timed(4)]))
    if estimate_us < BATCH_US / 4:
        estimate_us = agreed_us([timed(32), timed(32), timed(32)])
    return batch_calls(estimate_us), estimate_us
