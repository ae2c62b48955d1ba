"""Symmetric memory: arrays that every rank of a group has at the same place of its part of the shared segment.

In:  shapes, from all ranks alike. Out: arrays, and whether a call's buffers lie in them. Every rank allocates and frees
in the same order, so that offsets are equal without anybody handing them out; each such call compares them.
May not touch: what runs on the arrays.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UsageError
from ..types import Collective, Memory
from ..units import format_bytes
from .buffers import n_bytes

if TYPE_CHECKING:
    from . import _native
    from .buffers import Buffer

ALIGNMENT = 4096
"""Buffers begin on pages of their own, so that a freed one can go back to the system."""


class Heap:
    """Offsets in use, first fit.

    Args:
        size: bytes of one rank's symmetric memory.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._used: dict[int, int] = {}  # offset -> bytes, by offset

    def __bool__(self) -> bool:
        return bool(self._used)

    @property
    def used_bytes(self) -> int:
        return sum(self._used.values())

    def reserve(self, size: int) -> int | None:
        """The offset of a new buffer; None where no gap is large enough."""
        wanted = max(1, -(-size // ALIGNMENT)) * ALIGNMENT
        at = 0
        for offset, length in self._used.items():
            if offset - at >= wanted:
                break
            at = offset + length
        if at + wanted > self.size:
            return None
        self._used = dict(sorted([*self._used.items(), (at, wanted)]))
        return at

    def length(self, offset: int) -> int | None:
        """Bytes of the buffer that begins here, in whole pages; None where none begins."""
        return self._used.get(offset)

    def release(self, offset: int) -> None:
        """Free the buffer that begins here."""
        del self._used[offset]


class Placing(enum.Enum):
    """Where the buffers of a call lie. A broadcast is always in place."""

    PRIVATE = (Memory.PRIVATE, False)
    SYMMETRIC = (Memory.SYMMETRIC, False)
    SYMMETRIC_IN_PLACE = (Memory.SYMMETRIC, True)

    @property
    def memory(self) -> Memory:
        return self.value[0]

    @property
    def in_place(self) -> bool:
        return self.value[1]


PRIVATE = Placing.PRIVATE

_SHARING = frozenset(Collective) - {Collective.SCATTER, Collective.GATHER}
_COUNTABLE = 1 << 62  # bytes that a number in an exchange can say; no memory is larger
_Numbers = np.ndarray[Any, np.dtype[np.int64]]
Everyones = Callable[[_Numbers], _Numbers]
"""All ranks' copies of an array of numbers, one after the other."""


class SymmetricMemory:
    """One rank's arrays in symmetric memory; true while there are any.

    Args:
        group: whose segment it is.
        room_bytes: how much memory this host can still give; None where that is not known.
    """

    def __init__(self, group: _native.Group, room_bytes: Callable[[], int | None]) -> None:
        self._group, self._room_bytes = group, room_bytes
        self._heap = Heap(group.symmetric_bytes)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def allocate(self, sides: tuple[int, ...], dtype: np.dtype[Any], everyones: Everyones) -> np.ndarray[Any, Any]:
        """See `Communicator.allocate`."""
        size = math.prod(sides) * dtype.itemsize
        offset = self._heap.reserve(size) if min(sides, default=0) >= 0 else None
        try:
            self._agree(size, offset, everyones)
            assert offset is not None  # _agree has seen it
            array = self._group.symmetric(offset, size).view(dtype).reshape(sides)
        except BaseException:
            if offset is not None:
                self._heap.release(offset)
            raise
        array.fill(0)  # the pages are this rank's from now on, wherever it runs
        return array

    def _agree(self, size: int, offset: int | None, everyones: Everyones) -> None:
        room = self._room_bytes()
        mine = np.array(
            [min(size, _COUNTABLE), -1 if offset is None else offset, -1 if room is None else room], np.int64
        )
        everyone = everyones(mine)
        for field, what in enumerate(("bytes asked for", "place in symmetric memory")):
            values = everyone[:, field].tolist()
            if len(set(values)) > 1:
                other = next(rank for rank, value in enumerate(values) if value != values[0])
                raise UsageError(
                    f"allocate: ranks 0 and {other} differ in {what}: {values[0]} and {values[other]}",
                    remedy="allocate and free the same arrays in the same order on every rank",
                )
        if offset is None:
            raise UsageError(
                f"allocate: {size} bytes do not fit into symmetric memory, of which "
                f"{format_bytes(self._heap.used_bytes)} of {format_bytes(self._heap.size)} are in use",
                remedy="free arrays, or raise AUTOTUNE_SYMMETRIC",
            )
        wanted = size * len(everyone)
        rooms = [room for room in everyone[:, 2].tolist() if room >= 0]
        if rooms and wanted > min(rooms):
            raise UsageError(
                f"allocate: {len(everyone)} ranks ask for {format_bytes(wanted)} together, and "
                f"{format_bytes(min(rooms))} of memory are left",
                remedy="ask for less, or raise the memory limit of the container",
            )

    def free(self, array: np.ndarray[Any, Any], everyones: Everyones) -> None:
        """See `Communicator.free`."""
        place = self._group.place(array)
        length = None if place is None else self._heap.length(place)
        everyone = everyones(np.array([-1 if length is None else place], np.int64))[:, 0]
        if place is None or length is None or (everyone != place).any():
            raise UsageError(
                f"free: places in symmetric memory by rank: {everyone.tolist()} (-1 is no array of allocate)",
                remedy="free what allocate returned, the same array on every rank",
            )
        self._heap.release(place)
        self._group.forget(place, length)

    def placing(self, collective: Collective, array: Buffer | None, out: Buffer | None) -> Placing:
        """Where the buffers of a call lie; both or none are in symmetric memory."""
        if collective not in _SHARING or array is None or out is None:
            return PRIVATE
        place, target = self._group.place(array), self._group.place(out)
        if place is None or target is None:
            return PRIVATE
        match collective:
            case Collective.ALL_GATHER:
                in_place = place == target + self._group.rank * n_bytes(array)
            case Collective.REDUCE_SCATTER:
                in_place = target == place + self._group.rank * n_bytes(out)
            case _:
                in_place = place == target
        return Placing.SYMMETRIC_IN_PLACE if in_place else Placing.SYMMETRIC
