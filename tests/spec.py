"""The truth: what every collective leaves on every rank, in NumPy. Executors, backends and simulators are held to it.

In:  all ranks' inputs as arrays. Out: all ranks' outputs. No ranks, no schedules, no code of the product but its words.

bfloat16 has no NumPy type: its elements are the upper halves of float32, stored as uint16, here and in the product.
Reductions combine ranks in the order 0, 1, ... . Other orders give the same bits where no step rounds (integers; whole
numbers that the type holds); elsewhere compare with `exact` and `tolerance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.types import Collective, DType, ReduceOp

Array = NDArray[Any]

STORAGE: dict[DType, np.dtype[Any]] = {
    dtype: np.dtype(np.uint16) if dtype is DType.BFLOAT16 else np.dtype(dtype.value) for dtype in DType
}
FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)

# Unit roundoff and smallest subnormal (IEEE 754-2019, table 3.5; bfloat16: 8 significant bits, float32's exponents).
_ROUNDOFF = {DType.FLOAT16: 2.0**-11, DType.BFLOAT16: 2.0**-8, DType.FLOAT32: 2.0**-24, DType.FLOAT64: 2.0**-53}
_TINY = {DType.FLOAT16: 2.0**-24, DType.BFLOAT16: 2.0**-133, DType.FLOAT32: 2.0**-149, DType.FLOAT64: 0.0}


def widened(values: Array, dtype: DType) -> Array:
    """Stored elements as numbers to compute with: 16-bit floats as float32, the others as they are."""
    if dtype is DType.BFLOAT16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values, np.float32) if dtype is DType.FLOAT16 else values


def stored(values: Array, dtype: DType) -> Array:
    """Numbers as stored elements, rounded once to nearest even; a NaN stays one."""
    if dtype is not DType.BFLOAT16:
        with np.errstate(over="ignore"):
            return values.astype(STORAGE[dtype])
    bits = np.atleast_1d(values.astype(np.float32)).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(nan, bits >> 16 | 0x40, rounded).astype(np.uint16).reshape(values.shape)


def combined(parts: Sequence[Array], op: ReduceOp, dtype: DType) -> Array:
    """One reduction of several sources, left to right.

    16-bit floats are added up in float32 and rounded once. Integers wrap; their average is the wrapped sum divided
    towards zero. max and min of anything and NaN are NaN.
    """
    with np.errstate(all="ignore"):
        result = widened(parts[0], dtype)
        for part in parts[1:]:
            other = widened(part, dtype)
            match op:
                case ReduceOp.SUM | ReduceOp.AVG:
                    result = result + other
                case ReduceOp.PROD:
                    result = result * other
                case ReduceOp.MAX:
                    result = np.maximum(result, other)
                case ReduceOp.MIN:
                    result = np.minimum(result, other)
        if op is ReduceOp.AVG:
            result = _divided(result, len(parts))
        return stored(result, dtype)


def _divided(values: Array, divisor: int) -> Array:
    if values.dtype.kind == "f":
        return np.asarray(values / values.dtype.type(divisor), values.dtype)
    # Towards zero, in Python's whole numbers, so that no NumPy rule of promotion is in between.
    quotients = [abs(int(v)) // divisor * (-1 if v < 0 else 1) for v in values.ravel()]
    return np.array(quotients, values.dtype).reshape(values.shape)


def expected(
    collective: Collective, inputs: Sequence[Array], *, op: ReduceOp, dtype: DType, root: int = 0
) -> list[Array | None]:
    """All ranks' outputs; None where a rank has none.

    Args:
        inputs: one flat array for each rank. Only the root's counts in broadcast and scatter.
    """
    n = len(inputs)
    match collective:
        case Collective.ALL_REDUCE:
            return [combined(inputs, op, dtype)] * n
        case Collective.REDUCE:
            return [combined(inputs, op, dtype) if rank == root else None for rank in range(n)]
        case Collective.REDUCE_SCATTER:
            return list(np.split(combined(inputs, op, dtype), n))
        case Collective.BROADCAST:
            return [inputs[root]] * n
        case Collective.SCATTER:
            return list(np.split(inputs[root], n))
        case Collective.ALL_GATHER:
            return [np.concatenate(inputs)] * n
        case Collective.GATHER:
            return [np.concatenate(inputs) if rank == root else None for rank in range(n)]
        case Collective.ALL_TO_ALL:
            parts = [np.split(values, n) for values in inputs]
            return [np.concatenate([parts[source][rank] for source in range(n)]) for rank in range(n)]


def exact(inputs: Sequence[Array], op: ReduceOp, dtype: DType) -> NDArray[np.float64]:
    """The reduction of floats in float64, for comparing within `tolerance`."""
    wide = [widened(values, dtype).astype(np.float64) for values in inputs]
    match op:
        case ReduceOp.SUM:
            result = np.sum(wide, axis=0)
        case ReduceOp.AVG:
            result = np.sum(wide, axis=0) / len(wide)
        case ReduceOp.PROD:
            result = np.prod(wide, axis=0)
        case ReduceOp.MAX:
            result = np.max(wide, axis=0)
        case ReduceOp.MIN:
            result = np.min(wide, axis=0)
    return np.asarray(result, np.float64)


def tolerance(inputs: Sequence[Array], op: ReduceOp, dtype: DType) -> NDArray[np.float64]:
    """How far from `exact` a reduction in any order may be, by element (Higham 2002, section 4.2).

    Every one of the n - 1 operations rounds at most twice, once in float32 and once to the type, and an average once
    more; each rounding is off by at most the roundoff of a partial result, or by half the smallest subnormal. Input
    values are taken to be so small that no partial result overflows.
    """
    wide = [np.abs(widened(values, dtype).astype(np.float64)) for values in inputs]
    match op:
        case ReduceOp.MAX | ReduceOp.MIN:
            return np.zeros(wide[0].shape)
        case ReduceOp.PROD:
            largest = np.prod(wide, axis=0)
        case ReduceOp.SUM:
            largest = np.sum(wide, axis=0)
        case ReduceOp.AVG:
            largest = np.sum(wide, axis=0) / len(wide)
    roundings = 2 * len(wide)
    return np.asarray(roundings * 1.01 * (_ROUNDOFF[dtype] * largest + _TINY[dtype]))
