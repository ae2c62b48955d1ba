"""What ranks of torch.distributed agree on beside a trial, and how: times, barriers, whether an answer was right.

In:  arrays of the host. Out: the same on all ranks. On one host that goes over the native executor's shared memory, so
that it neither wakes torch's threads nor moves the caches and connections that are timed; on several hosts see
autotune/launch/torch_rank.py.
May not touch: trials.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch.distributed as dist

from ..kernels import Communicator
from ..types import Config, ReduceOp

_TELL = Config(algorithm="flat", segment_bytes=4096)

Buffer = np.ndarray[Any, Any]  # Any: of every shape and type


class Agreement(Protocol):
    """How ranks agree on what is beside the trial; the methods are those of `Communicator`.

    Args:
        local_rank: on this rank's host, which is the number of its device.
    """

    rank: int
    n_ranks: int
    local_rank: int

    def store(self) -> dist.Store:
        """Where torch's ranks find each other."""
        ...

    def meet(self) -> None:
        """Called once torch's ranks have found each other."""
        ...

    def barrier(self) -> None:
        """All ranks are here."""
        ...

    def all_reduce(self, values: Buffer, op: ReduceOp, *, config: Config) -> None:
        """In place."""
        ...

    def all_gather(self, values: Buffer, out: Buffer, *, config: Config) -> None:
        """Into a row a rank."""
        ...


class SharedMemory:
    """Implements `Agreement` on one host, over the native executor."""

    def __init__(self, native: Communicator) -> None:
        self._native = native
        self.rank = self.local_rank = native.rank
        self.n_ranks = native.n_ranks

    def store(self) -> dist.Store:
        """Served by rank 0, on a port that it tells."""
        port = np.zeros(1, np.int64)
        store = None
        if self.rank == 0:
            store = dist.TCPStore("127.0.0.1", 0, self.n_ranks, True, wait_for_workers=False)
            port[0] = store.port
        self._native.broadcast(port, config=_TELL)
        return store or dist.TCPStore("127.0.0.1", int(port[0]), self.n_ranks, False)

    def meet(self) -> None:
        """Nothing: they have."""

    def barrier(self) -> None:
        """See `Agreement`."""
        self._native.barrier()

    def all_reduce(self, values: Buffer, op: ReduceOp, *, config: Config) -> None:
        """See `Agreement`."""
        self._native.all_reduce(values, op, config=config)

    def all_gather(self, values: Buffer, out: Buffer, *, config: Config) -> None:
        """See `Agreement`."""
        self._native.all_gather(values, out, config=config)
