"""Combining elements: every variant of the arithmetic against tests/spec.py and against each other, bit for bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from spec import FLOATS, STORAGE, Array, combined, stored, widened

from autotune.errors import UsageError
from autotune.kernels import _native
from autotune.kernels.calls import OP_NUMBER
from autotune.kernels.programs import DTYPE_NUMBER
from autotune.types import DType, ReduceOp


def _runs_here(variant: str) -> bool:
    try:
        _native.combine(variant, 0, 0, [bytes(4), bytes(4)], bytearray(4), 1)
    except UsageError:
        return False
    return True


VARIANTS = [
    pytest.param(name, marks=() if _runs_here(name) else pytest.mark.skip(reason=f"needs a CPU with {name}"))
    for name in ("baseline", "avx2", "avx512")
]
LENGTHS = (0, 1, 2, 15, 16, 17, 511, 512, 513, 2047, 2048, 2049, 5000)  # around vectors, chunks and tiles


def combine(variant: str, parts: list[Array], op: ReduceOp, dtype: DType, out: Array | None = None) -> Array:
    target = np.full_like(parts[0], 0x55) if out is None else out
    divisor = len(parts) if op is ReduceOp.AVG else 1
    _native.combine(variant, DTYPE_NUMBER[dtype], OP_NUMBER[op], list(parts), target, divisor)
    return target


def any_bits(dtype: DType, length: int, seed: int) -> Array:
    return np.random.default_rng(seed).integers(0, 256, length * dtype.itemsize, np.uint8).view(STORAGE[dtype])


def unaligned(values: Array) -> Array:
    """A copy that starts one byte after aligned memory."""
    raw = np.zeros(values.nbytes + 64, np.uint8)
    start = 1 - raw.ctypes.data % 64 + 64 * (raw.ctypes.data % 64 > 1)
    view = raw[start : start + values.nbytes].view(values.dtype)
    view[:] = values
    return view


def same_numbers(got: Array, want: Array, dtype: DType) -> None:
    """Equal bits, but for the payload of a NaN, which IEEE 754 leaves open."""
    if dtype in FLOATS:
        nans = np.isnan(widened(got, dtype)), np.isnan(widened(want, dtype))
        np.testing.assert_array_equal(*nans)
        got, want = got[~nans[0]], want[~nans[1]]
    np.testing.assert_array_equal(got.view(f"u{dtype.itemsize}"), want.view(f"u{dtype.itemsize}"))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("op", ReduceOp)
@pytest.mark.parametrize("dtype", DType)
def test_any_bits_match_numpy(variant: str, dtype: DType, op: ReduceOp) -> None:
    for k, length in itertools.product(range(2, 10), (1, 33, 2049)):
        parts = [any_bits(dtype, length, 100 * k + j) for j in range(k)]
        got = combine(variant, parts, op, dtype)
        if op in (ReduceOp.MAX, ReduceOp.MIN):  # of zeros with either sign, either is the answer
            got, want = widened(got, dtype), widened(combined(parts, op, dtype), dtype)
            np.testing.assert_array_equal(got, want, err_msg=f"{k} parts of {length}")
        else:
            same_numbers(got, combined(parts, op, dtype), dtype)


@pytest.mark.parametrize("op", ReduceOp)
@pytest.mark.parametrize("dtype", DType)
def test_variants_agree(dtype: DType, op: ReduceOp) -> None:
    """Bit for bit; where several NaN are added or multiplied, one variant may keep another one's payload."""
    variants = [name for name in ("baseline", "avx2", "avx512") if _runs_here(name)]
    for k, length in itertools.product(range(2, 10), LENGTHS):
        parts = [any_bits(dtype, length, 7 * k + j) for j in range(k)]
        first, *others = (combine(variant, parts, op, dtype) for variant in variants)
        for other in others:
            if op in (ReduceOp.MAX, ReduceOp.MIN):
                assert other.tobytes() == first.tobytes(), (k, length)
            else:
                same_numbers(other, first, dtype)


@pytest.mark.parametrize("op", ReduceOp)
@pytest.mark.parametrize("dtype", DType)
def test_where_an_element_stands_does_not_change_its_bits(dtype: DType, op: ReduceOp) -> None:
    """Ranks may cut a block differently: vector, tail and tile have to do the same, to the payload of a NaN."""
    variant = _native.arithmetic()
    for k in (2, 3, 5, 9):
        parts = [any_bits(dtype, 3000, k + 31 * j) for j in range(k)]
        whole = combine(variant, parts, op, dtype)
        for cut in (1, 7, 64, 513, 2049):
            pieces = [combine(variant, [part[i : i + cut] for part in parts], op, dtype) for i in range(0, 3000, cut)]
            assert np.concatenate(pieces).tobytes() == whole.tobytes(), (k, cut)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", DType)
def test_the_destination_may_be_any_source_and_lie_anywhere(variant: str, dtype: DType) -> None:
    for k, op in itertools.product((2, 3, 4, 5, 8, 9), ReduceOp):
        parts = [any_bits(dtype, 2500, 3 * k + j) for j in range(k)]
        wanted = combine(variant, parts, op, dtype).tobytes()
        for place in range(k):
            copies = [unaligned(part) for part in parts]
            assert combine(variant, copies, op, dtype, out=copies[place]).tobytes() == wanted, (k, op, place)
            assert all(copies[j].tobytes() == parts[j].tobytes() for j in range(k) if j != place)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_float16_survives_widening_and_rounding(variant: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    one = np.ones_like(every)
    same_numbers(combine(variant, [every, one], ReduceOp.PROD, DType.FLOAT16), every, DType.FLOAT16)
    nan = np.isnan(every)
    for place in range(17):  # every bit pattern in every lane of a vector, and in the tail
        got = combine(variant, [every[place:], one[place:]], ReduceOp.PROD, DType.FLOAT16)
        assert got[~nan[place:]].tobytes() == every[place:][~nan[place:]].tobytes()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_sums_round_once_to_nearest_even(variant: str, dtype: DType) -> None:
    """Every element but the largest, plus steps that end on, below and above the middle of two neighbours."""
    every = np.arange(1 << 16, dtype=np.uint16).view(STORAGE[dtype])
    finite = every[np.abs(np.nan_to_num(widened(every, dtype), nan=np.inf)) < 1e38]
    ties = 0
    for shift in (1, 2, 3, 9, 12):
        step = stored(np.maximum(np.abs(widened(finite, dtype)) * np.float32(2.0**-shift), np.float32(1e-30)), dtype)
        wide = widened(finite, dtype) + widened(step, dtype)
        same_numbers(combine(variant, [finite, step], ReduceOp.SUM, dtype), stored(wide, dtype), dtype)
        dropped = 13 if dtype is DType.FLOAT16 else 16  # bits of float32's fraction that the type does not have
        ties += int((wide.view(np.uint32) & ((1 << dropped) - 1) == 1 << dropped - 1).sum())
    assert ties > 1000, "the test would not see a tie"


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_several_sources_accumulate_in_float32(variant: str, dtype: DType) -> None:
    """1 + tiny + tiny ... : adding up in the type itself would lose every tiny one."""
    one = stored(np.ones(1, np.float32), dtype)
    tiny = stored(np.full(1, 2.0**-11 if dtype is DType.FLOAT16 else 2.0**-8, np.float32), dtype)
    got = combine(variant, [one, *[tiny] * 8], ReduceOp.SUM, dtype)
    assert widened(got, dtype)[0] == 1.0 + 8 * widened(tiny, dtype)[0]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("dtype", "largest"), [(DType.FLOAT16, 0x7BFF), (DType.BFLOAT16, 0x7F7F)])
def test_overflow_is_infinity(variant: str, dtype: DType, largest: int) -> None:
    most = np.full(40, largest, np.uint16).view(STORAGE[dtype])
    assert np.isposinf(widened(combine(variant, [most, most], ReduceOp.SUM, dtype), dtype)).all()
    tiny = stored(np.full(40, 1e-3, np.float32), dtype)  # far below half the last place: stays finite
    assert combine(variant, [most, tiny], ReduceOp.SUM, dtype).tobytes() == most.tobytes()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_and_min_of_nan_are_nan_wherever_it_stands(variant: str, dtype: DType) -> None:
    for k, op in itertools.product(range(2, 10), (ReduceOp.MAX, ReduceOp.MIN)):
        for place in range(k):
            parts = [stored(np.full(37, float(j), np.float32), dtype) for j in range(k)]
            parts[place] = stored(np.full(37, np.nan, np.float32), dtype)
            assert np.isnan(widened(combine(variant, parts, op, dtype), dtype)).all(), (k, op, place)


@pytest.mark.parametrize("variant", VARIANTS)
def test_integer_averages_divide_the_wrapped_sum_towards_zero(variant: str) -> None:
    parts = [np.array([100, -100, -1, 7, -128, 127], np.int8), np.array([100, -100, -2, 8, -128, 127], np.int8)]
    got = combine(variant, parts, ReduceOp.AVG, DType.INT8)
    assert got.tolist() == [-28, 28, -1, 7, 0, -1]  # 200 wraps to -56, and -3 / 2 is -1
    big = [np.full(9, 250, np.uint8)] * 3
    assert combine(variant, big, ReduceOp.AVG, DType.UINT8).tolist() == [(750 % 256) // 3] * 9


def test_a_divisor_larger_than_the_type_divides_right() -> None:
    parts = [np.full(20, 100, np.int8), np.full(20, 27, np.int8)]
    out = np.empty(20, np.int8)
    _native.combine("baseline", DTYPE_NUMBER[DType.INT8], OP_NUMBER[ReduceOp.AVG], parts, out, 300)
    assert out.tolist() == [0] * 20  # 300 as an int8 is 44, and 127 / 44 is 2


def test_combine_refuses_what_it_cannot_do() -> None:
    four = bytearray(4)
    with pytest.raises(UsageError, match="does not run here"):
        _native.combine("mmx", 0, 0, [four, four], bytearray(4), 1)
    with pytest.raises(UsageError, match="fewer than two sources"):
        _native.combine("baseline", 0, 0, [four], bytearray(4), 1)
    with pytest.raises(UsageError, match="differ in size"):
        _native.combine("baseline", 0, 0, [four, bytearray(8)], bytearray(4), 1)
    with pytest.raises(UsageError, match="dtype 8 is unknown"):
        _native.combine("baseline", 8, 0, [four, four], bytearray(4), 1)
