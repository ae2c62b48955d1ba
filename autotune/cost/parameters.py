"""The constants of the cost model, in named values: of a network of accelerators, and of ranks on one host's CPUs.

In:  nothing. Out: ``NetworkParameters`` and ``HostParameters`` with defaults and their sources. May not touch:
anything. Every price is linear in them for a given critical path, which is what ``fit`` uses: ``vector()`` lists them
in the order in which the models count how often each is paid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from .fabric import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Constants that are 0 or more."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0.0 <= value < math.inf:
                raise ValueError(f"{field.name} is {value}, which is not 0 or more")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(field.name for field in fields(cls))

    def vector(self) -> FloatArray:
        """The values in the order of ``names()``."""
        return np.array([getattr(self, field.name) for field in fields(self)])

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """The inverse of ``vector``."""
        return cls(**dict(zip(cls.names(), map(float, values), strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkParameters(Parameters):
    """Messages over links. The links' own latencies and bandwidths are in the fabric.

    Args:
        call_us: of a collective call, however many messages it has.
        message_us: of a rank for each message that it sends or takes.
        turn_us: of a step in which a rank sends to another one than in its last step: a connection that rested takes
            time to come up to its rate again. 0 where links have no connections; over TCP, what trials say.
        latency_share: what the links' latencies are multiplied by.
        wire_share: what the time of bytes on links is multiplied by; above 1 where links give less than they promise.
        reduce_us_per_kb: for 1e3 bytes that arrive and are combined with the reader's own.
    """

    call_us: float = 10.0  # Ascend msmodeling, tensor_cast/device.py: cost of an operator on A3
    message_us: float = 1.0  # CANN hccl, op_common/selector/cost_model.cc: a task of the AIV engine
    turn_us: float = 0.0
    latency_share: float = 1.0
    wire_share: float = 1.0
    reduce_us_per_kb: float = 1 / 483.0  # the same file: local reduce of 483 GB/s


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParameters(Parameters):
    """The native executor on shared memory. Costs of bytes are microseconds for 1e3 bytes, which is 1/(GB/s).

    *cached* is what an L2 holds, *shared* what the L3 holds, *memory* what no cache holds. *near* is the outbox of a
    rank on the same core, *far* that of a rank on another one. An outbox that stays in the L2 from one use of a slot to
    the next is shared with the caches of its readers, from which the writer has to take it back: that is why
    outbox_cached costs more than outbox_shared. Two ranks that swap their outboxes pay output_ for writing there, and
    far_shared for reading what a cache holds.

    The defaults are those of a 2-core virtual machine (AMD Zen 4, 1 MiB of L2 a core, 32 MiB of L3), fitted by
    benchmarks/fidelity.py; ``fit_host`` replaces them by what a host's own trials say.

    Args:
        message_us: to find a message that is there; on cores of their own the way of a flag between them.
        bulk_us: the same, beside that, for a message of 4 KiB or more: its first lines come one after the other.
        switch_us: of a core in each wave, for each rank on it, where there are several.
        crowd_us: the same, for each ordered pair of ranks on a core: the more ranks, the more looks that find nothing.
        read_cached: of own input, output and scratch, like the other two.
        outbox_cached: writing to the own outbox, like the other two.
        output_cached: writing to own output and scratch, like the other two.
        output_streamed: writing past the caches.
    """

    message_us: float = 0.0811
    bulk_us: float = 0.5
    switch_us: float = 0.374
    crowd_us: float = 0.487
    read_cached: float = 0.0197
    read_shared: float = 0.0206
    read_memory: float = 0.0615
    near_cached: float = 0.0
    near_shared: float = 0.0406
    near_memory: float = 0.0307
    far_cached: float = 0.0016
    far_shared: float = 0.0202
    far_memory: float = 0.0531
    outbox_cached: float = 0.0852
    outbox_shared: float = 0.0217
    outbox_memory: float = 0.0334
    output_cached: float = 0.0035
    output_shared: float = 0.0066
    output_memory: float = 0.0627
    output_streamed: float = 0.0165
