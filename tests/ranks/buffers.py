"""The buffers of one call on one rank, in private or symmetric memory, and the call as a job makes it.

In:  a call, a rank. Out: its input, filled, and its output, poisoned, each between guards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ranks.cases import Call
from spec import STORAGE, Array

from autotune.kernels import Communicator
from autotune.types import Collective, DType

_GUARD = 96
_GUARD_BYTE, POISON = 0x5A, 0xA5


class Buffer:
    """An array between guards, at a chosen distance from a 64-byte line.

    Args:
        memory: where it begins; memory of its own if None.
    """

    def __init__(self, length: int, dtype: DType, shift: int, memory: Array | None = None) -> None:
        size = length * dtype.itemsize
        self.room = size + 2 * _GUARD + 128
        self._raw = np.empty(self.room, np.uint8) if memory is None else memory[: self.room]
        self._raw[:] = _GUARD_BYTE
        start = _GUARD + (shift - (self._raw.ctypes.data + _GUARD)) % 64
        self.array: Array = self._raw[start : start + size].view(STORAGE[dtype])
        self.bytes: Array = self._raw[start : start + size]
        self._around = np.r_[0:start, start + size : self._raw.size]

    def guards_whole(self) -> bool:
        return bool((self._raw[self._around] == _GUARD_BYTE).all())


def buffers_of(call: Call, mine: Array, n: int, rank: int, arena: Array | None) -> tuple[Buffer | None, Buffer | None]:
    """This rank's input, filled, and its output, poisoned; None where it has none.

    In the arena every rank has an output, and it comes first, since its size is that of all ranks.
    """
    reads = not (call.collective in (Collective.BROADCAST, Collective.SCATTER) and rank != call.root)
    writes = call.symmetric or not (call.collective in (Collective.REDUCE, Collective.GATHER) and rank != call.root)
    input_elements, output_elements = call.elements(n)
    memory = None if arena is None else arena[call.place :]
    target = Buffer(output_elements, call.dtype, call.shift, memory) if writes else None
    memory = None if memory is None or target is None else memory[target.room :]
    source = Buffer(input_elements, call.dtype, call.shift, memory) if reads else None
    if target:
        target.bytes[:] = POISON
    if call.in_place and source and target:
        part = slice(rank * call.count, (rank + 1) * call.count)
        if call.collective in (Collective.ALL_GATHER, Collective.GATHER):
            source.array = target.array[part]
        elif call.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER):
            target.array = source.array[part]
        else:
            source.array = target.array
    if source:
        source.array[:] = mine
    return source, target


def call_method(comm: Communicator, call: Call, source: Buffer | None, target: Buffer | None) -> None:
    """The collective as a job calls it."""
    assert target
    array = (source or target).array
    alone = source is None or source.array is target.array
    words: dict[str, Any] = {"dtype": call.dtype, "config": call.config}
    match call.collective:
        case Collective.ALL_REDUCE:
            comm.all_reduce(array, call.op, out=None if alone else target.array, **words)
        case Collective.REDUCE:
            comm.reduce(array, call.op, root=call.root, out=None if alone else target.array, **words)
        case Collective.BROADCAST:
            comm.broadcast(target.array, call.root, **words)
        case Collective.REDUCE_SCATTER:
            comm.reduce_scatter(array, target.array, call.op, **words)
        case Collective.ALL_GATHER:
            comm.all_gather(array, target.array, **words)
        case Collective.ALL_TO_ALL:
            comm.all_to_all(array, target.array, **words)
        case other:
            raise ValueError(f"{other.value} has a buffer on the root only")
