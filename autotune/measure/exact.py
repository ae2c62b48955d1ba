"""Inputs whose right answer is exact, whatever the order of summation. Standard library only; no buffers here."""

from __future__ import annotations

from ..errors import UsageError
from ..types import DType

# Integers up to 2**bits are exact in a float with that many significand bits (IEEE 754-2019, section 3.4; bfloat16: 8).
_SIGNIFICAND_BITS = {DType.FLOAT16: 11, DType.BFLOAT16: 8, DType.FLOAT32: 24, DType.FLOAT64: 53}


def exact_modulus(dtype: DType, n_ranks: int) -> int:
    """The m for which inputs of whole numbers 0 .. m-1 sum exactly over `n_ranks`, in any order and association.

    Floats: every partial sum is a whole number of at most n (m-1) <= 2**p, where p is the significand's width. Integers
    wrap, so any value will do: m is the largest value of the type. The same inputs are exact for max, min and copies;
    an average of them rounds once; products need others (powers of two).

    m is odd, except where only 2 is left: a pattern of that period does not repeat at a power of two, so that a block
    or page in the wrong place shows.

    Raises:
        UsageError: so many ranks that no two different values are left (bfloat16: more than 256).
    """
    bits = _SIGNIFICAND_BITS.get(dtype)
    if bits is None:
        return (1 << 8 * dtype.itemsize - (0 if dtype is DType.UINT8 else 1)) - 1
    largest = 1 << bits
    modulus = largest // n_ranks + 1
    if modulus < 2:
        raise UsageError(
            f"{dtype.value} sums over {n_ranks} ranks cannot be checked exactly: it counts to {largest} only",
            remedy=f"measure {dtype.value} with at most {largest} ranks, or use float32",
        )
    return modulus if modulus % 2 or modulus == 2 else modulus - 1
