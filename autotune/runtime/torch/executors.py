"""Who carries out the calls of a group: the native executor for groups of ``mc2``, the portable one for all others.

In:  a process group of any backend. Out: an `Executor`, one for each group, whose choices come from rank 0's table.
May not touch: what the words of a call mean (choosing.py, calls.py).

The first call on a group of another backend is when its ranks agree, so every rank of it has to make that call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist

from ...errors import UsageError
from ...kernels import ErrorFeedback, Shape
from ...kernels.asynchronous import STAGED_BYTES, guarded
from ...kernels.portable import PortableCommunicator
from ...kernels.portable_feedback import TensorFeedback
from ...kernels.programs import layout_of
from ...table import LIBRARY
from ...types import Collective, Config, DType, Memory, ReduceOp
from ..selector import Selector
from .agreement import agree
from .choosing import Ranks
from .pending import LibraryCall, Pending, Ready, Work
from .process_group import ProcessGroup
from .tensors import KINDS, buffer, check

# By the names of torch 2.13, where they are; the older ones warn there.
_ALL_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_TORCH_OPS = {
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.AVG: dist.ReduceOp.AVG,
    ReduceOp.PROD: dist.ReduceOp.PRODUCT,
    ReduceOp.MIN: dist.ReduceOp.MIN,
    ReduceOp.MAX: dist.ReduceOp.MAX,
}


Feedback = ErrorFeedback | TensorFeedback


class Executor(Protocol):
    """One group's end, as calls.py and ddp.py need it. Tensors are contiguous; `source` may be `target`."""

    ranks: Ranks
    rank: int

    def ask(self, shape: Shape, max_error: float | None) -> Config:
        """The table's config."""
        ...

    def run(self, shape: Shape, config: Config, source: torch.Tensor, target: torch.Tensor) -> None:
        """Carry out a call."""
        ...

    def start(self, shape: Shape, config: Config, source: torch.Tensor, target: torch.Tensor) -> Pending:
        """Start a call, or carry it out where nothing can run beside the caller."""
        ...

    def feedback(self) -> Feedback:
        """New residuals, for `start_corrected`."""
        ...

    def start_corrected(
        self, shape: Shape, config: Config, tensor: torch.Tensor, feedback: Feedback, name: str
    ) -> Pending:
        """An all_reduce in place that keeps what a lossy codec drops.

        Args:
            feedback: of this executor.
            name: of the buffer.
        """
        ...


class NativeExecutor:
    """Over the communicator of a group of mc2."""

    def __init__(self, group: ProcessGroup) -> None:
        comm = group.communicator
        # Not the group: its executor would keep it from ending when it is destroyed.
        self._comm, self._selector, self._checks = comm, group.selector, group.checks
        self.rank = comm.rank
        self.ranks = Ranks(n_ranks=comm.n_ranks, host_of=None if comm.hosts is None else comm.hosts.host_of)

    def ask(self, shape: Shape, max_error: float | None) -> Config:
        return _ask(self._selector, "native", shape, self.ranks, max_error)

    def run(self, shape: Shape, config: Config, source: torch.Tensor, target: torch.Tensor) -> None:
        comm = self._comm
        comm.run(comm.prepare(shape, config), buffer(source), buffer(target))

    def start(self, shape: Shape, config: Config, source: torch.Tensor, target: torch.Tensor) -> Pending:
        comm = self._comm
        call = comm.prepare(shape, config)
        in_place = source.data_ptr() == target.data_ptr()
        staged = not in_place and source.nbytes <= STAGED_BYTES
        own = source.clone() if staged else source

        def plain() -> torch.Tensor:
            comm.group.run(call, buffer(own), buffer(target))
            return target

        run: Callable[[], torch.Tensor] = plain

        if self._checks and not staged:
            view, what = memoryview(buffer(source)), f"{shape.collective.value} of {source.nbytes} bytes"
            run = guarded(plain, view, in_place=in_place, rank=self.rank, what=what, leave=comm.group.leave)
        return comm.submit(run, staged=staged)

    def feedback(self) -> ErrorFeedback:
        return ErrorFeedback()

    def start_corrected(
        self, shape: Shape, config: Config, tensor: torch.Tensor, feedback: Feedback, name: str
    ) -> Pending:
        assert isinstance(feedback, ErrorFeedback), "feedback of another executor"
        comm = self._comm

        def run() -> torch.Tensor:
            comm.all_reduce(
                buffer(tensor),
                shape.op,
                dtype=shape.dtype,
                config=config,
                feedback=feedback,
                name=name,
            )
            return tensor

        return comm.submit(run)


class PortableExecutor:
    """Over torch.distributed's point-to-point operations, or the library's own collective where that is the choice."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        store = dist.PrefixStore("autotune", dist.distributed_c10d._get_process_group_store(group))
        self.rank, n_ranks = dist.get_rank(group), dist.get_world_size(group)
        members = dist.get_process_group_ranks(group)
        agreed = agree(store, self.rank, n_ranks, backend="torch", timeout=None, members=members)
        several = len(set(agreed.hosts)) > 1
        self.ranks = Ranks(n_ranks=n_ranks, host_of=tuple(map(agreed.hosts.index, agreed.hosts)) if several else None)
        self._selector = Selector(agreed.table)
        layout = layout_of(n_ranks, 0, self.ranks.host_of) if several else None
        self._comm = PortableCommunicator(group, selector=self._select, layout=layout, check=agreed.check)

    @property
    def _group(self) -> dist.ProcessGroup:
        return self._comm.group

    def _select(self, collective: Collective, message_bytes: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
        raise AssertionError("every call brings its config")

    def ask(self, shape: Shape, max_error: float | None) -> Config:
        return _ask(self._selector, "torch", shape, self.ranks, max_error)

    def run(self, shape: Shape, config: Config, source: torch.Tensor, target: torch.Tensor) -> None:
        self.start(shape, config, source, target).wait()

    def start(self, shape: Shape, config: Config, source: torch.Tensor, target: torch.Tensor) -> Pending:
        if config.algorithm != LIBRARY.algorithm:
            self._comm.run(shape, config, source, target)
            return Ready(target)
        return LibraryCall(self._library(shape, source, target), target)

    def _library(self, shape: Shape, source: torch.Tensor, target: torch.Tensor) -> Work:
        op = shape.op
        if op is ReduceOp.AVG and dist.get_backend(self._group) == dist.Backend.GLOO:
            # gloo has no average; as DistributedDataParallel does, each part is divided before the sum.
            if not source.is_floating_point():
                raise UsageError(f"gloo has no average of {shape.dtype.value}", remedy="use sum, and divide")
            source, op = source / self.ranks.n_ranks, ReduceOp.SUM
        match shape.collective:
            case Collective.ALL_GATHER:
                return _ALL_GATHER(target.view(-1), source.view(-1), group=self._group, async_op=True)
            case Collective.REDUCE_SCATTER:
                flat = target.view(-1), source.view(-1)
                return _REDUCE_SCATTER(*flat, _TORCH_OPS[op], group=self._group, async_op=True)
            case _:
                if source is not target:
                    target.copy_(source)
                return dist.all_reduce(target, _TORCH_OPS[op], group=self._group, async_op=True)

    def feedback(self) -> TensorFeedback:
        return TensorFeedback()

    def start_corrected(
        self, shape: Shape, config: Config, tensor: torch.Tensor, feedback: Feedback, name: str
    ) -> Pending:
        assert isinstance(feedback, TensorFeedback), "feedback of another executor"
        self._comm.all_reduce(tensor, shape.op, config=config, feedback=feedback, name=name)
        return Ready(tensor)


# A destroyed group takes its executor with it, since that does not keep the group.
_executors: weakref.WeakKeyDictionary[Any, Executor] = weakref.WeakKeyDictionary()


def executor(group: dist.ProcessGroup | None) -> Executor:
    """The executor of a group; None for the whole job.

    Raises:
        UsageError: this process is not in the group.
        CommunicatorError: its ranks do not agree.
    """
    if group is None:
        group = dist.group.WORLD
    if group is None or dist.get_rank(group) < 0:
        raise UsageError(
            "this process is not in the group" if group is not None else "torch.distributed is not initialised",
            remedy="call it on the group's members, after torch.distributed.init_process_group()",
        )
    known = _executors.get(group)
    if known is None:
        known = NativeExecutor(group) if isinstance(group, ProcessGroup) else PortableExecutor(group)
        _executors[group] = known
    return known


def shape_of(collective: Collective, tensor: torch.Tensor, count: int, op: ReduceOp, native: bool) -> Shape:
    """The call's shape.

    Raises:
        UsageError: elements that cannot be combined, or a tensor that the executor cannot reach.
    """
    if native:
        check(tensor, collective.value)
    kind = KINDS.get(tensor.dtype)
    if kind is None or tensor.dtype is torch.bool:
        raise UsageError(
            f"{collective.value}: elements of {tensor.dtype}", remedy=f"use one of {', '.join(k.value for k in DType)}"
        )
    return Shape(collective, kind, op, 0, count)


def _ask(selector: Selector, backend: str, shape: Shape, ranks: Ranks, max_error: float | None) -> Config:
    return selector.select(
        shape.collective,
        message_bytes=shape.message_bytes(ranks.n_ranks),
        n_ranks=ranks.n_ranks,
        dtype=shape.dtype,
        op=shape.op,
        placement=ranks.placement,
        max_error=max_error,
        backend=backend,
    ).config
