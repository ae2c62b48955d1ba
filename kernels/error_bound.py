"""E: how far a collective's result may be off by a config's codec, from the schedule alone.

In:  a collective, a config, what is encoded. Out: E, and in how many encodings it comes about. `explain` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..types import Collective, Config, DType
from .codecs import Codec
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


def error_bound(collective: Collective, config: Config, n_ranks: int, dtype: DType) -> ErrorBound | None:
    """The bound of a config; None where it is lossless.

    Raises:
        UsageError: a codec or an algorithm that is none.
    """
    codec = Codec.parse(config.codec)
    if not codec.lossy:
        return None
    wire = follow(collective, build(collective, config.algorithm, n_ranks))
    return ErrorBound(relative=wire.relative_error(codec.relative_error(dtype)), encodings=wire.longest)
