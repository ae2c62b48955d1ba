"""Which sizes to measure after the coarse ones: where neighbours chose differently, down to the border. Pure.

In:  what the sizes of one key decided. Out: further sizes. May not touch: stores, clocks, backends.

Between two sizes with different winners lies a crossover; it is halved, on a logarithmic scale, until the sizes on its
sides are a factor of 2**(1/4) apart. Noise is not followed: where one side's config is the statistical equal of the
other's choice, there is no border to look for. A cliff (the time grows twice as fast as the bytes, though the config
stays) is halved like a crossover, since another config may carry over it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Set

from ..distil import Verdict
from ..types import Problem, RuleKey, round_up_message

FINEST = 2**0.25
"""Sizes nearer than this are not told apart."""
CLIFF = 2.0


def next_sizes(verdicts: Mapping[Problem, Verdict], failed: Set[Problem] = frozenset()) -> list[Problem]:
    """The problems that would halve a crossover or a cliff, widest gap first; empty once all are narrow.

    Args:
        verdicts: of all cells that are decided, of any keys.
        failed: cells on which no decision was possible; a gap with one in its middle is left alone.
    """
    by_key: dict[RuleKey, list[Verdict]] = {}
    for verdict in verdicts.values():
        by_key.setdefault(verdict.problem.key, []).append(verdict)
    found: list[tuple[float, Problem]] = []
    for key, of_key in by_key.items():
        of_key.sort(key=lambda verdict: verdict.problem.message_bytes)
        for below, above in itertools.pairwise(of_key):
            low, high = below.problem.message_bytes, above.problem.message_bytes
            if (not differ(below, above) and not is_cliff(below, above)) or high <= low * FINEST * 1.001:
                continue
            middle = Problem(key=key, message_bytes=_between(key, low, high))
            if low < middle.message_bytes < high and middle not in failed:
                found.append((high / low, middle))
    found.sort(key=lambda item: -item[0])
    return [problem for _, problem in found]


def differ(below: Verdict, above: Verdict) -> bool:
    """Whether two sizes need different configs: neither's choice may stand in for the other's."""
    return below.may_be(above.config) is None and above.may_be(below.config) is None


def is_cliff(below: Verdict, above: Verdict) -> bool:
    """Whether the time jumps between two sizes, beyond what more bytes explain."""
    growth = above.problem.message_bytes / max(1, below.problem.message_bytes)
    low, high = below.time_us.high, above.time_us.low
    return low is not None and high is not None and high > CLIFF * growth * low


def neighbours(problem: Problem, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The decided sizes next to this one, smaller first."""
    own = [verdict for verdict in verdicts if verdict.problem.key == problem.key and verdict.problem != problem]
    smaller = [v for v in own if v.problem.message_bytes < problem.message_bytes]
    larger = [v for v in own if v.problem.message_bytes > problem.message_bytes]
    beside = [*sorted(smaller, key=_size)[-1:], *sorted(larger, key=_size)[:1]]
    return tuple(beside)


def _between(key: RuleKey, low: int, high: int) -> int:
    itemsize = key.dtype.itemsize if key.dtype else 1
    return round_up_message(key.collective, math.isqrt(low * high), key.n_ranks, itemsize)


def _size(verdict: Verdict) -> int:
    return verdict.problem.message_bytes
