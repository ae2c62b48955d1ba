"""Tensors as the native executor takes them: their bytes, their element type, and a contiguous stand-in where needed.

In:  tensors of the caller. Out: buffers over their memory, never a copy; words of `autotune.types`.
May not touch: other ranks.

A tensor has no buffer protocol, and ``numpy()`` knows no bfloat16 and costs 700 ns; a ctypes array at its address costs
190 ns. It does not keep the tensor alive: whoever makes one holds the tensor as long as it is used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist

from ...errors import UsageError
from ...types import DType, ReduceOp

if TYPE_CHECKING:
    from typing_extensions import Buffer

KINDS = {getattr(torch, kind.value): kind for kind in DType} | {torch.bool: DType.UINT8}
"""Element types that can be combined; a bool is a byte."""

_OPS = {
    dist.ReduceOp.SUM: ReduceOp.SUM,
    dist.ReduceOp.AVG: ReduceOp.AVG,
    dist.ReduceOp.PRODUCT: ReduceOp.PROD,
    dist.ReduceOp.MIN: ReduceOp.MIN,
    dist.ReduceOp.MAX: ReduceOp.MAX,
}
_OF_BOOLS = {
    ReduceOp.SUM: ReduceOp.MAX,  # any of them
    ReduceOp.PROD: ReduceOp.MIN,  # all of them
    ReduceOp.MIN: ReduceOp.MIN,
    ReduceOp.MAX: ReduceOp.MAX,
}
_TYPES_KEPT = 4096
Operation = Any  # a torch.distributed.ReduceOp; torch is not type-checked
_types: dict[int, Any] = {}  # Any: ctypes has no name for the type of its array types


def buffer(tensor: torch.Tensor) -> Buffer:
    """The bytes of a contiguous tensor on the CPU; the tensor must outlive it."""
    size = tensor.nbytes
    kind = _types.get(size)
    if kind is None:
        if len(_types) >= _TYPES_KEPT:
            _types.clear()
        kind = _types[size] = ctypes.c_char * size
    memory: Buffer = kind.from_address(tensor.data_ptr())
    return memory


def check(tensor: torch.Tensor, what: str) -> None:
    """Raise unless it is a dense tensor on the CPU.

    Raises:
        UsageError: it is not.
    """
    if not tensor.is_cpu:
        raise UsageError(
            f"{what}: the tensor is on {tensor.device}, and the backend mc2 is for tensors on the CPU",
            remedy="give such tensors to a group of their own backend: "
            "torch.distributed.new_group(backend='nccl' or 'hccl'); autotune.mc2_all_reduce tunes calls on it",
        )
    if tensor.layout is not torch.strided:
        raise UsageError(f"{what}: the tensor is {tensor.layout}, not dense", remedy="give tensor.to_dense()")


def combined(dtype: torch.dtype, op: Operation, what: str) -> tuple[DType, ReduceOp]:
    """How elements are combined.

    Args:
        op: a ``torch.distributed.ReduceOp``.

    Raises:
        UsageError: the native executor cannot combine them so.
    """
    kind = KINDS.get(dtype)
    if kind is None:
        raise UsageError(
            f"{what}: elements of {dtype} cannot be combined; the types are {', '.join(d.value for d in DType)}, bool",
            remedy="convert the tensor",
        )
    word = _OPS.get(op)
    if word is None:
        raise UsageError(
            f"{what}: the operation {_name(op)} is not one of SUM, AVG, PRODUCT, MIN, MAX",
            remedy="use one of them, or a group of another backend",
        )
    if dtype is not torch.bool:
        return kind, word
    if word not in _OF_BOOLS:
        raise UsageError(f"{what}: there is no average of bools", remedy="convert the tensor")
    return kind, _OF_BOOLS[word]


def _name(op: Operation) -> str:
    return next(
        (
            name
            for name in ("BAND", "BOR", "BXOR", "PREMUL_SUM")
            if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name)
        ),
        str(op),
    )


def moved(tensor: torch.Tensor) -> tuple[DType, int]:
    """The element type and count by which a tensor is moved; types that cannot be combined travel as bytes."""
    kind = KINDS.get(tensor.dtype)
    return (DType.UINT8, tensor.nbytes) if kind is None else (kind, tensor.numel())


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Itself, or a contiguous copy."""
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def put_back(work: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copy what was done on the stand-in of `dense` to the tensor it stands for."""
    if work is not tensor:
        tensor.copy_(work)


def together(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One vector of all their elements."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def unpack(work: torch.Tensor, places: Sequence[torch.Tensor]) -> None:
    """Copy the parts of a tensor, by its first dimension, to tensors of their size."""
    for part, place in zip(work, places, strict=True):
        place.copy_(part.view(place.shape))


def kind_of(tensor: torch.Tensor) -> tuple[DType, int]:
    """The type by which elements are moved, and its size in bytes."""
    kind = moved(tensor)[0]
    return kind, kind.itemsize


def bytes_of(tensor: torch.Tensor) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """A contiguous tensor's bytes; they keep its memory."""
    if not tensor.numel():
        return np.empty(0, np.uint8)
    found: np.ndarray[tuple[int], np.dtype[np.uint8]] = tensor.detach().reshape(-1).view(torch.uint8).numpy()
    return found
