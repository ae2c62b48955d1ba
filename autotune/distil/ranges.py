"""Sizes of one key beside each other: which neighbours share a config, and where a range ends. Pure.

In:  the verdicts of one key, or its sizes. Out: the same verdicts with fewer changes of config; half-open ranges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from ..types import Config
from .verdict import Verdict


def merged(of_key: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts of one key by size, with as few changes of config as equals allow.

    A range of sizes takes over its neighbour's config where that is the equal of the choice at every size of the range.
    """
    ordered = sorted(of_key, key=lambda verdict: verdict.problem.message_bytes)
    ranges = [list(run) for _, run in itertools.groupby(ordered, key=lambda verdict: verdict.config)]
    at = 0
    while at + 1 < len(ranges):
        left, right = ranges[at], ranges[at + 1]
        joined = _taking(left[0].config, right)
        if joined is not None:
            joined = [*left, *joined]
        elif (others := _taking(right[0].config, left)) is not None:
            joined = [*others, *right]
        if joined is None:
            at += 1
            continue
        ranges[at : at + 2] = [joined]
        at = max(0, at - 1)
    return [verdict for run in ranges for verdict in run]


def _taking(config: Config, run: Sequence[Verdict]) -> list[Verdict] | None:
    """These verdicts with another config; None where it is not the equal of all their choices."""
    taken = [other for verdict in run if (other := verdict.may_be(config)) is not None]
    return taken if len(taken) == len(run) else None


def size_ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Half-open ranges around distinct ascending sizes, without gap or overlap.

    The first begins at its size, the last ends one byte after its; between two sizes the border is their geometric mean
    (rounded down, but above the smaller).
    """
    borders = [max(a + 1, math.isqrt(a * b)) for a, b in itertools.pairwise(sizes)]
    return list(zip([sizes[0], *borders], [*borders, sizes[-1] + 1], strict=True))
