"""The codecs in NumPy, written from the description in csrc/codec.h: what every variant of the native code is held to.

In:  elements as stored (bfloat16 as uint16). Out: the bytes on the wire, and what they are decoded to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from spec import STORAGE, Array, stored, widened

from autotune.kernels.codecs import BLOCK, Codec, CodecKind
from autotune.types import DType

DENSE = b"\xff\xff\xff\xff"
LEVELS = {CodecKind.INT8: 127, CodecKind.INT4: 7}
LEAST_PEAK = {DType.FLOAT16: 2.0**-14}


def encode(codec: Codec, values: Array, dtype: DType) -> bytes:
    """The encodings of all blocks."""
    parts = (values[first : first + BLOCK] for first in range(0, values.size, BLOCK))
    one = _codes if codec.kind in LEVELS else _kept
    with np.errstate(all="ignore"):
        return b"".join(one(codec, block, dtype) for block in parts)


def decode(codec: Codec, wire: bytes, count: int, dtype: DType) -> Array:
    """The elements of an undamaged encoding."""
    out = np.zeros(count, STORAGE[dtype])
    at = 0
    for first in range(0, count, BLOCK):
        block = out[first : first + BLOCK]
        word, at = wire[at : at + 4], at + 4
        if word == DENSE:
            block[:], at = np.frombuffer(wire, block.dtype, block.size, at), at + block.nbytes
        elif codec.kind not in LEVELS:
            kept, width = int.from_bytes(word, "little"), -(-block.size // 8)
            marks = np.unpackbits(np.frombuffer(wire, np.uint8, width, at), count=block.size, bitorder="little")
            at += width
            block[marks.astype(bool)] = np.frombuffer(wire, block.dtype, kept, at)
            at += kept * block.itemsize
        elif word != bytes(4):
            levels = LEVELS[codec.kind]
            width = block.size if levels > 7 else -(-block.size // 2)
            codes, at = np.frombuffer(wire, np.uint8, width, at), at + width
            signed = codes.view(np.int8) if levels > 7 else np.concatenate([codes & 15, codes >> 4]).astype(np.int8) - 8
            wide = np.float64 if dtype is DType.FLOAT64 else np.float32
            peak = wide(np.frombuffer(word, np.float32)[0])
            block[:] = stored(signed[: block.size].astype(wide) * (wide(1) / wide(levels)) * peak, dtype)
    assert at == len(wire)
    return out


def _kept(codec: Codec, block: Array, dtype: DType) -> bytes:
    cutoff = (
        codec.parameter if codec.kind is CodecKind.THRESHOLD_ABS else codec.parameter * root_mean_square(block, dtype)
    )
    marks = ~(np.abs(widened(block, dtype)) <= largest_up_to(cutoff, dtype))
    packed = np.packbits(marks, bitorder="little").tobytes() + block[marks].tobytes()
    if len(packed) < block.nbytes:
        return int(marks.sum()).to_bytes(4, "little") + packed
    return DENSE + block.tobytes()


def root_mean_square(block: Array, dtype: DType) -> float:
    """Of a block; 0 where it holds, or the squares make, something that is not finite."""
    sums_in = np.float64 if dtype in (DType.FLOAT32, DType.FLOAT64) else np.float32
    whole: NDArray[Any] = np.zeros(BLOCK, sums_in)
    whole[: block.size] = widened(block, dtype)
    partial = np.zeros(128 // whole.itemsize, sums_in)
    for row in (whole * whole).reshape(-1, partial.size):
        partial = partial + row
    while partial.size > 1:
        partial = partial[: partial.size // 2] + partial[partial.size // 2 :]
    return float(np.sqrt(float(partial[0]) / block.size)) if np.isfinite(partial[0]) else 0.0


def largest_up_to(value: float, dtype: DType) -> np.floating[Any]:
    """The largest finite number of the type that is not above a value."""
    if dtype is DType.BFLOAT16:  # float32 without its lower half
        single = largest_up_to(min(value, float(np.uint32(0x7F7F0000).view(np.float32))), DType.FLOAT32)
        return (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    kind = np.dtype(dtype.value).type
    nearest = kind(min(value, float(np.finfo(kind).max)))
    return nearest if float(nearest) <= value else np.nextafter(nearest, kind(0))


def _codes(codec: Codec, block: Array, dtype: DType) -> bytes:
    levels = LEVELS[codec.kind]
    wide = widened(block, dtype)
    peak = np.float32(np.max(np.abs(wide)))  # NaN if any is
    if not np.any(wide):
        return bytes(4)
    if not LEAST_PEAK.get(dtype, 2.0**-110) <= peak < 2.0**127:
        return DENSE + block.tobytes()
    codes = np.rint(wide * (wide.dtype.type(levels) / wide.dtype.type(peak))).astype(np.int8)
    if levels > 7:
        return peak.tobytes() + codes.tobytes()
    half = -(-block.size // 2)
    nibbles = np.full(2 * half, 8, np.uint8)
    nibbles[: block.size] = codes + 8
    return peak.tobytes() + (nibbles[:half] | nibbles[half:] << 4).tobytes()
