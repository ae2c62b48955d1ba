"""Inputs whose right answer is exact, and the check of outputs against them.

In:  a call's shape and a rank; buffers. Out: filled buffers; the first wrong element.
May not touch: the group. Every rank can say what every other rank's input is.

Element i of rank r's input in batch b follows from v = (i + 13 r + 5 b) mod m, with m so small that the sum of all
ranks is exact in the element type. Sums, and collectives that only move, use v itself and are filled and compared by
the native code at the speed of memory; max and min use v too, products use v mod 2 + 1, both by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Shape, _native
from ..kernels.programs import DTYPE_NUMBER
from ..measure import exact_modulus
from ..types import Collective, DType, ReduceOp

LARGEST_MODULUS = 61  # prime: no block size is a multiple of it

Array = NDArray[Any]  # of whichever type the shape has

_COMBINED: dict[ReduceOp, Callable[[Array], Array]] = {
    ReduceOp.MAX: lambda stacked: stacked.max(axis=0),
    ReduceOp.MIN: lambda stacked: stacked.min(axis=0),
    ReduceOp.PROD: lambda stacked: stacked.prod(axis=0),
}


class Inputs:
    """One rank's view of a shape's inputs and right answers."""

    def __init__(self, shape: Shape, rank: int, n_ranks: int) -> None:
        self._shape = shape
        self._rank = rank
        self._modulus = min(LARGEST_MODULUS, exact_modulus(shape.dtype, n_ranks))
        self._parts = expected_parts(shape, rank, n_ranks)
        self._native = not shape.collective.computes or shape.op is ReduceOp.SUM

    def rewrite(self, inputs: Sequence[memoryview], outputs: Sequence[memoryview], batch: int) -> None:
        """Fill the inputs, buffer k as of batch + k, and poison the outputs."""
        for at, (source, target) in enumerate(zip(inputs, outputs, strict=True)):
            _native.poison(target)
            if self._native:
                _native.fill(source, DTYPE_NUMBER[self._shape.dtype], self._modulus, batch + at, self._rank, 0)
            else:
                period = _stored(self._values([self._rank], 0, batch + at)[0], self._shape.dtype)
                values = np.frombuffer(source, period.dtype)
                values[:] = np.resize(period, values.size)

    def first_wrong(self, outputs: Sequence[memoryview], batch: int) -> tuple[int, float, float] | None:
        """(index, got, expected) of the first wrong element; 16-bit floats are given as their bits."""
        item = self._shape.dtype.itemsize
        for at, target in enumerate(outputs):
            for ranks, first, start, length in self._parts:
                part = target[start * item : (start + length) * item]
                wrong = (self._wrong_sum if self._native else self._wrong_other)(part, ranks, first, batch + at)
                if wrong is not None:
                    index, got, expected = wrong
                    return start + index, got, expected
        return None

    def _wrong_sum(self, part: memoryview, ranks: list[int], first: int, batch: int) -> tuple[int, float, float] | None:
        dtype = DTYPE_NUMBER[self._shape.dtype]
        index = _native.first_wrong(part, dtype, self._modulus, batch, ranks, first)
        if index < 0:
            return None
        got, expected = _native.got_and_expected(part, dtype, self._modulus, batch, ranks, first, index)
        return index, got, expected

    def _wrong_other(
        self, part: memoryview, ranks: list[int], first: int, batch: int
    ) -> tuple[int, float, float] | None:
        combined = _COMBINED[self._shape.op](self._values(ranks, first, batch))
        period = _stored(combined, self._shape.dtype)
        got = np.frombuffer(part, period.dtype)
        expected = np.resize(period, got.size)
        wrong = np.flatnonzero(got != expected)
        if not wrong.size:
            return None
        index = int(wrong[0])
        return index, float(got[index]), float(expected[index])

    def _values(self, ranks: Sequence[int], first: int, batch: int) -> Array:
        """One period of the inputs of some ranks, shape (ranks, modulus), as whole numbers."""
        index = np.arange(first, first + self._modulus)
        values = (index + 13 * np.array(ranks)[:, None] + 5 * batch) % self._modulus
        if self._shape.op is ReduceOp.PROD:
            values = values % 2 + 1
        return np.asarray(values)


def expected_parts(shape: Shape, rank: int, n_ranks: int) -> list[tuple[list[int], int, int, int]]:
    """What a rank's output holds: (ranks whose inputs are combined, first element of theirs, start here, length)."""
    everyone, count = list(range(n_ranks)), shape.count
    match shape.collective:
        case Collective.ALL_REDUCE:
            return [(everyone, 0, 0, count)]
        case Collective.REDUCE:
            return [(everyone, 0, 0, count)] if rank == shape.root else []
        case Collective.REDUCE_SCATTER:
            return [(everyone, rank * count, 0, count)]
        case Collective.BROADCAST:
            return [([shape.root], 0, 0, count)]
        case Collective.SCATTER:
            return [([shape.root], rank * count, 0, count)]
        case Collective.ALL_GATHER:
            return [([source], 0, source * count, count) for source in everyone]
        case Collective.GATHER:
            return [([source], 0, source * count, count) for source in everyone] if rank == shape.root else []
        case Collective.ALL_TO_ALL:
            return [([source], rank * count, source * count, count) for source in everyone]


def _stored(values: Array, dtype: DType) -> Array:
    """Whole numbers as the type holds them (integers wrap); bfloat16 as the upper half of float32, which is exact."""
    if dtype is DType.BFLOAT16:
        return np.right_shift(values.astype(np.float32).view(np.uint32), 16).astype(np.uint16)
    return values.astype(dtype.value)
