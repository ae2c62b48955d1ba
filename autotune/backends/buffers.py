"""Buffers for trials: page-aligned, kept and grown, so that a sample does not pay for fresh pages.

In:  a call and how many buffers of each kind. Out: views of exactly the call's sizes.
May not touch: what is in them.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import Communicator, Shape, _native
from ..types import Collective

Views = list[memoryview]
Take = Callable[[Shape, _native.Call, int], tuple[Views, Views]]
"""(shape, call, n) -> n input buffers and n output buffers."""


class PrivateBuffers:
    """Memory of this process alone."""

    def __init__(self) -> None:
        self._maps: dict[tuple[str, int], mmap.mmap] = {}

    def take(self, shape: Shape, call: _native.Call, n: int) -> tuple[Views, Views]:
        """See `Take`."""
        item = shape.dtype.itemsize
        outputs = [self._view("output", i, call.output_elements * item) for i in range(n)]
        if shape.collective is Collective.BROADCAST:  # in place, as Communicator.broadcast and MPI_Bcast are
            return [output[: call.input_elements * item] for output in outputs], outputs
        return [self._view("input", i, call.input_elements * item) for i in range(n)], outputs

    def _view(self, role: str, index: int, size: int) -> memoryview:
        known = self._maps.get((role, index))
        if known is None or len(known) < size:
            self._maps[(role, index)] = known = mmap.mmap(-1, max(size, mmap.PAGESIZE))
            np.frombuffer(known, np.uint8)[:: mmap.PAGESIZE] = 0
        return memoryview(known)[:size]


class SymmetricBuffers:
    """Symmetric memory of a group; every rank takes the same, in the same order. A broadcast's root sends in place."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._arrays: dict[tuple[str, int], np.ndarray[Any, Any]] = {}

    def take(self, shape: Shape, call: _native.Call, n: int) -> tuple[Views, Views]:
        """See `Take`."""
        item = shape.dtype.itemsize
        largest = shape.message_bytes(self._comm.n_ranks)
        outputs = [self._array("output", i, largest) for i in range(n)]
        in_place = shape.collective is Collective.BROADCAST
        inputs = outputs if in_place else [self._array("input", i, largest) for i in range(n)]
        return (
            [array.data[: call.input_elements * item] for array in inputs],
            [array.data[: call.output_elements * item] for array in outputs],
        )

    def _array(self, role: str, index: int, size: int) -> np.ndarray[Any, Any]:
        known = self._arrays.get((role, index))
        if known is None or known.nbytes < size:
            if known is not None:
                self._comm.free(known)
            self._arrays[role, index] = known = self._comm.allocate(max(1, size), "uint8")
        return known
