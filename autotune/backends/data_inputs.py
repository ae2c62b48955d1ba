"""Trials on given data: what a config makes of it against float64, and then the same bytes again every time.

In:  a communicator, a shape, the word of the data. Out: `Fidelity` of a config, or what is wrong, alike on every rank;
inputs and checks for timing, with the methods of `inputs.Inputs`. May not touch: clocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import Communicator, Shape, _native
from ..kernels.codecs import BLOCK, Codec
from ..types import Collective, Config, DType, Fidelity
from .data import elements_of
from .random_check import digest, wide

_PIECE = 4096  # bytes
_TILE = 4096 * BLOCK  # elements that are summed in float64 at a time
_RING = Config(algorithm="ring", segment_bytes=262144)
_DIRECT = Config(algorithm="direct", segment_bytes=65536)


class DataInputs:
    """One shape's data. Every config that is timed on it was run once by `fidelity`, which remembers its result."""

    def __init__(self, comm: Communicator, shape: Shape, word: str) -> None:
        self._comm = comm
        self._shape = shape
        count = shape.count * (comm.n_ranks if shape.collective.splits_by_rank else 1)
        self._mine = elements_of(word, comm.rank, count, shape.dtype)
        self._right: dict[Config, NDArray[np.uint64]] = {}
        self._config = _DIRECT

    def known(self, config: Config) -> bool:
        """Whether `fidelity` has run it, and nobody forgot it since. Then `first_wrong` compares with what came out."""
        self._config = config
        return config in self._right

    def forget(self, config: Config) -> None:
        """What came out of this config is not to be timed."""
        del self._right[config]

    def rewrite(self, inputs: Sequence[memoryview], outputs: Sequence[memoryview], batch: int) -> None:
        """Fill the inputs, the same in every batch, and poison the outputs."""
        for source, target in zip(inputs, outputs, strict=True):
            _native.poison(target)
            np.frombuffer(source, self._mine.dtype)[:] = self._mine

    def first_wrong(self, outputs: Sequence[memoryview], batch: int) -> tuple[int, float, float] | None:
        """(index, got, NaN) of the start of the first piece whose bytes are not those of the first run."""
        for target in outputs:
            differ = (
                np.flatnonzero(_marks(target) != self._right[self._config]) if self._has_output else np.zeros(0, int)
            )
            if differ.size:
                got = np.frombuffer(target, self._mine.dtype)
                index = int(differ[0]) * _PIECE // got.itemsize
                return index, float(got[index]), math.nan
        return None

    def fidelity(self, call: _native.Call, config: Config, source: memoryview, target: memoryview) -> Fidelity | str:
        """Run once; how far the result is off, or how ranks differ."""
        self.rewrite([source], [target], 0)
        self._comm.group.run(call, source, target)
        self._right[config], self._config = _marks(target), config
        got = np.frombuffer(target, self._mine.dtype)
        off, size = self._distance(got)
        mine = np.array([off, size, self._kept(config), float(self._mine.size), 0.0])
        mine.view(np.uint64)[4] = digest(got)
        everyone = np.zeros((self._comm.n_ranks, mine.size))
        self._comm.all_gather(mine, everyone, config=_DIRECT)
        digests = everyone.view(np.uint64)[:, 4]
        if self._shape.collective is Collective.ALL_REDUCE and (digests != digests[0]).any():
            other = int(np.flatnonzero(digests != digests[0])[0])
            return f"ranks 0 and {other} hold different bytes after the same all_reduce of the data"
        # An all_reduce's error is that of any rank, a scattered sum's that of all parts together.
        together = np.sum if self._shape.collective is Collective.REDUCE_SCATTER else np.max
        off, size = float(together(everyone[:, 0])), float(together(everyone[:, 1]))
        error = math.sqrt(off / size) if size else (math.inf if off else 0.0)
        return Fidelity(error=error, density=float(everyone[:, 2].sum() / everyone[:, 3].sum()))

    @property
    def _has_output(self) -> bool:
        return self._shape.collective is not Collective.REDUCE or self._comm.rank == self._shape.root

    def _distance(self, got: NDArray[Any]) -> tuple[float, float]:
        """Squares of the norms of this rank's error and of what is exact, from sums in float64."""
        shape, off, size = self._shape, 0.0, 0.0
        begin = self._comm.rank * shape.count if shape.collective is Collective.REDUCE_SCATTER else 0
        for first in range(0, self._mine.size, _TILE):
            exact = wide(self._mine[first : first + _TILE], shape.dtype)
            self._comm.all_reduce(exact, shape.op, config=_RING)
            low, high = max(first, begin), min(first + exact.size, begin + shape.count)
            if low < high and self._has_output:
                part = exact[low - first : high - first]
                off += float(np.square(wide(got[low - begin : high - begin], shape.dtype) - part).sum())
                size += float(np.square(part).sum())
        return off, size

    def _kept(self, config: Config) -> float:
        """How many of this rank's entries are not zero once encoded."""
        codec, kept = Codec.parse(config.codec), 0
        for first in range(0, self._mine.size, _TILE):
            tile = self._mine[first : first + _TILE]
            if codec.lossy:
                encoded = np.empty_like(tile)
                codec.native(self._shape.dtype).requantise(tile, encoded)
                tile = encoded
            kept += int(np.count_nonzero(tile & 0x7FFF if self._shape.dtype is DType.BFLOAT16 else tile))
        return float(kept)


def _marks(data: memoryview) -> NDArray[np.uint64]:
    """A number for each piece of a buffer; different bytes give different ones, but for chance."""
    raw = np.frombuffer(data, np.uint8)
    words = np.zeros(-(-max(1, raw.size) // _PIECE) * _PIECE, np.uint8)
    words[: raw.size] = raw
    rows = words.view(np.uint64).reshape(-1, _PIECE // 8)
    odd = np.arange(1, _PIECE // 4, 2, dtype=np.uint64)
    return np.asarray((rows * odd).sum(axis=1), np.uint64)
