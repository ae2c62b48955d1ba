"""Products and collectives in one: tiles of rows travel while the next tile is multiplied.

In:  this rank's matrices. Out: the product over the whole group, with gradients.
May not touch: how a collective is carried out (calls.py), which number of tiles pays, and whether the vendor's operator
does (tiles.py).

The three forms are those of tensor-parallel layers, and of CANN's MC2 operators:

    matmul_all_reduce(x, w)       sum over ranks of x @ w       x (m, k/n)   w (k/n, p)   ->  (m, p)
    all_gather_matmul(x, w)       all ranks' rows of x @ w      x (m/n, k)   w (k, p/n)   ->  (m, p/n)
    matmul_reduce_scatter(x, w)   own rows of the sum           x (m, k/n)   w (k/n, p)   ->  (m/n, p)

Rows of leading dimensions count as one. All ranks call alike; the results of tiles are those of the unfused calls up to
the order in which a matrix product adds, which may depend on its number of rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from ...errors import UsageError
from ...table.tiles import Fusion
from .calls import mc2_all_gather, mc2_all_reduce, mc2_reduce_scatter
from .pending import Pending
from .tiles import Way, way_of
from .vendor import operators

Context = Any  # torch's, of an autograd function


def matmul_all_reduce(
    x: torch.Tensor, w: torch.Tensor, *, tiles: int | None = None, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """The sum over ranks of ``x @ w`` (row-parallel layer).

    Args:
        x: (..., k) with this rank's part of the inner dimension.
        w: (k, p).
        tiles: of rows, that travel one by one; 1 is a product and then a collective. None: what `tune_tiles` found for
            this shape, else 1.
        group: None for the whole job.

    Returns:
        (..., p), equal on all ranks.

    Raises:
        UsageError: shapes that do not fit, or a number of tiles below 1.
        CommunicatorError: ranks called different things, or a rank is gone.
    """
    rows = _rows(x, w)
    made = _MatmulAllReduce.apply(rows, w, way_of(Fusion.MATMUL_ALL_REDUCE, rows, w, tiles, group), group)
    return made.view(*x.shape[:-1], w.shape[1])


def all_gather_matmul(
    x: torch.Tensor, w: torch.Tensor, *, tiles: int | None = None, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """All ranks' rows, multiplied with this rank's columns (column-parallel layer on rows split by sequence).

    Args: as `matmul_all_reduce`; x is (m, k), this rank's rows.

    Returns:
        (n_ranks * m, p), rows in the order of ranks.
    """
    _two_dimensions(x)
    rows = _rows(x, w)
    made: torch.Tensor = _AllGatherMatmul.apply(rows, w, way_of(Fusion.ALL_GATHER_MATMUL, rows, w, tiles, group), group)
    return made


def matmul_reduce_scatter(
    x: torch.Tensor, w: torch.Tensor, *, tiles: int | None = None, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """This rank's rows of the sum over ranks of ``x @ w``.

    Args: as `matmul_all_reduce`; x is (n_ranks * m, k).

    Returns:
        (m, p): the rank's part, in the order of ranks.

    Raises:
        UsageError: also where the rows are not a multiple of n_ranks.
    """
    _two_dimensions(x)
    rows, n_ranks = _rows(x, w), dist.get_world_size(group)
    if len(rows) % n_ranks:
        raise UsageError(f"{len(rows)} rows are not a multiple of {n_ranks} ranks", remedy="pad the rows")
    way = way_of(Fusion.MATMUL_REDUCE_SCATTER, rows, w, tiles, group)
    made: torch.Tensor = _MatmulReduceScatter.apply(rows, w, way, group)
    return made


class _MatmulAllReduce(torch.autograd.Function):  # type: ignore[misc] # torch is not type-checked
    """Every rank gets the gradient of the sum whole, so backward sends nothing."""

    @staticmethod
    def forward(
        ctx: Context, x: torch.Tensor, w: torch.Tensor, way: Way, group: dist.ProcessGroup | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return carried_out(Fusion.MATMUL_ALL_REDUCE, way, x, w, group)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        x, w = ctx.saved_tensors
        return grad @ w.t(), x.t() @ grad, None, None


class _AllGatherMatmul(torch.autograd.Function):  # type: ignore[misc] # torch is not type-checked
    """Backward is a matmul_reduce_scatter; the rows are gathered once more instead of being kept."""

    @staticmethod
    def forward(
        ctx: Context, x: torch.Tensor, w: torch.Tensor, way: Way, group: dist.ProcessGroup | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.tiles, ctx.group = way.tiles, group
        return carried_out(Fusion.ALL_GATHER_MATMUL, way, x, w, group)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        x, w = ctx.saved_tensors
        grad = grad.contiguous()
        everyones = mc2_all_gather(x, group=ctx.group)
        assert isinstance(everyones, torch.Tensor)
        return scattered(grad, w.t(), ctx.tiles, ctx.group), everyones.view(-1, x.shape[1]).t() @ grad, None, None


class _MatmulReduceScatter(torch.autograd.Function):  # type: ignore[misc] # torch is not type-checked
    """Backward gathers the gradient whole, in one piece: both products need it."""

    @staticmethod
    def forward(
        ctx: Context, x: torch.Tensor, w: torch.Tensor, way: Way, group: dist.ProcessGroup | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        ctx.group = group
        return carried_out(Fusion.MATMUL_REDUCE_SCATTER, way, x, w, group)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        x, w = ctx.saved_tensors
        grad = grad.contiguous()
        everyones = mc2_all_gather(grad, group=ctx.group)
        assert isinstance(everyones, torch.Tensor)
        whole = everyones.view(-1, grad.shape[1])
        return whole @ w.t(), x.t() @ whole, None, None


def carried_out(
    fusion: Fusion, way: Way, x: torch.Tensor, w: torch.Tensor, group: dist.ProcessGroup | None
) -> torch.Tensor:
    """A fused call without gradients, in a given way."""
    if way.vendor is not None:
        operator = operators(x.device).get(fusion)
        if operator is None:
            raise UsageError(
                f"{fusion.value} was tuned to the vendor's operator, which is not here",
                remedy="give tiles=, or tune it again with tune_tiles()",
            )
        return operator.run(x, w, group, dict(way.vendor))
    run = {
        Fusion.MATMUL_ALL_REDUCE: reduced,
        Fusion.ALL_GATHER_MATMUL: gathered,
        Fusion.MATMUL_REDUCE_SCATTER: scattered,
    }
    return run[fusion](x, w, way.tiles, group)


def reduced(x: torch.Tensor, w: torch.Tensor, tiles: int, group: dist.ProcessGroup | None) -> torch.Tensor:
    """`matmul_all_reduce` without gradients; x is (m, k)."""
    out = x.new_empty(len(x), w.shape[1])
    pending = []
    for rows in _parts(len(x), tiles):
        torch.matmul(x[rows], w, out=out[rows])
        pending.append(_started(mc2_all_reduce(out[rows], async_op=True, overlap=_beside(tiles), group=group)))
    for one in pending:
        one.wait()
    return out


def gathered(x: torch.Tensor, w: torch.Tensor, tiles: int, group: dist.ProcessGroup | None) -> torch.Tensor:
    """`all_gather_matmul` without gradients: a tile of every rank is multiplied while the next ones arrive."""
    n_ranks = dist.get_world_size(group)
    out = x.new_empty(n_ranks, len(x), w.shape[1])
    parts = _parts(len(x), tiles)
    pending = [
        _started(mc2_all_gather(x[rows].contiguous(), async_op=True, overlap=_beside(tiles), group=group))
        for rows in parts
    ]
    for rows, one in zip(parts, pending, strict=True):
        out[:, rows] = one.wait() @ w
    return out.view(n_ranks * len(x), w.shape[1])


def scattered(x: torch.Tensor, w: torch.Tensor, tiles: int, group: dist.ProcessGroup | None) -> torch.Tensor:
    """`matmul_reduce_scatter` without gradients: a tile holds some rows of every rank's part."""
    n_ranks = dist.get_world_size(group)
    own = len(x) // n_ranks
    by_rank = x.view(n_ranks, own, x.shape[1])
    out = x.new_empty(own, w.shape[1])
    parts = _parts(own, tiles)
    pending = [
        _started(mc2_reduce_scatter((by_rank[:, rows] @ w), async_op=True, overlap=_beside(tiles), group=group))
        for rows in parts
    ]
    for rows, one in zip(parts, pending, strict=True):
        out[rows] = one.wait().view(-1, w.shape[1])
    return out


def _parts(rows: int, tiles: int) -> list[slice]:
    """Consecutive ranges of rows, as even as may be; one where there are none."""
    tiles = max(1, min(tiles, rows))
    edges = [rows * tile // tiles for tile in range(tiles + 1)]
    return [slice(low, high) for low, high in pairwise(edges)]


def _beside(tiles: int) -> bool:
    """Tiles run beside the products, however small; a single one has nothing to run beside."""
    return tiles > 1


def _started(call: torch.Tensor | Pending) -> Pending:
    assert not isinstance(call, torch.Tensor)
    return call


def _rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    if x.dim() < 1 or w.dim() != 2 or x.shape[-1] != w.shape[0] or x.dtype != w.dtype:
        raise UsageError(
            f"{tuple(x.shape)} {x.dtype} @ {tuple(w.shape)} {w.dtype} is no product of rows and a matrix of one type",
            remedy="give x (..., k) and w (k, p)",
        )
    return x.reshape(-1, x.shape[-1])


def _two_dimensions(x: torch.Tensor) -> None:
    if x.dim() != 2:
        raise UsageError(f"x has {x.dim()} dimensions, and rows are shared out over ranks", remedy="give x (m, k)")
