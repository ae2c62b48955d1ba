"""Gathering without an explosion of memory: in pieces of bounded size, and KV caches layer by layer.

In:  this rank's tensor or cache. Out: the gathered one, piece by piece, with its peak memory known beforehand.
May not touch: how a collective is carried out (calls.py), or which codec is legal (the kernels).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist

from ...errors import UsageError
from .calls import mc2_all_gather


def chunked_all_gather(
    tensor: torch.Tensor,
    max_bytes: int,
    *,
    compression: str | None = None,
    max_error: float | None = None,
    group: dist.ProcessGroup | None = None,
) -> Iterator[tuple[slice, torch.Tensor]]:
    """All ranks' tensors, a range of rows at a time; every rank runs through it to its end, in step.

    Args:
        tensor: (rows, ...), of equal shape on all ranks.
        max_bytes: what one gathered piece may take; at least one row of every rank.
        compression: a codec for the way, such as ``"int8"`` or ``"int4"``, with its scales.
        max_error: as for mc2_all_gather.

    Yields:
        The rows, and (n_ranks, rows of the piece, ...). A piece is a new tensor: keep it, and the bound is yours.

    Raises:
        UsageError: a bound below one row of every rank.
    """
    n_ranks = dist.get_world_size(group)
    row_bytes = n_ranks * tensor[:1].numel() * tensor.element_size()
    if row_bytes > max_bytes:
        raise UsageError(
            f"one row of each of {n_ranks} ranks is {row_bytes} bytes, above max_bytes {max_bytes}",
            remedy=f"max_bytes={row_bytes} or more, or rows that are shorter",
        )
    rows = max(1, max_bytes // row_bytes) if row_bytes else max(1, len(tensor))
    for low in range(0, len(tensor), rows):
        part = slice(low, min(low + rows, len(tensor)))
        piece = mc2_all_gather(tensor[part], compression=compression, max_error=max_error, group=group)
        assert isinstance(piece, torch.Tensor)
        yield part, piece


class KVCacheAllGatherer:
    """Keys and values of all ranks' tokens, a block of heads of one layer at a time.

    Each rank holds S tokens of H heads of width D for each layer. Whole, a gathered layer takes
    2 x N x S x H x D x itemsize bytes; gathered by blocks of heads, never more than `max_bytes`.

    Args:
        max_bytes: for one gathered block, keys and values together.
        compression: a codec for the way (``"int8"``, ``"int4"``), whose error the caller accepts.
        max_error: as for mc2_all_gather.

    Raises:
        UsageError: one head of one layer does not fit (in `gather`).
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        compression: str | None = None,
        max_error: float | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._compression, self._max_error, self._group = compression, max_error, group

    def predicted_bytes(self, tokens: int, heads: int, width: int, itemsize: int) -> int:
        """The largest block that `gather` makes of such a layer: known before anything is allocated.

        Raises:
            UsageError: one head does not fit.
        """
        return self._head_bytes(tokens, width, itemsize) * self._heads_at_once(tokens, heads, width, itemsize)

    def gather(self, keys: torch.Tensor, values: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
        """Blocks of heads with the tokens of all ranks, in the order of ranks; all ranks run through it in step.

        Args:
            keys: (H, S, D) of this rank's tokens, of equal shape on all ranks; so are values.

        Yields:
            The heads, keys (heads, n_ranks, S, D), and values of that shape: views of what arrived, whose first two
            dimensions are not contiguous. Flattening them to (heads, n_ranks * S, D) copies, and doubles the peak.

        Raises:
            UsageError: other shapes, or one head does not fit.
        """
        if keys.dim() != 3 or keys.shape != values.shape or keys.dtype != values.dtype:
            raise UsageError(
                f"keys {tuple(keys.shape)} {keys.dtype}, values {tuple(values.shape)} {values.dtype}",
                remedy="give both as (heads, tokens, width) of one type",
            )
        heads, tokens, width = keys.shape
        at_once = self._heads_at_once(tokens, heads, width, keys.element_size())
        for low in range(0, heads, at_once):
            part = slice(low, min(low + at_once, heads))
            yield part, self._gathered(keys[part]), self._gathered(values[part])

    def _gathered(self, block: torch.Tensor) -> torch.Tensor:
        found = mc2_all_gather(
            block.contiguous(), compression=self._compression, max_error=self._max_error, group=self._group
        )
        assert isinstance(found, torch.Tensor)
        return found.transpose(0, 1)

    def _head_bytes(self, tokens: int, width: int, itemsize: int) -> int:
        """Of one head, keys and values of all ranks."""
        n_ranks: int = dist.get_world_size(self._group)
        return 2 * n_ranks * tokens * width * itemsize

    def _heads_at_once(self, tokens: int, heads: int, width: int, itemsize: int) -> int:
        one = self._head_bytes(tokens, width, itemsize)
        if one > self._max_bytes:
            raise UsageError(
                f"one head of {tokens} tokens takes {one} bytes gathered, above max_bytes {self._max_bytes}",
                remedy=f"max_bytes={one} or more, or fewer tokens at once",
            )
        return max(1, min(heads, self._max_bytes // max(1, one)))
