"""The tensors of a call, checked before anything is sent.

In:  a call's shape, a rank's input and output as the caller gave them. Out: vectors over the same memory.
May not touch: other ranks, what is in the tensors.
"""

from __future__ import annotations

import torch

from ..errors import UsageError
from ..types import Collective
from .knobs import Shape


def lengths(shape: Shape, n: int) -> tuple[int, int]:
    """Elements of a rank's input and output, where it has them."""
    all_in = shape.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER, Collective.ALL_TO_ALL)
    all_out = shape.collective in (Collective.ALL_GATHER, Collective.GATHER, Collective.ALL_TO_ALL)
    return shape.count * (n if all_in else 1), shape.count * (n if all_out else 1)


def flat(
    shape: Shape, n: int, rank: int, source: torch.Tensor | None, target: torch.Tensor | None
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Input and output as vectors, checked; None where this rank has none.

    Raises:
        UsageError: a missing tensor, one of another size, type or device, not contiguous, or an overlap in part.
    """
    collective, here = shape.collective, rank == shape.root
    in_count, out_count = lengths(shape, n)
    reads = here or collective not in (Collective.BROADCAST, Collective.SCATTER)
    writes = here or collective not in (Collective.REDUCE, Collective.GATHER)
    found: list[torch.Tensor | None] = []
    for role, tensor, used, count in (
        ("input", source, reads, in_count),
        ("output", target, writes, out_count),
    ):
        if not used:
            found.append(None)
            continue
        if tensor is None:
            raise UsageError(f"{collective.value}: rank {rank} gives no {role}", remedy=f"give a tensor as {role}")
        if tensor.numel() != count or str(tensor.dtype) != f"torch.{shape.dtype.value}":
            raise UsageError(
                f"{collective.value}: the {role} has {tensor.numel()} elements of {tensor.dtype}, "
                f"not {count} of torch.{shape.dtype.value}",
                remedy=f"give {role} that size and type",
            )
        if not tensor.is_contiguous():
            raise UsageError(
                f"{collective.value}: the {role} of shape {tuple(tensor.shape)} is not contiguous",
                remedy="give tensor.contiguous()",
            )
        found.append(tensor.detach().view(-1))
    flat_source, flat_target = found
    if flat_source is not None and flat_target is not None:
        if flat_source.device != flat_target.device:
            raise UsageError(
                f"{collective.value}: the input is on {flat_source.device}, the output on {flat_target.device}",
                remedy="give tensors of one device",
            )
        _check_overlap(shape, rank, flat_source, flat_target)
    return flat_source, flat_target


def _check_overlap(shape: Shape, rank: int, source: torch.Tensor, target: torch.Tensor) -> None:
    item = shape.dtype.itemsize
    first, last = source.data_ptr(), target.data_ptr()
    if first >= last + target.numel() * item or last >= first + source.numel() * item:
        return
    part = rank * shape.count * item
    match shape.collective:
        case Collective.ALL_GATHER | Collective.GATHER:
            allowed = first == last + part
        case Collective.REDUCE_SCATTER | Collective.SCATTER:
            allowed = last == first + part
        case Collective.ALL_TO_ALL:
            allowed = False
        case _:
            allowed = first == last
    if not allowed:
        raise UsageError(
            f"{shape.collective.value}: input and output overlap in another way than in place",
            remedy="give another output",
        )
