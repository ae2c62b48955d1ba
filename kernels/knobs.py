"""What a call's arguments and its config's knobs come to. Plain values.

In:  a shape, a config. Out: `Knobs`, checked. May not touch: programs, buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import UsageError
from ..types import SHARED_CORES, Collective, Config, DType, KnobValue, ReduceOp
from .shared_cores import FOR_SHARED_CORES

SLICES_IN_FLIGHT = 4
STORES = ("cached", "streamed")
OUTBOXES = (*STORES, "learnt")
"""How messages are stored; learnt: as the readers are near or far at the moment; in the order of the native numbers."""
EXCHANGES = ("staged", "zero_copy", "single_copy")
"""How blocks get from rank to rank: through outboxes; straight between buffers in symmetric memory; or read by the
receiver from its peers' private buffers, through the kernel."""

SINGLE_COPY = ("exchange", "single_copy")

STREAM_FROM_BYTES = 16 << 20
"""Outputs of this size on go past the caches: below, the next reader still finds them there (measured)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A call's arguments that decide its program and cut. `count` is per rank where the collective splits by rank."""

    collective: Collective
    dtype: DType
    op: ReduceOp
    root: int
    count: int

    def message_bytes(self, n_ranks: int) -> int:
        """The size by which configs are chosen (DESIGN: the larger of a rank's input and output)."""
        return self.count * self.dtype.itemsize * (n_ranks if self.collective.splits_by_rank else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What a config's knobs come to for a call.

    Args:
        in_flight: slices under way at the same time, 1 to 8.
        stream: outputs are written past the caches.
        outbox: how messages are, one of `OUTBOXES`: past the caches, their lines need not be fetched from the caches of
            peers that read them.
        exchange: one of `EXCHANGES`.
        shared_cores: the algorithm where ranks share cores, one of `FOR_SHARED_CORES`; None for the config's own.
    """

    in_flight: int
    stream: bool
    outbox: str
    exchange: str
    shared_cores: str | None = None

    @classmethod
    def of(cls, shape: Shape, config: Config, n_ranks: int) -> Knobs:
        """The knobs of a config, the others at their defaults.

        Raises:
            UsageError: an unknown knob, or a value that it cannot have.
        """
        knobs: dict[str, KnobValue] = dict(config.knobs)
        in_flight = knobs.pop("slices_in_flight", SLICES_IN_FLIGHT)
        large = shape.message_bytes(n_ranks) >= STREAM_FROM_BYTES
        words = {
            name: _word(name, knobs.pop(name, default), allowed)
            for name, default, allowed in (
                ("stores", "streamed" if large else "cached", STORES),
                ("outbox", "learnt", OUTBOXES),
                ("exchange", "staged", EXCHANGES),
            )
        }
        shared_cores = _word(SHARED_CORES, knobs.pop(SHARED_CORES), FOR_SHARED_CORES) if SHARED_CORES in knobs else None
        if knobs:
            raise UsageError(
                f"config {config} has the unknown knob {min(knobs)!r}",
                remedy=f"the native knobs: slices_in_flight, {', '.join(words)}, {SHARED_CORES}",
            )
        if not isinstance(in_flight, int) or not 1 <= in_flight <= 8:
            raise UsageError(f"slices_in_flight is {in_flight!r}, not 1 to 8", remedy="give a number from 1 to 8")
        return cls(
            in_flight=in_flight,
            stream=words["stores"] == "streamed",
            outbox=words["outbox"],
            exchange=words["exchange"],
            shared_cores=shared_cores,
        )


def _word(name: str, value: KnobValue, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise UsageError(f"{name} is {value!r}", remedy=f"give {' or '.join(allowed)}")
    return value


def without_single_copy(config: Config) -> Config:
    """The config through outboxes, where it would read peers' private buffers."""
    if SINGLE_COPY not in config.knobs:
        return config
    return replace(config, knobs=tuple(knob for knob in config.knobs if knob != SINGLE_COPY))
