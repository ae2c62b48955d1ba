"""Which configs are worth a sample for a problem. Pure; the executor's rules come in as functions.

In:  the problem, the names that are legal for it, and what makes two configs the same plan.
Out: configs, no two of which do the same thing.
May not touch: kernels, clocks, buffers. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from .types import Collective, Config, Problem

SEGMENTS = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
"""Segment sizes of the grid, in bytes: powers of four, from where a slice is still worth its messages to where it no
longer stays in the caches."""


def native_candidates(
    problem: Problem,
    *,
    names: Callable[[Collective, int], tuple[str, ...]],
    slices: Callable[[Config], int],
    preferred: Sequence[Config] = (),
    segments: Collection[int] = SEGMENTS,
) -> tuple[Config, ...]:
    """Every legal algorithm with every segment size that makes a difference, in the order of names and segments.

    Configs of one algorithm with the same number of slices run the same plan and are one candidate. Its name is the one
    with the largest segment: that one still runs the measured plan for somewhat larger messages, where a smaller
    segment cuts once more.

    Args:
        names: (collective, n_ranks) -> legal algorithms; no two that do the same.
        slices: config -> number of slices for this problem.
        preferred: configs (default, reference) that name their plan instead, the first of several; not those whose
            algorithm is not among the names, or that have a codec or knobs.
    """
    legal = names(problem.key.collective, problem.key.n_ranks)
    grid = [Config(algorithm=algorithm, segment_bytes=s) for algorithm in legal for s in sorted(segments)]
    plain = [c for c in preferred if c == Config(algorithm=c.algorithm, segment_bytes=c.segment_bytes)]
    named: dict[tuple[str, int], Config] = {}
    for config in (*grid, *reversed(plain)):  # the last one names the plan
        if config.algorithm in legal:
            named[config.algorithm, slices(config)] = config
    return tuple(named.values())
