"""Codecs over tensors by themselves: what they keep, what they leave alone, and what is not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.kernels.codecs import Codec
from autotune.types import DType

torch = pytest.importorskip("torch", reason="needs PyTorch")

from autotune.kernels.portable_codecs import TensorCodec, tensor_codec  # noqa: E402 - needs torch
from autotune.kernels.portable_feedback import TensorFeedback  # noqa: E402 - needs torch

CODECS = ("threshold(0.0)", "threshold(0.5)", "threshold_abs(0.8)", "int8", "int4")
FLOATS = (DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.BFLOAT16)


def made(word: str) -> TensorCodec:
    found = tensor_codec(Codec.parse(word))
    assert found is not None
    return found


def there_and_back(codec: TensorCodec, values: torch.Tensor) -> torch.Tensor:
    """decode(encode(values)), by way of the bytes that a message has."""
    encoded = codec.encode(values)
    assert encoded.head.dtype is torch.uint8
    assert encoded.head.numel() == codec.head_bytes(values.numel(), values.dtype)
    assert codec.head_bytes(values.numel(), values.dtype) % 8 == 0
    if codec.has_tail:
        assert encoded.tail is not None
        assert codec.tail_elements(encoded.head, values.numel()) == encoded.tail.numel()
    out = torch.full_like(values, 7)
    codec.decode(encoded, out)
    return out


def values_of(dtype: DType, count: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return (torch.randn(count, generator=generator, dtype=torch.float64) * scale).to(getattr(torch, dtype.value))


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("word", CODECS)
@pytest.mark.parametrize("count", [1, 255, 256, 257, 3000])
def test_it_is_within_the_bound_and_encoding_again_changes_nothing(word: str, dtype: DType, count: int) -> None:
    codec, bound = made(word), Codec.parse(word).relative_error(dtype)
    for scale in (1.0, 1e-3, 100.0):
        values = values_of(dtype, count, scale)
        once = there_and_back(codec, values)
        assert bits(there_and_back(codec, once)) == bits(once)
        off = torch.linalg.vector_norm(once.double() - values.double())
        assert off <= bound * torch.linalg.vector_norm(values.double())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("word", ["int8", "int4"])
def test_the_smallest_numbers_survive_a_second_encoding_too(word: str, dtype: DType) -> None:
    info = torch.finfo(getattr(torch, dtype.value))
    steps = torch.arange(-300, 300).to(getattr(torch, dtype.value))
    for values in (steps * info.smallest_normal * info.eps, steps * info.smallest_normal, steps * 0):
        once = there_and_back(made(word), values)
        assert bits(there_and_back(made(word), once)) == bits(once)
        assert once.abs().max() == values.abs().max()


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT64, DType.FLOAT16])
@pytest.mark.parametrize("word", ["threshold(0.5)", "threshold(1.5)", "threshold_abs(0.8)"])
def test_thresholds_keep_what_the_native_codec_keeps(word: str, dtype: DType) -> None:
    values = values_of(dtype, 5000)
    native = np.empty_like(values.numpy())
    Codec.parse(word).native(dtype).requantise(values.numpy(), native)
    kept = there_and_back(made(word), values)
    assert (kept.numpy() == native).all()
    assert 0 < np.count_nonzero(native) < native.size


@pytest.mark.parametrize("word", ["int8", "int4"])
def test_codes_are_the_native_codecs_but_for_rounding(word: str) -> None:
    values = values_of(DType.FLOAT32, 5000)
    native = np.empty_like(values.numpy())
    Codec.parse(word).native(DType.FLOAT32).requantise(values.numpy(), native)
    assert np.allclose(there_and_back(made(word), values).numpy(), native, rtol=1e-6, atol=0)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("word", CODECS)
def test_what_is_not_finite_stays_so_and_in_its_block(word: str, odd: float) -> None:
    values = values_of(DType.FLOAT32, 1024)
    values[300] = odd
    got = there_and_back(made(word), values)
    assert not got[300].isfinite()
    clean = there_and_back(made(word), values_of(DType.FLOAT32, 1024))
    assert (got[:256] == clean[:256]).all()
    assert (got[512:] == clean[512:]).all()
    if word.startswith("int"):
        assert got[256:512].isnan().all()


def test_feedback_knows_its_buffers() -> None:
    from autotune.errors import UsageError

    kept = TensorFeedback()
    values = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
    kept.residual("a", values).fill_(2.0**-10)
    assert kept.names() == ("a",)
    assert (kept.corrected("a", values) == values).all()  # too little to show, and not lost
    assert kept.norm("a") == pytest.approx(math.sqrt(2) * 2.0**-10)
    with pytest.raises(UsageError, match=r"was for 2 elements of torch\.bfloat16 on cpu, and is now asked for 3 of"):
        kept.corrected("a", torch.ones(3))
    with pytest.raises(UsageError, match="not a floating type"):
        kept.corrected("b", torch.ones(3, dtype=torch.int32))
    with pytest.raises(UsageError, match="has no buffer 'c'") as caught:
        kept.reset("c")
    assert caught.value.remedy == "it knows: 'a'"
    kept.reset("a")
    assert kept.names() == ()
