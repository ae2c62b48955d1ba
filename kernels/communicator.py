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

import difflib
import enum
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..errors import UsageError
from ..types import Collective, Config, DType, ReduceOp
from . import _native
from .calls import DTYPE_NUMBER, Calls, Shape

if TYPE_CHECKING:
    from typing_extensions import Buffer as _Buffer

    # NumPy's stubs say that an array is a buffer from Python 3.12 on only. Any: of every shape and type.
    Buffer = np.ndarray[Any, Any] | _Buffer

Selector = Callable[[Collective, int, DType, ReduceOp], Config]
"""(collective, message_bytes, dtype, op) -> config; must answer alike on every rank."""


Kind = TypeVar("Kind", bound=enum.Enum)

_FORMATS = {
    "f": DType.FLOAT32,
    "d": DType.FLOAT64,
    "e": DType.FLOAT16,
    "b": DType.INT8,
    "B": DType.UINT8,
    "c": DType.UINT8,
    "i": DType.INT32,
    "l": DType.INT64,
    "q": DType.INT64,
}
_ASKED_KEPT = 4096
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

    Raises:
        CommunicatorError: not all ranks joined within timeout_s.
    """

    def __init__(
        self, fd: int, rank: int, n_ranks: int, *, selector: Selector, cores: int, timeout_s: float, check: bool = False
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
        self._asked: dict[tuple[int, int, np.dtype[Any], ReduceOp | str, int], _native.Call] = {}
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
            self._group = None

    @property
    def group(self) -> _native.Group:
        """The native group, for measuring.

        Raises:
            UsageError: the communicator is closed.
        """
        if self._group is None:
            raise UsageError("the communicator is closed", remedy="make a new one")
        return self._group

    def prepare(self, shape: Shape, config: Config | None = None) -> _native.Call:
        """The native call for these arguments, by the selector's config unless one is given."""
        if config is None:
            config = self._selector(shape.collective, shape.message_bytes(self.n_ranks), shape.dtype, shape.op)
        return self._calls.call(self.group, shape, config)

    def _call(
        self,
        collective: Collective,
        sized: Buffer,
        dtype: DType | str | None,
        op: ReduceOp | str,
        root: int,
        config: Config | None,
    ) -> _native.Call:
        """The native call whose count `sized` gives. What a NumPy array asks for again costs one look-up."""
        key = None  # the id, since an enum's hash is Python code
        if config is None and dtype is None and type(sized) is np.ndarray:
            key = (id(collective), sized.nbytes, sized.dtype, op, root)
            known = self._asked.get(key)
            if known is not None:
                return known
        if not 0 <= root < self.n_ranks:
            raise UsageError(f"root {root} is not a rank of a group of {self.n_ranks}", remedy="give a rank as root")
        kind, count = _elements(sized, dtype)
        if collective is Collective.ALL_TO_ALL:
            if count % self.n_ranks:
                raise UsageError(
                    f"all_to_all: {count} elements are not a multiple of {self.n_ranks} ranks",
                    remedy="use all_to_all_v",
                )
            count //= self.n_ranks
        call = self.prepare(Shape(collective, kind, _op(op), root, count), config)
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
    ) -> Buffer:
        """Combine all ranks' arrays; every rank gets the result, bit for bit the same.

        Args:
            array: this rank's contribution; overwritten with the result unless `out` is given.
            op: ``sum``, ``prod``, ``max``, ``min`` or ``avg``.
            dtype: the element type where the buffer does not say it (``"bfloat16"`` over 16-bit integers).

        Returns:
            `out`, or `array`.
        """
        target = array if out is None else out
        self.group.run(self._call(Collective.ALL_REDUCE, array, dtype, op, 0, config), array, target)
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
        target = _like(array, (self.n_ranks,)) if out is None else out
        self.group.run(self._call(Collective.ALL_GATHER, array, dtype, "sum", 0, config), array, target)
        return target

    def reduce_scatter(
        self,
        array: Buffer,
        out: Buffer,
        op: ReduceOp | str = "sum",
        *,
        dtype: DType | str | None = None,
        config: Config | None = None,
    ) -> Buffer:
        """Combine all ranks' arrays; rank r gets the r-th part of the result.

        Args:
            array: n_ranks times the size of `out`. In place: `out` is the rank-th part of `array`.
        """
        self.group.run(self._call(Collective.REDUCE_SCATTER, out, dtype, op, 0, config), array, out)
        return out

    def broadcast(
        self, array: Buffer, root: int = 0, *, dtype: DType | str | None = None, config: Config | None = None
    ) -> Buffer:
        """Every rank gets the root's array, in place."""
        source = array if self.rank == root else None
        self.group.run(self._call(Collective.BROADCAST, array, dtype, "sum", root, config), source, array)
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
        """Combine all ranks' arrays; the root gets the result, in `array` unless it gives `out`."""
        target = (array if out is None else out) if self.rank == root else None
        self.group.run(self._call(Collective.REDUCE, array, dtype, op, root, config), array, target)
        return array if target is None else target

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
        self.group.run(self._call(Collective.SCATTER, out, dtype, "sum", root, config), source, out)
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
        self.group.run(self._call(Collective.GATHER, array, dtype, "sum", root, config), array, target)
        return target

    def all_to_all(
        self, array: Buffer, out: Buffer, *, dtype: DType | str | None = None, config: Config | None = None
    ) -> Buffer:
        """Rank s's r-th part becomes rank r's s-th part. `out` has the size of `array` and does not overlap it."""
        self.group.run(self._call(Collective.ALL_TO_ALL, array, dtype, "sum", 0, config), array, out)
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
        kind, _ = _elements(array, dtype)
        counts = self._exchanged_counts(send_counts, recv_counts)
        sent, received = counts[:, 0], counts[:, 1]
        if not np.array_equal(sent, received.T):
            source, target = np.argwhere(sent != received.T)[0]
            raise UsageError(
                f"all_to_all_v: rank {source} sends {sent[source, target]} elements to rank {target}, which expects "
                f"{received[target, source]}",
                remedy="give the receiver's recv_counts what the senders send",
            )
        shape = Shape(Collective.ALL_TO_ALL, kind, ReduceOp.SUM, 0, int(sent.max()))
        self.group.run_split(self.prepare(shape, config), array, out, list(send_counts), list(recv_counts))
        return out

    def _exchanged_counts(
        self, send_counts: Sequence[int], recv_counts: Sequence[int]
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """All ranks' counts, shape (n_ranks, 2, n_ranks)."""
        for name, counts in (("send_counts", send_counts), ("recv_counts", recv_counts)):
            if len(counts) != self.n_ranks or min(counts) < 0:
                raise UsageError(
                    f"{name} is {list(counts)}, not {self.n_ranks} numbers from 0",
                    remedy="give one count for each rank",
                )
        mine = np.array([send_counts, recv_counts], np.int64)
        everyone = np.empty((self.n_ranks, 2, self.n_ranks), np.int64)
        self.all_gather(mine, everyone, config=Config(algorithm="direct", segment_bytes=65536))
        return everyone

    def send(self, array: Buffer, to: int, *, dtype: DType | str | None = None) -> None:
        """Send to one rank; returns when at most 256 KiB of it are still on the way."""
        kind, _ = _elements(array, dtype)
        self._check_peer(to)
        self.group.send(to, array, DTYPE_NUMBER[kind])

    def recv(self, array: Buffer, source: int, *, dtype: DType | str | None = None) -> Buffer:
        """Receive from one rank, in the order of its sends; count and type must be the sender's."""
        kind, _ = _elements(array, dtype)
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


def _elements(array: Buffer, dtype: DType | str | None) -> tuple[DType, int]:
    """Element type and number of elements of a buffer, taken as `dtype` if given."""
    if isinstance(array, np.ndarray):
        size, code = array.nbytes, array.dtype.char if array.dtype.isnative else array.dtype.str
    else:
        try:
            with memoryview(array) as view:
                size, code = view.nbytes, view.format.lstrip("@=<")
        except TypeError as err:
            raise UsageError(
                f"an object of type {type(array).__name__} is not a buffer", remedy="pass a NumPy array or memoryview"
            ) from err
    if dtype is not None:
        kind = dtype if isinstance(dtype, DType) else _named(DType, dtype)
    elif code in _FORMATS:
        kind = _FORMATS[code]
    else:
        raise UsageError(
            f"elements of format {code!r} are not one of: {', '.join(d.value for d in DType)}",
            remedy="convert the array, or give dtype=",
        )
    if size % kind.itemsize:
        raise UsageError(f"{size} bytes are not whole elements of {kind.value}", remedy="give another dtype")
    return kind, size // kind.itemsize


def _op(op: ReduceOp | str) -> ReduceOp:
    return op if isinstance(op, ReduceOp) else _named(ReduceOp, op)


def _named(kind: type[Kind], word: str) -> Kind:
    try:
        return kind(word)
    except ValueError:
        words = [member.value for member in kind]
        near = difflib.get_close_matches(str(word), words, n=1)
        raise UsageError(
            f"{word!r} is not one of: {', '.join(words)}",
            remedy=f"did you mean {near[0]!r}?" if near else "use one of these",
        ) from None


def _like(array: Buffer, lead: tuple[int, ...]) -> Buffer:
    view = array if isinstance(array, np.ndarray) else np.asarray(memoryview(array))
    return np.empty((*lead, *view.shape), view.dtype)
