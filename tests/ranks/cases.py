"""One call of a collective as a plain value: what to run, on which inputs.

A call travels to the ranks as JSON. Inputs are not sent: every process makes them from the seed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from spec import FLOATS, STORAGE, Array, stored

from autotune.types import SHARED_CORES, Collective, Config, DType, KnobValue, ReduceOp

Values = Literal["exact", "random", "special", "biased", "nan"]

_SPECIAL = (0.0, -0.0, 1.0, -2.0, float("inf"), float("-inf"), float("nan"), -float("nan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Everything that decides a call's result and the way to it.

    Args:
        count: elements; of one rank's part where the collective splits by rank.
        values: ``exact``: every reduction is exact in any order (integers: any bits, since they wrap).
            ``random``: floats that round. ``special``: floats with infinities, NaN and -0.0.
            ``biased``: a few large floats among many of a small size, all positive. ``nan``: NaN.
        in_place: input and output share memory, where the collective allows it.
        shift: buffers start so many bytes after a multiple of 64.
        symmetric: buffers lie in symmetric memory, `place` bytes behind the start of an array that the calls of a group
            share, and the call is made by the communicator's own method.
        shared_cores: the algorithm where ranks share cores.
    """

    collective: Collective
    algorithm: str
    dtype: DType = DType.FLOAT32
    op: ReduceOp = ReduceOp.SUM
    root: int = 0
    count: int = 1
    segment_bytes: int = 4096
    slices_in_flight: int = 4
    stores: str = "cached"
    values: Values = "exact"
    seed: int = 0
    in_place: bool = False
    shift: int = 0
    symmetric: bool = False
    place: int = 0
    exchange: str = "staged"
    codec: str = "none"
    shared_cores: str | None = None

    def to_json(self) -> dict[str, Any]:
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {name: fields[name].value for name in ("collective", "dtype", "op")}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Call:
        words = {
            "collective": Collective(fields["collective"]),
            "dtype": DType(fields["dtype"]),
            "op": ReduceOp(fields["op"]),
        }
        return cls(**(fields | words))

    @property
    def config(self) -> Config:
        knobs: tuple[tuple[str, KnobValue], ...] = (
            ("exchange", self.exchange),
            *([] if self.shared_cores is None else [(SHARED_CORES, self.shared_cores)]),
            ("slices_in_flight", self.slices_in_flight),
            ("stores", self.stores),
        )
        return Config(algorithm=self.algorithm, segment_bytes=self.segment_bytes, codec=self.codec, knobs=knobs)

    def elements(self, n: int) -> tuple[int, int]:
        """Elements of a rank's input and output, where it has them."""
        splits_input = self.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.ALL_TO_ALL)
        fills_output = self.collective in (Collective.ALL_GATHER, Collective.GATHER, Collective.ALL_TO_ALL)
        return self.count * (n if splits_input else 1), self.count * (n if fills_output else 1)

    def inputs(self, n: int) -> list[Array]:
        """All ranks' inputs."""
        length, _ = self.elements(n)
        return [_elements(np.random.default_rng([self.seed, rank]), length, self) for rank in range(n)]


def _elements(rng: np.random.Generator, length: int, call: Call) -> Array:
    dtype = call.dtype
    if dtype not in FLOATS:
        return rng.integers(0, 256, length * dtype.itemsize, np.uint8).view(STORAGE[dtype])
    if call.values == "special":
        return stored(rng.choice(np.array(_SPECIAL, np.float32), length), dtype)
    if call.values == "nan":
        return stored(np.full(length, np.nan), dtype)
    if call.values == "biased":
        return stored(np.where(rng.random(length) < 0.02, 8.0, 0.03) * rng.uniform(0.5, 1.5, length), dtype)
    if call.values == "random":
        # Products of nine such factors stay normal in float16; sums cancel.
        signs = rng.choice(np.array([-1.0, 1.0]), length)
        return stored(signs * rng.uniform(0.5, 2.0, length), dtype)
    if call.op is ReduceOp.PROD and call.collective.computes:
        return stored(rng.choice(np.array([-1.0, 1.0, 0.5, -2.0]), length), dtype)
    return stored(rng.integers(-9, 10, length).astype(np.float32), dtype)
