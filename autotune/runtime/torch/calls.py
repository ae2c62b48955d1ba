"""Tuned collectives for people who place them by hand, on tensors of any group.

In:  a tensor of this rank. Out: the result, or a handle whose ``wait()`` returns it.
May not touch: how a config is chosen (choosing.py) and who carries it out (executors.py).

Every rank of the group makes the same calls in the same order, with the same words. On a group of ``mc2`` the native
executor runs them; on any other group torch.distributed's point-to-point operations do, or the library's own collective
where the table says so (as it does until ``autotune run --backend torch`` has measured).
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from ...errors import UsageError
from ...kernels.buffers import op_of
from ...types import Collective, ReduceOp
from .choosing import Wishes, choose
from .executors import Executor, NativeExecutor, executor, shape_of
from .pending import AllOf, Pending, Ready
from .tensors import dense, put_back

BESIDE_FROM_BYTES = 256 << 10
"""Asynchronous calls on smaller messages are over when they return: handing one over costs as much as it takes, about
20 us (benchmarks/overlap.py)."""


def mc2_all_reduce(
    tensor: torch.Tensor,
    op: ReduceOp | str = "sum",
    async_op: bool = False,
    compression: bool | str | None = None,
    overlap: bool | int | None = None,
    topo: str | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    max_error: float | None = None,
) -> torch.Tensor | Pending:
    """Combine all ranks' tensors in place; every rank gets the same bits.

    Args:
        op: ``sum``, ``avg``, ``max``, ``min`` or ``prod``.
        async_op: return a handle; the tensor may not be touched before its ``wait()`` has returned.
        compression: None: what was tuned, lossless unless `max_error` is given. True: what was tuned, within
            `max_error`. False: lossless. A codec (``"int8"``, ``"threshold(0.1)"``) forces it.
        overlap: of asynchronous calls. None: small messages are not worth it and are over at once. False: none is. A
            number of tiles: that many operations one after the other (True: one).
        topo: ``"ring"``, ``"tree"``, or over several hosts ``"hierarchical"`` restricts the choice to that family.
        group: None for the whole job.
        max_error: allowed error relative to the norm.

    Returns:
        `tensor`, or a handle.

    Raises:
        UsageError: words that cannot be meant, or that the group's executor cannot do.
        CommunicatorError: ranks called different things, or a rank is gone.
    """
    runner = executor(group)
    wishes = Wishes(compression=compression, max_error=max_error, topo=topo)
    work = dense(tensor.detach())
    tiles = _tiles(overlap)
    flat = work.view(-1)
    parts = flat.chunk(tiles) if tiles > 1 and flat.numel() else [flat]
    pending = [_one(runner, wishes, Collective.ALL_REDUCE, p, p, op_of(op), async_op, overlap) for p in parts]
    return _finished(pending[0] if len(pending) == 1 else AllOf(pending), async_op, tensor, work)


def mc2_all_gather(
    tensor: torch.Tensor,
    async_op: bool = False,
    compression: bool | str | None = None,
    overlap: bool | int | None = None,
    topo: str | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    max_error: float | None = None,
) -> torch.Tensor | Pending:
    """Every rank gets all ranks' tensors: a new tensor (n_ranks, *shape), in the order of ranks.

    Args: as `mc2_all_reduce`, but `overlap` is no number above 1. An input of up to 256 KiB may be changed as soon as
    an asynchronous call has returned, a larger one not before ``wait()``.
    """
    _one_tile(overlap)
    runner = executor(group)
    work = dense(tensor.detach())
    out = work.new_empty((runner.ranks.n_ranks, *work.shape))
    wishes = Wishes(compression=compression, max_error=max_error, topo=topo)
    pending = _one(runner, wishes, Collective.ALL_GATHER, work, out, ReduceOp.SUM, async_op, overlap)
    return _finished(pending, async_op, out, out)


def mc2_reduce_scatter(
    tensor: torch.Tensor,
    op: ReduceOp | str = "sum",
    async_op: bool = False,
    compression: bool | str | None = None,
    overlap: bool | int | None = None,
    topo: str | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    max_error: float | None = None,
) -> torch.Tensor | Pending:
    """Combine all ranks' tensors; rank r gets the r-th of n_ranks parts of the first dimension, as a new tensor.

    Args: as `mc2_all_gather`.

    Raises:
        UsageError: also where the first dimension is not a multiple of n_ranks.
    """
    _one_tile(overlap)
    runner = executor(group)
    work = dense(tensor.detach())
    rows = work.shape[0] if work.dim() else 1
    if rows % runner.ranks.n_ranks:
        raise UsageError(
            f"reduce_scatter: {rows} rows are not a multiple of {runner.ranks.n_ranks} ranks", remedy="pad the tensor"
        )
    out = work.new_empty((rows // runner.ranks.n_ranks, *work.shape[1:]))
    wishes = Wishes(compression=compression, max_error=max_error, topo=topo)
    pending = _one(runner, wishes, Collective.REDUCE_SCATTER, work, out, op_of(op), async_op, overlap)
    return _finished(pending, async_op, out, out)


def _one(
    runner: Executor,
    wishes: Wishes,
    collective: Collective,
    source: torch.Tensor,
    target: torch.Tensor,
    op: ReduceOp,
    async_op: bool,
    overlap: bool | int | None,
) -> Pending:
    """One operation; over already where nothing is to run beside the caller."""
    part = target if collective is Collective.REDUCE_SCATTER else source
    shape = shape_of(collective, source, part.numel(), op, isinstance(runner, NativeExecutor))
    config = choose(wishes, lambda budget: runner.ask(shape, budget), collective, runner.ranks)
    small = overlap is None and shape.message_bytes(runner.ranks.n_ranks) < BESIDE_FROM_BYTES
    if async_op and overlap is not False and not small:
        return runner.start(shape, config, source, target)
    runner.run(shape, config, source, target)
    return Ready(target)


class _PutBack:
    """A call on a stand-in; whoever waits first copies the result to where it belongs, and gets the caller's tensor."""

    def __init__(self, pending: Pending, tensor: torch.Tensor, work: torch.Tensor) -> None:
        self._pending, self._tensor = pending, tensor
        self._work: torch.Tensor | None = work
        self.done, self.when_done, self.error = pending.done, pending.when_done, pending.error

    def wait(self, timeout: float | None = None) -> torch.Tensor:
        self._pending.wait(timeout)
        if self._work is not None:
            with torch.no_grad():
                if self._work.data_ptr() != self._tensor.data_ptr():
                    put_back(self._work, self._tensor)
            self._work = None
        return self._tensor


def _finished(pending: Pending, async_op: bool, tensor: torch.Tensor, work: torch.Tensor) -> torch.Tensor | Pending:
    handle = _PutBack(pending, tensor, work)
    return handle if async_op else handle.wait()


def _tiles(overlap: bool | int | None) -> int:
    if overlap is None or isinstance(overlap, bool):
        return 1
    if not isinstance(overlap, int) or overlap < 1:
        raise UsageError(f"overlap is {overlap!r}, not a number of tiles from 1", remedy="leave it out, or give False")
    return overlap


def _one_tile(overlap: bool | int | None) -> None:
    if _tiles(overlap) > 1:
        raise UsageError(
            f"overlap is {overlap}: only all_reduce travels in tiles", remedy="leave it out for the tuned choice"
        )
