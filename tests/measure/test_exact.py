"""Pattern sums are exact in the narrowest accumulator, whatever the order; a larger modulus is not."""

from __future__ import annotations

import random

import pytest

from autotune.errors import UsageError
from autotune.measure import exact_modulus
from autotune.types import DType

BITS = {DType.FLOAT16: 11, DType.BFLOAT16: 8, DType.FLOAT32: 24, DType.FLOAT64: 53}


def rounded(value: int, bits: int) -> int:
    """Round to nearest, ties to even, as a float with that many significand bits does."""
    shift = max(0, value.bit_length() - bits)
    low = value & ((1 << shift) - 1)
    high, half = value >> shift, (1 << shift) >> 1
    return (high + (low > half or (low == half and bool(shift) and high % 2 == 1))) << shift


def sum_in_random_order(values: list[int], bits: int, rng: random.Random) -> int:
    terms = list(values)
    while len(terms) > 1:
        rng.shuffle(terms)
        terms.append(rounded(terms.pop() + terms.pop(), bits))
    return terms[0]


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 7, 8, 16, 17, 100])
def test_any_order_of_summation_is_exact(dtype: DType, n_ranks: int) -> None:
    modulus = exact_modulus(dtype, n_ranks)
    rng = random.Random(n_ranks)
    assert modulus >= 2
    for _ in range(50):
        values = [rng.choice([rng.randrange(modulus), modulus - 1]) for _ in range(n_ranks)]
        assert sum_in_random_order(values, BITS[dtype], rng) == sum(values)


@pytest.mark.parametrize("dtype", BITS)
def test_twice_the_modulus_would_round(dtype: DType) -> None:
    too_large = 2 * exact_modulus(dtype, 7)
    values = [too_large - 1] * 7
    assert sum_in_random_order(values, BITS[dtype], random.Random(0)) != sum(values)


@pytest.mark.parametrize("n_ranks", range(1, 257))
def test_the_pattern_never_repeats_at_a_power_of_two(n_ranks: int) -> None:
    modulus = exact_modulus(DType.BFLOAT16, n_ranks)
    assert modulus == 2 or modulus % 2 == 1


def test_integers_use_their_whole_range() -> None:
    assert exact_modulus(DType.UINT8, 9) == 255
    assert exact_modulus(DType.INT8, 9) == 127
    assert exact_modulus(DType.INT64, 9) == 2**63 - 1


def test_more_ranks_than_bfloat16_can_count_are_refused() -> None:
    assert exact_modulus(DType.BFLOAT16, 256) == 2
    with pytest.raises(UsageError, match="bfloat16 sums over 257 ranks") as caught:
        exact_modulus(DType.BFLOAT16, 257)
    assert "float32" in caught.value.remedy


def test_the_model_of_rounding_agrees_with_real_floats() -> None:
    rng = random.Random(5)
    for _ in range(200):
        value = rng.randrange(1 << 60)
        assert rounded(value, 53) == int(float(value))
    assert [rounded(value, 8) for value in (255, 257, 258, 259)] == [255, 256, 258, 260]
