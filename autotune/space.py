"""Which configs are worth a sample for a problem. Pure; the executor's rules come in as functions.

In:  the problem, the names that are legal for it, and what makes two configs the same plan.
Out: configs, no two of which do the same thing.
May not touch: kernels, clocks, buffers. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from .types import SHARED_CORES, Collective, Config, DType, KnobValue, Memory, OpClass, Problem

SEGMENTS = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
"""Segment sizes of the grid, in bytes: powers of four, from where a slice is still worth its messages to where it no
longer stays in the caches."""


ZERO_COPY_SEGMENTS = (256 << 10, 1 << 20, 1 << 30)
"""The same where nothing is copied: a slice that stays in the caches, or the whole message at once."""

SINGLE_COPY_FROM_BYTES = 8 << 10
"""Private messages from here on are worth a call to the kernel that reads them where they lie."""

CODECS = ("int8", "int4", "threshold(0.1)", "threshold(0.5)", "threshold(1.0)")
"""What problems with an error budget may try; what it is off by decides then."""
CODEC_SEGMENTS = (64 << 10, 256 << 10)

_ZERO_COPY = (("exchange", "zero_copy"),)
_SINGLE_COPY = (("exchange", "single_copy"),)
_STREAMED = (("stores", "streamed"),)
_EXCHANGES = ((), _ZERO_COPY, _SINGLE_COPY)
_FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)


def native_candidates(
    problem: Problem,
    *,
    names: Callable[[Collective, int], tuple[str, ...]],
    zero_copy_names: Callable[[Collective, int], tuple[str, ...]] = lambda collective, n_ranks: (),
    single_copy_names: Callable[[Collective, int], tuple[str, ...]] = lambda collective, n_ranks: (),
    streamed_names: Callable[[Collective, int], tuple[str, ...]] = lambda collective, n_ranks: (),
    lossy_names: Callable[[Collective, int], tuple[str, ...]] = lambda collective, n_ranks: (),
    shared_core_names: Callable[[Collective, int], tuple[str, ...]] = lambda collective, n_ranks: (),
    slices: Callable[[Config], int],
    preferred: Sequence[Config] = (),
    segments: Collection[int] = SEGMENTS,
) -> tuple[Config, ...]:
    """Every legal algorithm with every segment size that makes a difference, in the order of names and segments.

    Configs of one algorithm with the same number of slices run the same plan and are one candidate. Its name is the one
    with the largest segment: that one still runs the measured plan for somewhat larger messages, where a smaller
    segment cuts once more. Over symmetric memory the exchange without copies competes as well, and of larger private
    messages the one with a single copy. Outputs past the caches compete where the caches of one host hold the ranks'
    buffers and those of another do not. Whether messages are stored past the caches is no candidate: the executor
    learns that call by call, since it follows from where the host runs the cores at the moment.

    Args:
        names: (collective, n_ranks) -> legal algorithms; no two that do the same.
        zero_copy_names: those that need no copies over symmetric memory.
        single_copy_names: those whose ranks can read each other's private buffers, where the host lets them.
        streamed_names: those whose outputs may be worth writing past the caches, where they are not anyway.
        lossy_names: those that may carry lossy codecs, for problems with an error budget.
        shared_core_names: those for ranks that share cores, by a knob of the first preferred config's algorithm; of
            symmetric memory only those that need no copies.
        slices: config -> number of slices for this problem.
        preferred: configs (default, reference) that name their plan instead, the first of several; not those whose
            algorithm is not among the names, or that have a codec, or knobs but for exchange and shared_cores.
    """
    legal = names(problem.key.collective, problem.key.n_ranks)
    grid = [Config(algorithm=algorithm, segment_bytes=s) for algorithm in legal for s in sorted(segments)]
    if problem.key.memory is Memory.SYMMETRIC:
        grid += [
            Config(algorithm=algorithm, segment_bytes=s, knobs=_ZERO_COPY)
            for algorithm in zero_copy_names(problem.key.collective, problem.key.n_ranks)
            for s in ZERO_COPY_SEGMENTS
        ]
    elif problem.message_bytes >= SINGLE_COPY_FROM_BYTES:
        grid += [
            Config(algorithm=algorithm, segment_bytes=s, knobs=_SINGLE_COPY)
            for algorithm in single_copy_names(problem.key.collective, problem.key.n_ranks)
            for s in ZERO_COPY_SEGMENTS
        ]
    symmetric = problem.key.memory is Memory.SYMMETRIC
    streamed = streamed_names(problem.key.collective, problem.key.n_ranks)
    for_shared_cores = shared_core_names(problem.key.collective, problem.key.n_ranks)
    grid += [
        Config(algorithm=preferred[0].algorithm, segment_bytes=s, knobs=tuple(sorted((*knobs, (SHARED_CORES, name)))))
        for name in for_shared_cores
        for knobs in ((_ZERO_COPY,) if symmetric else ((), _STREAMED) if streamed else ((),))
        for s in (ZERO_COPY_SEGMENTS if symmetric else sorted(segments))
    ]
    grid += [
        Config(algorithm=algorithm, segment_bytes=s, knobs=_STREAMED)
        for algorithm in streamed
        for s in sorted(segments)
    ]
    if problem.key.max_error is not None and problem.key.dtype in _FLOATS and problem.key.op_class is not OpClass.PROD:
        grid += [
            Config(algorithm=algorithm, segment_bytes=s, codec=codec)
            for algorithm in lossy_names(problem.key.collective, problem.key.n_ranks)
            for codec in CODECS
            for s in CODEC_SEGMENTS
        ]
    plain = [
        c
        for c in preferred
        if _without_shared_cores(c) in _EXCHANGES
        and c == Config(algorithm=c.algorithm, segment_bytes=c.segment_bytes, knobs=c.knobs)
    ]
    named: dict[tuple[str, str, tuple[tuple[str, KnobValue], ...], int], Config] = {}
    for config in (*grid, *reversed(plain)):  # the last one names the plan
        if config.algorithm in legal or config.knobs in _EXCHANGES[1:] or config.codec != "none":
            # Ranks that share no core run the config's own algorithm, whatever that knob says.
            knobs = config.knobs if for_shared_cores else _without_shared_cores(config)
            named[config.algorithm, config.codec, knobs, slices(config)] = config
    return tuple(named.values())


def _without_shared_cores(config: Config) -> tuple[tuple[str, KnobValue], ...]:
    return tuple(knob for knob in config.knobs if knob[0] != SHARED_CORES)
