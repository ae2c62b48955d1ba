"""The second check of a config: random values, where patterns of whole numbers would not show a rounding that differs.

In:  a communicator, a call's shape, what makes the call. Out: None, or what is wrong, the same words on every rank.
May not touch: clocks. Inputs are seeded by rank, so that every rank knows all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..kernels import Communicator, Shape
from ..types import Collective, Config, DType, ReduceOp

# Unit roundoff of the format that values are rounded to between hops (IEEE 754-2019, table 3.1; bfloat16: 8 bits).
_ROUNDOFF = {DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8, DType.FLOAT32: 2.0**-24, DType.FLOAT64: 2.0**-53}
_NUMPY = {DType.FLOAT16: np.float16, DType.FLOAT32: np.float32, DType.FLOAT64: np.float64}
_MOST_BYTES = 4 << 20  # the check of larger messages costs more than their race; their plans differ in length only
_DIRECT = Config(algorithm="direct", segment_bytes=65536)


class RandomCheck:
    """Keeps the last shape's inputs and exact sums, since all configs of a cell share them."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._shape: Shape | None = None
        self._mine: NDArray[np.generic] = np.empty(0)
        self._exact: NDArray[np.float64] = np.empty(0)
        self._scale = 0.0

    def wrong(self, shape: Shape, run: Callable[[], object], source: memoryview, target: memoryview) -> str | None:
        """Run once on random input: identical bytes on all ranks, and a sum within rounding of the float64 sum.

        Args:
            run: makes the call once.
            source, target: its buffers, which are overwritten.
        """
        if shape.collective is not Collective.ALL_REDUCE or shape.dtype not in _ROUNDOFF:
            return None  # what only moves is checked by the pattern; a scattered sum has no twin to differ from
        if shape.op is not ReduceOp.SUM or shape.count * shape.dtype.itemsize > _MOST_BYTES:
            return None
        self._prepare(shape)
        np.frombuffer(source, self._mine.dtype)[:] = self._mine
        run()
        out = np.frombuffer(target, self._mine.dtype)
        comm = self._comm
        mine = np.zeros(2)
        mine.view(np.uint64)[0] = digest(out)
        # n - 1 additions, each rounded once, of partial sums that are no larger than the sum of the largest sizes.
        limit = comm.n_ranks * _ROUNDOFF[shape.dtype] * self._scale
        mine[1] = float(np.abs(wide(out, shape.dtype) - self._exact).max(initial=0.0)) > limit
        everyone = np.zeros((comm.n_ranks, 2))
        comm.all_gather(mine, everyone, config=_DIRECT)
        inexact = np.flatnonzero(everyone[:, 1])
        if inexact.size:
            return f"rank {inexact[0]} is off by more than rounding ({limit:.3g}) from the float64 sum of random values"
        digests = everyone.view(np.uint64)[:, 0]
        if (digests != digests[0]).any():
            other = int(np.flatnonzero(digests != digests[0])[0])
            return f"ranks 0 and {other} hold different bytes after the same all_reduce of random values"
        return None

    def _prepare(self, shape: Shape) -> None:
        if shape == self._shape:
            return
        self._shape = shape
        self._exact = np.zeros(shape.count)
        self._scale = 0.0
        for rank in range(self._comm.n_ranks):
            values = _random(shape, rank)
            widened = wide(values, shape.dtype)
            self._exact += widened
            self._scale += float(np.abs(widened).max(initial=0.0))
            if rank == self._comm.rank:
                self._mine = values


def _random(shape: Shape, rank: int) -> NDArray[np.generic]:
    """Values in [-1, 1) as the type stores them; bfloat16 as the upper half of float32."""
    values = np.random.default_rng([7, rank]).random(shape.count, np.float32) * 2 - 1
    if shape.dtype is DType.BFLOAT16:
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(_NUMPY[shape.dtype])


def wide(values: NDArray[np.generic], dtype: DType) -> NDArray[np.float64]:
    """Stored elements as float64."""
    if dtype is DType.BFLOAT16:
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values.astype(np.float64)


def digest(values: NDArray[np.generic]) -> int:
    """A 64-bit sum in which every word counts differently: bytes that differ by rounding do not cancel."""
    raw = values.tobytes()
    words = np.frombuffer(raw + b"\0" * (-len(raw) % 8), np.uint64)
    return int((words * (np.arange(words.size, dtype=np.uint64) * np.uint64(2) + np.uint64(1))).sum(dtype=np.uint64))
