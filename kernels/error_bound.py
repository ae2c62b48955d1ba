"""E: how far a collective's result may be off by a config's codec, from the schedule alone.

In:  a collective, a config, what is encoded. Out: E, and in how many encodings it comes about. `explain` prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..types import Collective, Config, DType
from .codecs import Codec
from .programs import host_numbers, layout_of
from .schedules.registry import build
from .schedules.wire import follow


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBound:
    """A bound on the norm of what a result is off from what it would be without the codec.

    Args:
        relative: E: so many times the sum of the norms of all ranks' contributions.
        encodings: that a contribution passes through at most.
    """

    relative: float
    encodings: int


def error_bound(collective: Collective, config: Config, placement: Sequence[int], dtype: DType) -> ErrorBound | None:
    """The bound of a config; None where it is lossless.

    Args:
        placement: ranks on each host.

    Raises:
        UsageError: a codec or an algorithm that is none.
    """
    codec = Codec.parse(config.codec)
    if not codec.lossy:
        return None
    n_ranks = sum(placement)
    layout = layout_of(n_ranks, 0, host_numbers(placement))
    wire = follow(collective, build(collective, config.algorithm, n_ranks, layout))
    return ErrorBound(relative=wire.relative_error(codec.relative_error(dtype)), encodings=wire.longest)
