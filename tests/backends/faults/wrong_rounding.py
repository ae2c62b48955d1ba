"""A worker whose kernel is right for whole numbers, and on rank 1 off by one rounding for others."""

from __future__ import annotations

import sys

import numpy as np

from autotune.backends import worker
from autotune.backends.random_check import RandomCheck
from autotune.kernels import Communicator, Shape, _native
from autotune.types import Config


class _Rounding:
    """The native group, its results moved by the last bit where they are no whole numbers."""

    def __init__(self, group: _native.Group) -> None:
        self._group = group

    def run(self, call: _native.Call, source: object, target: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
        self._group.run(call, source, target)
        if target.dtype == np.float32:
            bits = target.view(np.uint32)
            bits[target != np.floor(target)] ^= 1


class _Comm:
    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.group = _Rounding(comm.group) if comm.rank == 1 else comm.group

    def __getattr__(self, name: str) -> object:
        return getattr(self._comm, name)


class WrongRounding(RandomCheck):
    def wrong(self, shape: Shape, config: Config) -> str | None:
        self._comm = _Comm(self._comm) if isinstance(self._comm, Communicator) else self._comm  # type: ignore[assignment]
        return super().wrong(shape, config)


worker.RandomCheck = WrongRounding  # type: ignore[attr-defined]  # Worker makes this one
worker.main(sys.argv[1:])
