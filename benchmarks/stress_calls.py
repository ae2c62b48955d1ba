"""Random calls of a communicator, made and checked: what stress.py runs on every rank.

In:  a generator that is in the same state on every rank, a communicator. Out: nothing, or Wrong with the call.
May not touch: processes. Inputs and expected outputs are those of the tests (tests/ranks/cases.py, tests/spec.py),
which have to be on the path.
"""

from __future__ import annotations

import random

import numpy as np
from ranks.cases import Call
from spec import FLOATS, STORAGE, Array, expected

from autotune.kernels import (
    Communicator,
    lossy_names,
    shared_core_names,
    single_copy_names,
    zero_copy_names,
)
from autotune.kernels.schedules.registry import names
from autotune.types import Collective, DType, ReduceOp

SYMMETRIC_BYTES = 16 << 20
"""Of one rank; two arrays of half of it are allocated."""

_MOST_BYTES = 4 << 20  # of a rank's larger buffer
_MOST_DIVIDED = 2000  # elements: the reference divides integers one by one
_SEGMENTS = (64, 100, 1 << 10, 4 << 10, 64 << 10, 1 << 20)


class Wrong(Exception):
    """A result that is not the expected one; the text names the call."""


def draw(rng: random.Random, n: int, cores: tuple[int, ...]) -> Call:
    """Any legal call of n ranks, which share cores as `sharing` says."""
    collective, dtype = rng.choice(list(Collective)), rng.choice(list(DType))
    op = rng.choice(list(ReduceOp)) if collective.computes else ReduceOp.SUM
    symmetric = rng.random() < 0.4 and collective not in (Collective.SCATTER, Collective.GATHER)
    exchange = "staged" if rng.random() < (0.2 if symmetric else 0.6) else "zero_copy" if symmetric else "single_copy"
    without_outboxes = zero_copy_names if symmetric else single_copy_names
    algorithms = names(collective, n) if exchange == "staged" else without_outboxes(collective, n)
    if not algorithms:
        exchange, algorithms = "staged", names(collective, n)
    codec = "none"
    encodes = exchange == "staged" and not symmetric and dtype in FLOATS and op is not ReduceOp.PROD
    if encodes and rng.random() < 0.3 and (lossy := lossy_names(collective, n)):
        codec, algorithms = "threshold(0.0)", lossy  # drops zeros, and so nothing
    shared: tuple[str, ...] = ()
    if codec == "none" and exchange != "single_copy" and rng.random() < 0.4:
        shared = shared_core_names(collective, cores, zero_copy=exchange == "zero_copy")
    most = _MOST_BYTES if rng.random() < 0.03 else 128 << 10
    count = int(2 ** rng.uniform(0, np.log2(most))) // dtype.itemsize // (n if collective.splits_by_rank else 1)
    if op is ReduceOp.AVG:
        count = min(count, _MOST_DIVIDED)
    return Call(
        collective=collective,
        algorithm=rng.choice(algorithms),
        dtype=dtype,
        op=op,
        root=rng.randrange(n) if collective.has_root else 0,
        count=rng.choice((0, 1, 2, count, count, count, count, count)),
        segment_bytes=rng.choice(_SEGMENTS),
        slices_in_flight=rng.randint(1, 8),
        stores=rng.choice(("cached", "cached", "streamed")),
        seed=rng.randrange(1 << 30),
        in_place=collective is not Collective.ALL_TO_ALL and rng.random() < 0.4,
        shift=rng.choice((0, 0, 8, 60, 1)),
        symmetric=symmetric,
        exchange=exchange,
        codec=codec,
        shared_cores=rng.choice(shared) if shared else None,
    )


class Player:
    """Makes calls on one rank. Two arrays in symmetric memory hold the buffers of calls there."""

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._heaps = [comm.allocate(SYMMETRIC_BYTES // 2, DType.UINT8) for _ in range(2)]

    def reallocate(self, which: int) -> None:
        """Give one of the arrays back and take a new one."""
        self._comm.free(self._heaps[which])
        self._heaps[which] = self._comm.allocate(SYMMETRIC_BYTES // 2, DType.UINT8)

    def exchange(self, n_bytes: int) -> None:
        """send and recv around the ring; rank 0 receives first, or long messages would wait for each other."""
        rank, n = self._comm.rank, self._comm.n_ranks
        sent, got = np.full(n_bytes, rank, np.uint8), np.full(n_bytes, 255, np.uint8)
        if rank:
            self._comm.send(sent, (rank + 1) % n)
        self._comm.recv(got, (rank - 1) % n)
        if not rank:
            self._comm.send(sent, (rank + 1) % n)
        if (got != (rank - 1) % n).any():
            raise Wrong(f"send and recv of {n_bytes} bytes around the ring")

    def make(self, call: Call, *, beside: bool = False) -> None:
        """Make a call, or issue it and wait, and compare its output."""
        rank = self._comm.rank
        inputs = call.inputs(self._comm.n_ranks)
        mine = inputs[rank]
        wanted = expected(call.collective, inputs, op=call.op, dtype=call.dtype, root=call.root)[rank]
        source, target = self._buffers(call, mine)
        source[...] = mine
        self._run(call, source, target, beside=beside)
        if wanted is not None and target.tobytes() != wanted.tobytes():
            at = int(np.flatnonzero(target.view(np.uint8) != wanted.view(np.uint8))[0])
            raise Wrong(f"byte {at} of {target.nbytes} is wrong")
        if not np.shares_memory(source, target) and source.tobytes() != mine.tobytes():
            raise Wrong("the input was modified")

    def _buffers(self, call: Call, mine: Array) -> tuple[Array, Array]:
        """Input and output of this rank; those it does not use are there all the same."""
        n, rank = self._comm.n_ranks, self._comm.rank
        splits_input = call.collective in (Collective.REDUCE_SCATTER, Collective.SCATTER)
        joins = call.collective in (Collective.ALL_GATHER, Collective.GATHER)
        source = self._room(call, 0, mine.size)
        if call.collective is Collective.BROADCAST:
            return source, source
        length = mine.size // n if splits_input else mine.size * n if joins else mine.size
        target = self._room(call, 1, length)
        if call.in_place and splits_input:
            target = source[rank * call.count :][: call.count]
        elif call.in_place and joins:
            source = target[rank * call.count :][: call.count]
        elif call.in_place:
            target = source
        return source, target

    def _room(self, call: Call, which: int, length: int) -> Array:
        size = length * call.dtype.itemsize
        raw = self._heaps[which] if call.symmetric else np.empty(size + 64, np.uint8)
        room = raw[call.shift : call.shift + size]
        room[...] = 0xA5
        return room.view(STORAGE[call.dtype])

    def _run(self, call: Call, source: Array, target: Array, *, beside: bool) -> None:
        root, at_root = call.root, self._comm.rank == call.root
        options = {"dtype": call.dtype, "config": call.config, "async_op": beside}
        arguments: tuple[object, ...]
        match call.collective:
            case Collective.ALL_REDUCE:
                arguments, options = (source, call.op), options | {"out": target}
            case Collective.ALL_GATHER | Collective.ALL_TO_ALL:
                arguments = (source, target)
            case Collective.REDUCE_SCATTER:
                arguments = (source, target, call.op)
            case Collective.BROADCAST:
                arguments = (target, root)
            case Collective.REDUCE:
                arguments, options = (source, call.op), options | {"root": root, "out": target}
            case Collective.SCATTER:
                arguments = (source if at_root else None, target, root)
            case Collective.GATHER:
                arguments = (source, target if at_root else None, root)
        result = getattr(self._comm, call.collective.value)(*arguments, **options)
        if beside:
            result.wait()
