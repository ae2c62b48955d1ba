"""The collectives as methods of a communicator: arguments in, prepared native calls out, at once or under way.

    issuing ──► combining ──► collectives (those that move, point to point, barrier)

In:  the caller's buffers. Out: results in them, or a `Handle` where ``async_op=True`` asks for one (asynchronous.py).
May not touch: how a group comes about and where configs come from, which is `Communicator`'s part.

With ``async_op=True`` a call returns as soon as its arguments are checked. Calls of one communicator are carried out in
order of issue, whether they are waited for or not; a synchronous call comes after all that were issued before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

from ..errors import UsageError
from ..types import Collective, Config, DType, ReduceOp
from .buffers import elements, like
from .combining import Combining
from .knobs import Shape
from .programs import DTYPE_NUMBER
from .splits import agreed_counts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .asynchronous import Handle
    from .buffers import Buffer
    from .combining import Moving
    from .symmetric import Everyones


class Collectives(Combining):
    """The methods of `Communicator` that reach other ranks' buffers; see there for what all have in common."""

    _everyones: Everyones

    @overload
    def all_gather(
        self, array: Buffer, out: Buffer | None = ..., *, async_op: Literal[False] = ..., **rest: Unpack[Moving]
    ) -> Buffer: ...
    @overload
    def all_gather(
        self, array: Buffer, out: Buffer | None = ..., *, async_op: Literal[True], **rest: Unpack[Moving]
    ) -> Handle[Buffer]: ...
    def all_gather(
        self,
        array: Buffer,
        out: Buffer | None = None,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Every rank gets all ranks' arrays, in the order of ranks.

        Args:
            out: n_ranks times the size of `array`; a new NumPy array of shape (n_ranks, *array.shape) if None.
                In place: `array` is the rank-th part of `out`.
        """
        target = like(array, (self.n_ranks,)) if out is None else out
        call = self._call(Collective.ALL_GATHER, array, dtype, "sum", 0, config, array, target)
        if self._direct is None or async_op:
            return self._do(Collective.ALL_GATHER, call, array, target, target, async_op)
        self._direct(call, array, target)
        return target

    @overload
    def broadcast(
        self, array: Buffer, root: int = ..., *, async_op: Literal[False] = ..., **rest: Unpack[Moving]
    ) -> Buffer: ...
    @overload
    def broadcast(
        self, array: Buffer, root: int = ..., *, async_op: Literal[True], **rest: Unpack[Moving]
    ) -> Handle[Buffer]: ...
    def broadcast(
        self,
        array: Buffer,
        root: int = 0,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Every rank gets the root's array, in place."""
        source = array if self.rank == root else None
        call = self._call(Collective.BROADCAST, array, dtype, "sum", root, config, array, array)
        if self._direct is None or async_op:
            return self._do(Collective.BROADCAST, call, source, array, array, async_op)
        self._direct(call, source, array)
        return array

    @overload
    def scatter(
        self,
        array: Buffer | None,
        out: Buffer,
        root: int = ...,
        *,
        async_op: Literal[False] = ...,
        **rest: Unpack[Moving],
    ) -> Buffer: ...
    @overload
    def scatter(
        self, array: Buffer | None, out: Buffer, root: int = ..., *, async_op: Literal[True], **rest: Unpack[Moving]
    ) -> Handle[Buffer]: ...
    def scatter(
        self,
        array: Buffer | None,
        out: Buffer,
        root: int = 0,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Rank r gets the r-th part of the root's array; `array` is None on the other ranks."""
        source = array if self.rank == root else None
        call = self._call(Collective.SCATTER, out, dtype, "sum", root, config, None, None)
        return self._do(Collective.SCATTER, call, source, out, out, async_op)

    @overload
    def gather(
        self,
        array: Buffer,
        out: Buffer | None = ...,
        root: int = ...,
        *,
        async_op: Literal[False] = ...,
        **rest: Unpack[Moving],
    ) -> Buffer | None: ...
    @overload
    def gather(
        self,
        array: Buffer,
        out: Buffer | None = ...,
        root: int = ...,
        *,
        async_op: Literal[True],
        **rest: Unpack[Moving],
    ) -> Handle[Buffer | None]: ...
    def gather(
        self,
        array: Buffer,
        out: Buffer | None = None,
        root: int = 0,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer | None] | None:
        """The root gets all ranks' arrays, in the order of ranks, in `out` (None on the other ranks)."""
        target = out if self.rank == root else None
        call = self._call(Collective.GATHER, array, dtype, "sum", root, config, None, None)
        return self._do(Collective.GATHER, call, array, target, target, async_op)

    @overload
    def all_to_all(
        self, array: Buffer, out: Buffer, *, async_op: Literal[False] = ..., **rest: Unpack[Moving]
    ) -> Buffer: ...
    @overload
    def all_to_all(
        self, array: Buffer, out: Buffer, *, async_op: Literal[True], **rest: Unpack[Moving]
    ) -> Handle[Buffer]: ...
    def all_to_all(
        self,
        array: Buffer,
        out: Buffer,
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
        async_op: bool = False,
    ) -> Buffer | Handle[Buffer]:
        """Rank s's r-th part becomes rank r's s-th part. `out` has the size of `array` and does not overlap it."""
        call = self._call(Collective.ALL_TO_ALL, array, dtype, "sum", 0, config, array, out)
        return self._do(Collective.ALL_TO_ALL, call, array, out, out, async_op)

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
        part is known to all; configs are chosen by n_ranks times that part. It has to be waited for; `submit` runs it
        beside a computation.

        Args:
            send_counts: elements for each rank; they sum to the size of `array`.
            recv_counts: elements from each rank; they sum to the size of `out`.
        """
        kind, _ = elements(array, dtype)
        sent = agreed_counts(send_counts, recv_counts, self.n_ranks, self._everyones)
        call = self.prepare(Shape(Collective.ALL_TO_ALL, kind, ReduceOp.SUM, 0, int(sent.max())), config, unequal=True)
        self.in_turn(lambda: self.group.run_split(call, array, out, list(send_counts), list(recv_counts)))
        return out

    def send(self, array: Buffer, to: int, *, dtype: DType | str | None = None) -> None:
        """Send to one rank; returns when at most 256 KiB of it are still on the way."""
        kind, _ = elements(array, dtype)
        self._check_peer(to)
        self.in_turn(lambda: self.group.send(to, array, DTYPE_NUMBER[kind]))

    def recv(self, array: Buffer, source: int, *, dtype: DType | str | None = None) -> Buffer:
        """Receive from one rank, in the order of its sends; count and type must be the sender's."""
        kind, _ = elements(array, dtype)
        self._check_peer(source)
        self.in_turn(lambda: self.group.recv(source, array, DTYPE_NUMBER[kind]))
        return array

    def _check_peer(self, peer: int) -> None:
        if peer == self.rank or not 0 <= peer < self.n_ranks:
            raise UsageError(
                f"rank {self.rank} of {self.n_ranks} cannot exchange with rank {peer}",
                remedy="give another rank of the group",
            )

    @overload
    def barrier(self, *, async_op: Literal[False] = ...) -> None: ...
    @overload
    def barrier(self, *, async_op: Literal[True]) -> Handle[None]: ...
    def barrier(self, *, async_op: bool = False) -> Handle[None] | None:
        """Return when every rank has called it."""
        if async_op:
            group, call = self.group, self.barrier_call()
            return self.submit(lambda: group.run(call, self._token, self._sink), staged=True)
        self.run(self.barrier_call(), self._token, self._sink)
        return None
