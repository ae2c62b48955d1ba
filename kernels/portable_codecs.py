"""Codecs over tensors, on whatever device these are: what the portable executor sends in place of elements.

In:  elements of a block (a vector of a floating type). Out: bytes of a length that both ends know (the *head*), and for
the thresholds the kept elements (the *tail*), whose number the head says. And the way back.
May not touch: ranks, schedules, the native module's bytes: what travels between two portable executors is theirs alone.

What a codec keeps is what the native one keeps (csrc/codec.h), in blocks of `BLOCK` elements from the start of a
message's block, so the bounds of codecs.py hold. Three things are otherwise:

- Sizes must be known before anything arrives, so ``int8`` and ``int4`` have no dense form. A block with an entry that
  is not finite is NaN throughout for its readers. float16 blocks whose largest magnitude is a subnormal number are
  rounded to that type's spacing besides, where the native codec would send them as they are.
- The squares under ``threshold`` are added in float32 for all types but float64, in halves: the same operations on the
  same elements on every device, so all ranks drop the same entries. Where the sum overflows, only zeros are dropped.
- The head of a ``threshold`` is a bitmap of all entries, also where nothing is dropped.

decode(encode(x)) is left alone by another encode, bit for bit, so it does not matter how often a block is passed on:
the largest magnitude of a block is exact (L / L is 1), and codes come back as they were.
"""

from __future__ import annotations

from typing import Protocol

import torch

from .codecs import BLOCK, Codec, CodecKind

_ALIGNED = 8  # bytes: heads follow each other in a message, and begin with scales


class Encoded:
    """One block on its way: the head, and for the thresholds the tail."""

    __slots__ = ("head", "tail")

    def __init__(self, head: torch.Tensor, tail: torch.Tensor | None = None) -> None:
        self.head, self.tail = head, tail


class TensorCodec(Protocol):
    """A codec over tensors."""

    has_tail: bool

    def head_bytes(self, elements: int, dtype: torch.dtype) -> int:
        """The length of the head of so many elements; a multiple of 8."""
        ...

    def encode(self, values: torch.Tensor) -> Encoded:
        """What travels in place of a vector."""
        ...

    def tail_elements(self, head: torch.Tensor, elements: int) -> int:
        """How many elements the tail has; waits for the device."""
        ...

    def decode(self, encoded: Encoded, out: torch.Tensor) -> None:
        """Write what the readers make of it to a vector of the encoded one's length."""
        ...


def tensor_codec(codec: Codec) -> TensorCodec | None:
    """The codec over tensors; None for ``none``."""
    match codec.kind:
        case CodecKind.NONE:
            return None
        case CodecKind.THRESHOLD:
            return Thresholds(codec.parameter, relative=True)
        case CodecKind.THRESHOLD_ABS:
            return Thresholds(codec.parameter, relative=False)
        case CodecKind.INT8:
            return Quantised(levels=127, per_byte=1)
        case CodecKind.INT4:
            return Quantised(levels=7, per_byte=2)


class Quantised:
    """``int8`` and ``int4``: a magnitude for each block, then codes of -levels to levels.

    Args:
        per_byte: codes in a byte. Of two, the first half of a block's codes is in the low halves of its bytes.
    """

    has_tail = False

    def __init__(self, levels: int, per_byte: int) -> None:
        self._levels = levels
        self._per_byte = per_byte

    def head_bytes(self, elements: int, dtype: torch.dtype) -> int:
        blocks = _blocks(elements)
        return _aligned(blocks * _wide(dtype).itemsize) + blocks * BLOCK // self._per_byte

    def encode(self, values: torch.Tensor) -> Encoded:
        rows = _rows(values.to(_wide(values.dtype)))
        largest = rows.abs().amax(1, keepdim=True)
        codes = torch.where(largest > 0, rows / largest, 0.0).mul_(self._levels).round_().nan_to_num_(0.0)
        scales = largest.view(-1).view(torch.uint8)
        pad = _aligned(scales.numel()) - scales.numel()
        codes = (codes + (self._levels + 1)).to(torch.uint8)  # from 1 on
        if self._per_byte == 2:
            low, high = codes.split(BLOCK // 2, 1)
            codes = low + high * 16
        return Encoded(torch.cat([scales, scales.new_zeros(pad), codes.view(-1)]))

    def tail_elements(self, head: torch.Tensor, elements: int) -> int:
        return 0

    def decode(self, encoded: Encoded, out: torch.Tensor) -> None:
        blocks, wide = _blocks(out.numel()), _wide(out.dtype)
        scale_bytes = blocks * wide.itemsize
        largest = encoded.head[:scale_bytes].view(wide).view(blocks, 1)
        codes = encoded.head[_aligned(scale_bytes) :].view(blocks, BLOCK // self._per_byte)
        if self._per_byte == 2:
            codes = torch.cat([codes % 16, codes // 16], 1)
        rows = codes.to(wide).sub_(self._levels + 1).div_(self._levels).mul_(largest)
        out.copy_(rows.view(-1)[: out.numel()])


class Thresholds:
    """``threshold`` and ``threshold_abs``: a bitmap of what is kept, then that.

    Args:
        relative: to the root mean square of each block.
    """

    has_tail = True

    def __init__(self, parameter: float, *, relative: bool) -> None:
        self._parameter = parameter
        self._relative = relative

    def head_bytes(self, elements: int, dtype: torch.dtype) -> int:
        return _blocks(elements) * BLOCK // 8

    def encode(self, values: torch.Tensor) -> Encoded:
        rows = _rows(values)
        kept = ~(rows.abs() <= self._cutoff(rows, values.numel()))  # NaN is kept
        if rows.numel() > values.numel():
            kept.view(-1)[values.numel() :] = False
        bits = kept.view(-1, 8).to(torch.uint8) * _places(values.device)
        return Encoded(bits.sum(1, dtype=torch.uint8), rows[kept])

    def tail_elements(self, head: torch.Tensor, elements: int) -> int:
        return int(_bits(head).sum())

    def decode(self, encoded: Encoded, out: torch.Tensor) -> None:
        assert encoded.tail is not None, "thresholds have a tail"
        out.zero_().masked_scatter_(_bits(encoded.head)[: out.numel()], encoded.tail)

    def _cutoff(self, rows: torch.Tensor, elements: int) -> torch.Tensor:
        """By row, the largest magnitude that is dropped."""
        wide = _wide(rows.dtype)
        if not self._relative:
            cutoff = torch.tensor([[self._parameter]], dtype=wide)
            if float(cutoff) > self._parameter:  # the nearest number of the type is above it
                cutoff = torch.nextafter(cutoff, torch.zeros_like(cutoff))
            return cutoff.to(rows.device)
        squares = rows.to(wide).square()
        width = BLOCK
        while width > 1:
            width //= 2
            squares = squares[:, :width] + squares[:, width:]
        lengths = torch.full_like(squares, BLOCK)
        lengths[-1:] = elements - (len(rows) - 1) * BLOCK
        mean = squares.div_(lengths).sqrt_().mul_(self._parameter)
        return torch.where(mean.isfinite(), mean, 0.0)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which a codec computes."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def _blocks(elements: int) -> int:
    return -(-elements // BLOCK)


def _rows(values: torch.Tensor) -> torch.Tensor:
    """A row for each codec block, the last one filled up with zeros."""
    blocks = _blocks(values.numel())
    if blocks * BLOCK != values.numel():
        padded = values.new_zeros(blocks * BLOCK)
        padded[: values.numel()] = values
        values = padded
    return values.view(blocks, BLOCK)


def _places(device: torch.device) -> torch.Tensor:
    return torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=device)


def _bits(head: torch.Tensor) -> torch.Tensor:
    return (head.view(-1, 1).bitwise_and(_places(head.device)) != 0).view(-1)


def _aligned(value: int) -> int:
    return -(-value // _ALIGNED) * _ALIGNED
