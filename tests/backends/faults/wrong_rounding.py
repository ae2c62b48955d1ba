"""A worker whose kernel is right for whole numbers, and on rank 1 off by one rounding for others."""

from __future__ import annotations

import sys

import numpy as np

from autotune.backends import worker
from autotune.backends.random_check import RandomCheck
from autotune.kernels import Communicator, Shape, _native


class _Rounding:
    """The native group, its results moved by the last bit where they are no whole numbers."""

    def __init__(self, group: _native.Group) -> None:
        self._group = group

    def run(self, call: _native.Call, source: memoryview, target: memoryview) -> None:
        self._group.run(call, source, target)
        values = np.frombuffer(target, np.float32)
        values.view(np.uint32)[values != np.floor(values)] ^= 1


class _Comm:
    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self.group = _Rounding(comm.group) if comm.rank == 1 else comm.group

    def __getattr__(self, name: str) -> object:
        return getattr(self._comm, name)


class WrongRounding(RandomCheck):
    def wrong(self, shape: Shape, call: _native.Call, source: memoryview, target: memoryview) -> str | None:
        self._comm = _Comm(self._comm) if isinstance(self._comm, Communicator) else self._comm  # type: ignore[assignment]
        return super().wrong(shape, call, source, target)


worker.RandomCheck = WrongRounding  # type: ignore[attr-defined]  # Worker makes this one
worker.main(sys.argv[1:])
