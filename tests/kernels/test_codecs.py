"""Codecs: words, bytes against NumPy, values within their bounds, and what is never done to Inf, NaN and memory."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from spec import FLOATS, STORAGE, Array, stored, widened
from wire import numpy_codecs

from autotune.errors import UsageError
from autotune.kernels import _native
from autotune.kernels.codecs import BLOCK, FLOAT_TYPES, Codec, CodecKind
from autotune.types import Collective, DType, ReduceOp

TEXTS = ("threshold(0.0)", "threshold(0.5)", "threshold(3.0)", "threshold_abs(1.0)", "int8", "int4")
LENGTHS = (0, 1, 3, 8, 9, 63, 64, 65, 255, 256, 257, 511, 700)


def _runs_here(variant: str) -> bool:
    try:
        Codec.parse("int8").native(DType.FLOAT32, variant)
    except UsageError:
        return False
    return True


VARIANTS = [
    pytest.param(name, marks=() if _runs_here(name) else pytest.mark.skip(reason=f"needs a CPU with {name}"))
    for name in ("baseline", "avx2", "avx512")
]


def encode(codec: _native.Codec, values: Array) -> bytes:
    wire = np.empty(codec.limit(values.size), np.uint8)
    return wire[: codec.encode(values, wire)].tobytes()


def decode(codec: _native.Codec, wire: bytes, like: Array) -> Array:
    out = np.full_like(like, 0x55)
    assert codec.decode(wire, out) == len(wire)
    return out


def round_trip(codec: Codec, values: Array, dtype: DType) -> Array:
    out = np.full_like(values, 0x55)
    codec.native(dtype).requantise(values, out)
    return out


def normal(dtype: DType, length: int, seed: int, scale: float = 1.0) -> Array:
    return stored(np.random.default_rng(seed).normal(0, scale, length), dtype)


def kinds_of_values(dtype: DType, length: int, seed: int) -> list[Array]:
    """Normal; half of them zeros; any bits; with Inf and NaN; very small and very large ones."""
    rng = np.random.default_rng([seed, 1])
    sparse = np.where(rng.random(length) < 0.5, 0.0, rng.normal(0, 1, length))
    odd = np.where(rng.random(length) < 0.02, rng.choice([np.inf, -np.inf, np.nan], length), rng.normal(0, 1, length))
    extremes = [1e-7, 5e4] if dtype is DType.FLOAT16 else [1e-37, 3e38]
    return [
        normal(dtype, length, seed),
        stored(sparse, dtype),
        rng.integers(0, 256, length * dtype.itemsize, np.uint8).view(STORAGE[dtype]),
        stored(odd, dtype),
        *(stored(np.clip(rng.normal(0, 1, length), -1, 1) * size, dtype) for size in extremes),
    ]


@pytest.mark.parametrize("text", ["none", "threshold(0.1)", "threshold_abs(0.001)", "threshold(0.0)", "int8", "int4"])
def test_words_there_and_back(text: str) -> None:
    assert str(Codec.parse(text)) == text


@given(st.floats(min_value=0, allow_infinity=False))
def test_every_threshold_has_one_text(t: float) -> None:
    codec = Codec(kind=CodecKind.THRESHOLD, parameter=t)
    assert Codec.parse(str(codec)) == codec


def test_other_spellings_are_the_same_codec() -> None:
    assert str(Codec.parse("threshold_abs(1e-3)")) == "threshold_abs(0.001)"
    assert str(Codec.parse("threshold(-0)")) == "threshold(0.0)"


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("int9", "'int9' is not one of: none, threshold, threshold_abs, int8, int4", "did you mean 'int8'?"),
        ("", "'' is not one of", "write it like one of"),
        ("treshold(1)", "is not one of", "did you mean 'threshold'?"),
        ("threshold", "has no threshold", "write it like threshold(0.1)"),
        ("threshold()", "'' is not a number", "write it like threshold(0.1)"),
        ("threshold(x)", "'x' is not a number", "write it like threshold(0.1)"),
        ("threshold(-1)", "-1 is not a finite number", "write it like threshold(0.1)"),
        ("threshold_abs(nan)", "nan is not a finite number", "write it like threshold_abs(0.1)"),
        ("threshold(inf)", "inf is not a finite number", "write it like threshold(0.1)"),
        ("threshold(1)(2)", "is not one of", "did you mean 'threshold'?"),
        ("int8(3)", "int8 takes no parameter", "write int8"),
        ("none()", "none takes no parameter", "write none"),
    ],
)
def test_words_that_are_no_codec(text: str, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        Codec.parse(text)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_what_a_codec_cannot_carry() -> None:
    int8, none = Codec.parse("int8"), Codec.parse("none")
    assert none.objection(Collective.ALL_REDUCE, DType.INT8, ReduceOp.PROD) is None
    assert int8.objection(Collective.ALL_REDUCE, DType.FLOAT16, ReduceOp.MAX) is None
    assert int8.objection(Collective.ALL_GATHER, DType.FLOAT32, ReduceOp.PROD) is None
    assert "not int32" in (int8.objection(Collective.ALL_GATHER, DType.INT32, ReduceOp.SUM) or "")
    assert "product" in (int8.objection(Collective.REDUCE, DType.FLOAT32, ReduceOp.PROD) or "")
    for dtype in DType:
        if dtype in FLOAT_TYPES:
            int8.native(dtype)
        else:
            with pytest.raises(UsageError, match=f"cannot carry {dtype.value}"):
                int8.native(dtype)
    with pytest.raises(ValueError, match="no parameter"):
        Codec(kind=CodecKind.INT8, parameter=1.0)
    with pytest.raises(ValueError, match="as they are"):
        none.native(DType.FLOAT32)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("text", TEXTS)
def test_bytes_and_values_are_numpys(variant: str, dtype: DType, text: str) -> None:
    codec = Codec.parse(text)
    native = codec.native(dtype, variant)
    for seed, length in enumerate(LENGTHS):
        for number, values in enumerate(kinds_of_values(dtype, length, seed)):
            wire = encode(native, values)
            assert wire == numpy_codecs.encode(codec, values, dtype), (length, number)
            got = decode(native, wire, values)
            assert got.tobytes() == numpy_codecs.decode(codec, wire, length, dtype).tobytes(), (length, number)


@pytest.mark.parametrize("dtype", FLOATS)
def test_threshold_zero_changes_nothing_under_equality(dtype: DType) -> None:
    for text, values in itertools.product(("threshold(0)", "threshold_abs(0)"), kinds_of_values(dtype, 3000, 1)):
        got = round_trip(Codec.parse(text), values, dtype)
        np.testing.assert_array_equal(widened(got, dtype), widened(values, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("text", TEXTS)
def test_inf_and_nan_pass_and_neighbours_keep_their_values(dtype: DType, text: str) -> None:
    clean = normal(dtype, 3 * BLOCK, 4)
    for odd in (np.inf, -np.inf, np.nan):
        values = clean.copy()
        values[BLOCK + 7] = stored(np.array([odd]), dtype)[0]
        got, want = (round_trip(Codec.parse(text), given, dtype) for given in (values, clean))
        np.testing.assert_array_equal(widened(got, dtype)[BLOCK + 7], odd)
        assert got[:BLOCK].tobytes() == want[:BLOCK].tobytes()
        assert got[2 * BLOCK :].tobytes() == want[2 * BLOCK :].tobytes()
        near = np.delete(widened(got, dtype)[BLOCK : 2 * BLOCK], 7) - np.delete(
            widened(clean, dtype)[BLOCK : 2 * BLOCK], 7
        )
        assert np.abs(near).max() <= 1.0  # threshold_abs(1.0) drops up to 1; the others drop nothing in such a block


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "text", ["threshold(0.0)", "threshold(0.2)", "threshold(0.9)", "threshold(5.0)", "int8", "int4"]
)
@given(
    seed=st.integers(0, 1 << 32),
    length=st.integers(1, 600),
    shape=st.sampled_from(["normal", "heavy", "halves", "equal", "steps"]),
    exponent=st.integers(-30, 30),
)
def test_the_error_is_within_the_bound(
    dtype: DType, text: str, seed: int, length: int, shape: str, exponent: int
) -> None:
    """Also for blocks that are made to be as bad as possible: one large entry, all others half a step from a code."""
    rng = np.random.default_rng(seed)
    codec = Codec.parse(text)
    step = 0.5 / numpy_codecs.LEVELS.get(codec.kind, 7)
    made = {
        "normal": rng.normal(0, 1, length),
        "heavy": rng.standard_cauchy(length),
        "halves": np.where(
            np.arange(length) % BLOCK == 0, 1.0, step * rng.choice([-1.001, -0.999, 0.999, 1.001], length)
        ),
        "equal": np.full(length, rng.uniform(0.1, 1)),
        "steps": rng.integers(-9, 10, length).astype(float),
    }[shape]
    scale = 2.0 ** (exponent if dtype is not DType.FLOAT16 else min(exponent, 3))  # float16: down to subnormals
    values = stored(np.clip(made, -1e3, 1e3) * scale, dtype)
    exact, got = (widened(v, dtype).astype(np.float64) for v in (values, round_trip(codec, values, dtype)))
    assert np.linalg.norm(got - exact) <= codec.relative_error(dtype) * np.linalg.norm(exact)


def test_the_bound_of_int8_is_nearly_reached() -> None:
    """A bound that is far too large would pass the test above."""
    values = np.full(BLOCK, 0.4999 / 127, np.float32)
    values[0] = 1
    codec = Codec.parse("int8")
    error = np.linalg.norm(round_trip(codec, values, DType.FLOAT32) - values) / np.linalg.norm(values)
    assert error > 0.99 * codec.relative_error(DType.FLOAT32)


def test_absolute_thresholds_bound_every_element() -> None:
    codec = Codec.parse("threshold_abs(0.25)")
    values = normal(DType.FLOAT32, 5000, 3)
    error = np.abs(round_trip(codec, values, DType.FLOAT32) - values)
    limit = codec.absolute_error()
    assert limit is not None
    assert 0.9 * limit < error.max() <= limit
    assert codec.relative_error(DType.FLOAT32) == 1.0
    assert [Codec.parse(text).absolute_error() for text in ("none", "int8")] == [0.0, None]


@pytest.mark.parametrize("text", ["int8", "int4"])
def test_extremes_of_scale(text: str) -> None:
    """Zeros, denormals, the largest numbers, and numbers on either side of where blocks travel dense."""
    codec = Codec.parse(text)
    native = codec.native(DType.FLOAT32)
    zeros = np.zeros(300, np.float32)
    assert encode(native, -zeros) == bytes(8)
    assert decode(native, bytes(8), zeros).tobytes() == zeros.tobytes()
    largest = float(np.finfo(np.float32).max)
    for size in (1e-45, 2.0**-126, 2.0**-111, 2.0**127, largest):
        values = (np.random.default_rng(1).uniform(-1, 1, 300) * size).astype(np.float32)
        values[[0, BLOCK]] = size
        assert round_trip(codec, values, DType.FLOAT32).tobytes() == values.tobytes(), size
    for size in (2.0**-110, float(np.nextafter(np.float32(2.0**127), np.float32(0)))):
        values = np.full(300, size, np.float32)
        assert len(encode(native, values)) < values.nbytes / 3
        assert round_trip(codec, values, DType.FLOAT32).tobytes() == values.tobytes()  # the largest is exact
    huge = np.array([1e300, -1e-300, 5.0, -7.0])  # float64 beyond float32's range
    assert round_trip(codec, huge, DType.FLOAT64).tobytes() == huge.tobytes()


def test_codes_round_to_nearest_even() -> None:
    values = np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5], np.float32)
    assert round_trip(Codec.parse("int8"), values, DType.FLOAT32).tolist() == [127, 0, 2, 2, 0, -2, -2]


@pytest.mark.parametrize("text", ["int8", "int4"])
@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16])
def test_every_largest_magnitude_survives_being_passed_on(dtype: DType, text: str) -> None:
    """For each one of the type: all codes, encoded, decoded and encoded again, are the same bytes."""
    native = Codec.parse(text).native(dtype)
    peaks = np.arange(1, 0x7C00 if dtype is DType.FLOAT16 else 0x7F80, dtype=np.uint16).view(STORAGE[dtype])
    levels = numpy_codecs.LEVELS[Codec.parse(text).kind]
    parts = np.zeros(BLOCK)
    parts[: 2 * levels + 1] = np.arange(-levels, levels + 1) / levels
    rng = np.random.default_rng(9)
    for some in np.array_split(peaks, 50):
        shifted = parts + np.where(np.abs(parts) < 1, rng.uniform(-0.49, 0.49, BLOCK) / levels, 0)
        blocks = stored(np.outer(widened(some, dtype), shifted).astype(np.float32).ravel(), dtype)
        once = encode(native, blocks)
        assert encode(native, decode(native, once, blocks)) == once


@pytest.mark.parametrize("text", TEXTS)
def test_damage_is_an_error(text: str) -> None:
    values = normal(DType.FLOAT32, 1000, 5)
    native = Codec.parse(text).native(DType.FLOAT32)
    wire = encode(native, values)
    out = np.empty_like(values)
    for length in (*range(9), len(wire) // 2, len(wire) - 1):
        with pytest.raises(UsageError, match="no encoding of 1000 elements"):
            native.decode(wire[:length], out)


def test_a_bitmap_that_marks_other_entries_than_follow_is_an_error() -> None:
    native = Codec.parse("threshold_abs(0.5)").native(DType.FLOAT32)
    values = np.zeros(12, np.float32)
    values[3] = 1
    good = bytearray(encode(native, values))
    assert good[:4] == (1).to_bytes(4, "little")
    # Another number of entries than the bitmap marks; the right one, but of entries that do not exist (12 and up).
    for kept, first, second in (
        (0, 8, 0),
        (2, 8, 0),
        (13, 8, 0),
        (1, 0, 0),
        (1, 9, 0),
        (1, 8, 1),
        (1, 0, 0x10),
        (1, 0, 0x80),
    ):
        bad = good.copy()
        bad[0], bad[4], bad[5] = kept, first, second
        with pytest.raises(UsageError, match="no encoding"):
            native.decode(bytes(bad) + bytes(64), np.empty_like(values))


def test_the_binding_checks_sizes() -> None:
    native = Codec.parse("int8").native(DType.FLOAT32)
    values, residual = np.ones(10, np.float32), np.zeros(10, np.float32)
    with pytest.raises(UsageError, match="wire has 5 bytes, fewer than"):
        native.encode(values, bytearray(5))
    with pytest.raises(UsageError, match="does not hold whole codec blocks"):
        native.decode(bytes(100), values, tile=100)
    with pytest.raises(UsageError, match="out has 36 bytes, not 40"):
        native.requantise(values, values[1:].copy())
    with pytest.raises(UsageError, match="data has 10 bytes"):
        native.requantise(bytearray(10), bytearray(10))
    with pytest.raises(UsageError, match="residual has 80 bytes, not 40"):
        native.collect(values, values, 1.0, np.zeros(10))
    with pytest.raises(UsageError, match="residual has 36 bytes"):
        native.correct(values, residual[1:].copy(), values.copy())
    with pytest.raises(UsageError, match="after has"):
        native.collect(values, values[1:].copy(), 1.0, residual)
    with pytest.raises(UsageError, match="does not run here"):
        Codec.parse("int8").native(DType.FLOAT32, "mmx")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_residuals_collect_and_correct(variant: str, dtype: DType) -> None:
    codec = Codec.parse("int4")
    native = codec.native(dtype, variant)
    before = normal(dtype, 1000, 6)
    before[[1, 500]] = stored(np.array([np.inf, np.nan]), dtype)
    after = round_trip(codec, before, dtype)
    after[1] = stored(np.array([7.0]), dtype)[0]
    wide = np.float64 if dtype is DType.FLOAT64 else np.float32
    residual = np.full(1000, 0.25, wide)
    native.collect(before, after, 3.0, residual)
    with np.errstate(invalid="ignore"):
        dropped = wide(3) * (widened(before, dtype) - widened(after, dtype))
    np.testing.assert_array_equal(residual, wide(0.25) + np.where(np.isfinite(dropped), dropped, 0))

    old, added = residual.copy(), widened(before, dtype) + residual
    out = np.empty_like(before)
    native.correct(before, residual, out)
    assert out.tobytes() == stored(added, dtype).tobytes()
    with np.errstate(invalid="ignore"):  # in long double, where the sum has no rounding error
        left = widened(before, dtype).astype(np.longdouble) + old - widened(out, dtype)
    np.testing.assert_array_equal(residual, np.where(np.isfinite(left), left, 0).astype(wide))
    assert math.isfinite(float(np.abs(residual).sum()))
