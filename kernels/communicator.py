"""The Python face of the native executor: one rank's end of a group, with the collectives as methods (collectives.py).

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
from .asynchronous import Progress
from .buffers import elements, named, numpy_dtype, op_of
from .calls import Calls
from .collectives import Collectives
from .knobs import Shape, without_single_copy
from .shared_cores import sharing
from .symmetric import PRIVATE, Placing, SymmetricMemory

if TYPE_CHECKING:
    from .buffers import Buffer
    from .network import Hosts

Selector = Callable[[Collective, int, DType, ReduceOp, Memory], Config]
"""(collective, message_bytes, dtype, op, memory) -> config; must answer alike on every rank."""


_ASKED_KEPT = 4096
_EXCHANGE = Config(algorithm="direct", segment_bytes=65536)
_BARRIER = Config(algorithm="flat", segment_bytes=4096)
_BARRIER_OF_HOSTS = Config(algorithm="recursive_doubling", segment_bytes=4096)  # few packets, not few steps
_BYTE = Shape(Collective.ALL_REDUCE, DType.UINT8, ReduceOp.MAX, 0, 1)


class Communicator(Collectives):
    """One rank of a group on one host; a context manager.

    Args:
        fd: the group's segment, from ``create_segment``; it may be closed afterwards.
        selector: names the config of calls that bring none.
        cores: cores that the ranks share, for how to wait.
        timeout_s: the longest wait for another rank.
        check: compare the whole arguments of every call before it starts.
        room_bytes: says how much memory this host can still give; None where that is not known.
        hosts: where the ranks of a group over several hosts are; the segment is then that of this host's ranks. None
            for a group on one host.

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
        hosts: Hosts | None = None,
    ) -> None:
        # Spinning pays only while nobody else needs the core (measured: 2000 looks are about 50 us).
        spins = 2000 if (n_ranks if hosts is None else hosts.n_neighbours) <= cores else 0
        network = None if hosts is None else hosts.network
        self._group: _native.Group | None = _native.Group(fd, rank, spins, 400, timeout_s, check, network)
        if self._group.n_ranks != n_ranks:
            raise UsageError(
                f"the segment is for {self._group.n_ranks} ranks, not {n_ranks}", remedy="give all ranks one segment"
            )
        if hosts is None:
            self._calls = Calls(cores=sharing(self._group.only_cores))
        else:
            self._calls = Calls(hosts.host_of, hosts.last_hosts)
        self.hosts = hosts
        self._selector = selector
        self._asked: dict[tuple[int, int, np.dtype[Any], ReduceOp | str, int, Placing], _native.Call] = {}
        self._symmetric: SymmetricMemory | None = SymmetricMemory(self._group, room_bytes)
        self._allocated: SymmetricMemory | None = None  # the same, as long as there is an array in it
        self.rank = rank
        self.n_ranks = n_ranks
        self._check = check
        self._progress: Progress | None = None
        self._direct = self._group.run
        self._token, self._sink = bytearray(1), bytearray(1)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finish=kind is None)

    def close(self, *, finish: bool = True) -> None:
        """Leave the group. Ranks that still wait for this one get an error.

        Args:
            finish: carry out what was issued asynchronously first, as the other ranks expect; errors stay with the
                handles. Otherwise (and where ``with`` ends by an exception) what has not begun fails.
        """
        if self._group is not None:
            if self._progress is not None:
                self._progress.close(finish=finish)
            self._direct = None
            self._group.leave()
            self._asked.clear()
            self._calls.clear()
            # The last array of allocate may still hold the native group.
            self._group = self._symmetric = self._allocated = self.hosts = None

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

    def prepare(
        self, shape: Shape, config: Config | None = None, placing: Placing = PRIVATE, *, unequal: bool = False
    ) -> _native.Call:
        """The native call for these arguments, by the selector's config unless one is given.

        A table's rule that reads peers' private buffers holds where that is not possible, too, without that knob.

        Args:
            placing: where its buffers will lie.
            unequal: the parts of an all_to_all differ in size, so that no rank knows where another one's begin.

        Raises:
            UsageError: a config that the native executor cannot carry out, or not there.
        """
        if config is None:
            size = shape.message_bytes(self.n_ranks)
            config = self._selector(shape.collective, size, shape.dtype, shape.op, placing.memory)
            if unequal or self.group.single_copy_fault:
                config = without_single_copy(config)
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
        memory = self._memory()
        array = memory.allocate(sides, numpy_dtype(kind), self._everyones)
        self._allocated = memory
        return array

    def free(self, array: np.ndarray[Any, Any]) -> None:
        """Give back an array of `allocate`; every rank calls it. Its memory may not be used any more."""
        memory = self._memory()
        memory.free(array, self._everyones)
        self._allocated = memory if memory else None

    def _memory(self) -> SymmetricMemory:
        if self._symmetric is None:
            raise self._closed()
        if self.hosts is not None:
            raise UsageError(
                "symmetric memory does not reach over several hosts", remedy="use buffers of your own (NumPy arrays)"
            )
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
        placing = PRIVATE if self._allocated is None else self._allocated.placing(collective, array, out)
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

    def _everyones(self, mine: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """All ranks' arrays, one after the other."""
        everyone = np.empty((self.n_ranks, *mine.shape), np.int64)
        self.all_gather(mine, everyone, config=_EXCHANGE)
        return everyone

    def barrier_call(self) -> _native.Call:
        """The native call behind `barrier`, for measuring."""
        return self._calls.call(self.group, _BYTE, _BARRIER if self.hosts is None else _BARRIER_OF_HOSTS)
