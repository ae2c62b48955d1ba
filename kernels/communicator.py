"""The Python face of the native executor: one rank's end of a group, with the collectives as methods.

In:  a descriptor of the group's shared segment, a rank, a selector that names a config for every call.
Out: results in the caller's buffers (NumPy arrays or any contiguous buffer), or a CommunicatorError on every rank.
May not touch: tables, settings, topology; `autotune.communicator` brings those together.

Sizes. `message_bytes` of DESIGN.md section 3. Where a collective splits by rank, rank r's part of a buffer is its
r-th of n equal parts. Buffers need no alignment. Every method must be called by every rank of the group, in the same
order, with equal arguments (send and recv apart); a rank that does otherwise gets an error that names the difference,
and so do the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from ..errors import UsageError
from ..types import Collective, Config, DType, Memory, ReduceOp
from . import _native
from .buffers import elements, like, named, numpy_dtype, op_of
from .calls import DTYPE_NUMBER, Calls, Shape
from .feedback import ErrorFeedback, run_with_feedback
from .splits import agreed_counts
from .symmetric import PRIVATE, Placing, SymmetricMemory

if TYPE_CHECKING:
    from .buffers import Buffer

Selector = Callable[[Collective, int, DType, ReduceOp, Memory], Config]
"""(collective, message_bytes, dtype, op, memory) -> config; must answer alike on every rank."""


_ASKED_KEPT = 4096
_EXCHANGE = Config(algorithm="direct", segment_bytes=65536)
_BARRIER = Config(algorithm="flat", segment_bytes=4096)
_BYTE = Shape(Collective.ALL_REDUCE, DType.UINT8, ReduceOp.MAX, 0, 1)


class Communicator:
    """One rank of a group on one host; a context manager.

    Args:
        fd: the group's segment, from ``create_segment``; it may be closed afterwards.
        selector: names the config of calls that bring none.
        cores: cores that the ranks share, for how to wait.
        timeout_s: the longest wait for another rank.
        check: compare the whole arguments of every call before it starts.
        room_bytes: says how much memory this host can still give; None where that is not known.

    Raises:
        CommunicatorError: not all ranks joined within timeout_s.
    """

    def __init__(
        self,
        fd: int,
        rank: int,
        n_ranks: int,
        *,
        selector: Selector,
        cores: int,
        timeout_s: float,
        check: bool = False,
        room_bytes: Callable[[], int | None] = lambda: None,
    ) -> None:
        # Spinning pays only while nobody else needs the core (measured: 2000 looks are about 50 us).
        spins = 2000 if n_ranks <= cores else 0
        self._group: _native.Group | None = _native.Group(fd, rank, spins, 400, timeout_s, check)
        if self._group.n_ranks != n_ranks:
            raise UsageError(
                f"the segment is for {self._group.n_ranks} ranks, not {n_ranks}", remedy="give all ranks one segment"
            )
        self._calls = Calls()
        self._selector = selector
        self._asked: dict[tuple[int, int, np.dtype[Any], ReduceOp | str, int, Placing], _native.Call] = {}
        self._symmetric: SymmetricMemory | None = SymmetricMemory(self._group, room_bytes)
        self.rank = rank
        self.n_ranks = n_ranks
        self._token, self._sink = bytearray(1), bytearray(1)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group. Ranks that still wait for this one get an error."""
        if self._group is not None:
            self._group.leave()
            self._group = self._symmetric = None  # the last array of allocate may still hold the group

    @property
    def group(self) -> _native.Group:
        """The native group, for measuring.

        Raises:
            UsageError: the communicator is closed.
        """
        if self._group is None:
            raise self._closed()
        return self._group

    @staticmethod
    def _closed() -> UsageError:
        return UsageError("the communicator is closed", remedy="make a new one")

    def prepare(self, shape: Shape, config: Config | None = None, placing: Placing = PRIVATE) -> _native.Call:
        """The native call for these arguments, by the selector's config unless one is given.

        Args:
            placing: where its buffers will lie.

        Raises:
            UsageError: a config that the native executor cannot carry out, or not there.
        """
        if config is None:
            size = shape.message_bytes(self.n_ranks)
            config = self._selector(shape.collective, size, shape.dtype, shape.op, placing.memory)
        call = self._calls.call(self.group, shape, config, in_place=placing.in_place)
        if call.zero_copy and placing.memory is Memory.PRIVATE:
            raise UsageError(
                f"{shape.collective.value} by {config}: the buffers are not in symmetric memory",
                remedy="allocate them with Communicator.allocate, on every rank, or use exchange=staged",
            )
        return call

    def allocate(
        self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: DType | str = DType.FLOAT32
    ) -> np.ndarray[Any, Any]:
        """A new array of zeros in symmetric memory; every rank calls it, with equal arguments.

        Collectives whose buffers all lie in symmetric memory, at the same place on every rank, can do without copies.
        Views of the array are as good as the array. It stays until `free`, or until the last rank is gone.

        Args:
            dtype: ``"bfloat16"`` gives 16-bit integers.

        Raises:
            UsageError: ranks differ in what they ask for, or it does not fit (nothing was allocated on any rank).
        """
        kind = dtype if isinstance(dtype, DType) else named(DType, dtype)
        sides = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
        return self._memory().allocate(sides, numpy_dtype(kind), self._everyones)

    def free(self, array: np.ndarray[Any, Any]) -> None:
        """Give back an array of `allocate`; every rank calls it. Its memory may not be used any more."""
        self._memory().free(array, self._everyones)

    def _memory(self) -> SymmetricMemory:
        if self._symmetric is None:
            raise self._closed()
        return self._symmetric

    def _call(
        self,
        collective: Collective,
        sized: Buffer,
        dtype: DType | str | None,
        op: ReduceOp | str,
        root: int,
        config: Config | None,
        array: Buffer | None,
        out: Buffer | None,
    ) -> _native.Call:
        """The native call whose count `sized` gives. What a NumPy array asks for again costs one look-up."""
        placing = self._symmetric.placing(collective, array, out) if self._symmetric else PRIVATE
        key = None  # the id, since an enum's hash is Python code
        if config is None and dtype is None and type(sized) is np.ndarray:
            key = (id(collective), sized.nbytes, sized.dtype, op, root, placing)
            known = self._asked.get(key)
            if known is not None:
                return known
        if not 0 <= root < self.n_ranks:
            raise UsageError(f"root {root} is not a rank of a group of {self.n_ranks}", remedy="give a rank as root")
        kind, count = elements(sized, dtype)
        if collective is Collective.ALL_TO_ALL:
            if count % self.n_ranks:
                raise UsageError(
                    f"all_to_all: {count} elements are not a multiple of {self.n_ranks} ranks",
                    remedy="use all_to_all_v",
                )
            count //= self.n_ranks
        call = self.prepare(Shape(collective, kind, op_of(op), root, count), config, placing)
        if key is not None:
            if len(self._asked) >= _ASKED_KEPT:
                self._asked.clear()
            self._asked[key] = call
        return call

    def all_reduce(
        self,
        array: Buffer,
        op: ReduceOp | str = "sum",
        *,
        out: Buffer | None = None,
        dtype: DType | str | None = None,
        config: Config | None = None,
        feedback: ErrorFeedback | None = None,
        name: str | None = None,
    ) -> Buffer:
        """Combine all ranks' arrays; every rank gets the result, bit for bit the same.

        Args:
            array: this rank's contribution; overwritten with the result unless `out` is given.
            op: ``sum``, ``prod``, ``max``, ``min`` or ``avg``.
            dtype: the element type where the buffer does not say it (``"bfloat16"`` over 16-bit integers).
            feedback: adds what lossy codecs dropped in earlier calls of that `name`, and keeps what this one drops. For
                ``sum`` and ``avg``.
            name: the buffer's, for `feedback`.

        Returns:
            `out`, or `array`.
        """
        target = array if out is None else out
        if feedback is not None or name is not None:
            call = self._call(Collective.ALL_REDUCE, array, dtype, op, 0, config, None, None)
            run_with_feedback(self.group, call, array, target, op, dtype, feedback, name)
            return target
        self.group.run(self._call(Collective.ALL_REDUCE, array, dtype, op, 0, config, array, target), array, target)
        return target

    def all_gather(
        self,
        array: Buffer,
        out: Buffer | None = None,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
    ) -> Buffer:
        """Every rank gets all ranks' arrays, in the order of ranks.

        Args:
            out: n_ranks times the size of `array`; a new NumPy array of shape (n_ranks, *array.shape) if None.
                In place: `array` is the rank-th part of `out`.
        """
        target = like(array, (self.n_ranks,)) if out is None else out
        self.group.run(self._call(Collective.ALL_GATHER, array, dtype, "sum", 0, config, array, target), array, target)
        return target

    def reduce_scatter(
        self,
        array: Buffer,
        out: Buffer,
        op: ReduceOp | str = "sum",
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        feedback: ErrorFeedback | None = None,
        name: str | None = None,
    ) -> Buffer:
        """Combine all ranks' arrays; rank r gets the r-th part of the result.

        Args:
            array: n_ranks times the size of `out`. In place: `out` is the rank-th part of `array`.
            feedback, name: as for `all_reduce`.
        """
        if feedback is not None or name is not None:
            call = self._call(Collective.REDUCE_SCATTER, out, dtype, op, 0, config, None, None)
            run_with_feedback(self.group, call, array, out, op, dtype, feedback, name)
            return out
        self.group.run(self._call(Collective.REDUCE_SCATTER, out, dtype, op, 0, config, array, out), array, out)
        return out

    def broadcast(
        self, array: Buffer, root: int = 0, *, dtype: DType | str | None = None, config: Config | None = None
    ) -> Buffer:
        """Every rank gets the root's array, in place."""
        source = array if self.rank == root else None
        self.group.run(self._call(Collective.BROADCAST, array, dtype, "sum", root, config, array, array), source, array)
        return array

    def reduce(
        self,
        array: Buffer,
        op: ReduceOp | str = "sum",
        *,
        root: int = 0,
        out: Buffer | None = None,
        dtype: DType | str | None = None,
        config: Config | None = None,
    ) -> Buffer:
        """Combine all ranks' arrays; the root gets the result, in `array` unless it gives `out`.

        In symmetric memory every rank gives `out`, or none does: the others write into the root's.
        """
        target = array if out is None else out
        call = self._call(Collective.REDUCE, array, dtype, op, root, config, array, target)
        self.group.run(call, array, target if self.rank == root or call.zero_copy else None)
        return target if self.rank == root else array

    def scatter(
        self,
        array: Buffer | None,
        out: Buffer,
        root: int = 0,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
    ) -> Buffer:
        """Rank r gets the r-th part of the root's array; `array` is None on the other ranks."""
        source = array if self.rank == root else None
        self.group.run(self._call(Collective.SCATTER, out, dtype, "sum", root, config, None, None), source, out)
        return out

    def gather(
        self,
        array: Buffer,
        out: Buffer | None = None,
        root: int = 0,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
    ) -> Buffer | None:
        """The root gets all ranks' arrays, in the order of ranks, in `out` (None on the other ranks)."""
        target = out if self.rank == root else None
        self.group.run(self._call(Collective.GATHER, array, dtype, "sum", root, config, None, None), array, target)
        return target

    def all_to_all(
        self, array: Buffer, out: Buffer, *, dtype: DType | str | None = None, config: Config | None = None
    ) -> Buffer:
        """Rank s's r-th part becomes rank r's s-th part. `out` has the size of `array` and does not overlap it."""
        self.group.run(self._call(Collective.ALL_TO_ALL, array, dtype, "sum", 0, config, array, out), array, out)
        return out

    def all_to_all_v(
        self,
        array: Buffer,
        out: Buffer,
        send_counts: Sequence[int],
        recv_counts: Sequence[int],
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
    ) -> Buffer:
        """all_to_all with unequal parts, as expert parallelism needs: parts follow each other without gaps.

        All ranks' counts are exchanged first, so that a pair that disagrees is an error on every rank and the largest
        part is known to all; configs are chosen by n_ranks times that part.

        Args:
            send_counts: elements for each rank; they sum to the size of `array`.
            recv_counts: elements from each rank; they sum to the size of `out`.
        """
        kind, _ = elements(array, dtype)
        sent = agreed_counts(send_counts, recv_counts, self.n_ranks, self._everyones)
        shape = Shape(Collective.ALL_TO_ALL, kind, ReduceOp.SUM, 0, int(sent.max()))
        self.group.run_split(self.prepare(shape, config), array, out, list(send_counts), list(recv_counts))
        return out

    def _everyones(self, mine: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """All ranks' arrays, one after the other."""
        everyone = np.empty((self.n_ranks, *mine.shape), np.int64)
        self.all_gather(mine, everyone, config=_EXCHANGE)
        return everyone

    def send(self, array: Buffer, to: int, *, dtype: DType | str | None = None) -> None:
        """Send to one rank; returns when at most 256 KiB of it are still on the way."""
        kind, _ = elements(array, dtype)
        self._check_peer(to)
        self.group.send(to, array, DTYPE_NUMBER[kind])

    def recv(self, array: Buffer, source: int, *, dtype: DType | str | None = None) -> Buffer:
        """Receive from one rank, in the order of its sends; count and type must be the sender's."""
        kind, _ = elements(array, dtype)
        self._check_peer(source)
        self.group.recv(source, array, DTYPE_NUMBER[kind])
        return array

    def _check_peer(self, peer: int) -> None:
        if peer == self.rank or not 0 <= peer < self.n_ranks:
            raise UsageError(
                f"rank {self.rank} of {self.n_ranks} cannot exchange with rank {peer}",
                remedy="give another rank of the group",
            )

    def barrier(self) -> None:
        """Return when every rank has called it."""
        self.group.run(self.barrier_call(), self._token, self._sink)

    def barrier_call(self) -> _native.Call:
        """The native call behind `barrier`, for measuring."""
        return self._calls.call(self.group, _BYTE, _BARRIER)
