"""Buffers for trials: of the call's sizes, kept while they are large enough, given back when they are not."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterator

import numpy as np
import pytest

from autotune.backends.buffers import PrivateBuffers, SymmetricBuffers, Take
from autotune.kernels import Communicator, Shape, create_segment
from autotune.kernels.symmetric import Placing
from autotune.types import Collective, Config, DType, Memory, ReduceOp

CONFIG = Config(algorithm="direct", segment_bytes=4096)
SYMMETRIC_BYTES = 2 << 20


@pytest.fixture
def alone() -> Iterator[Communicator]:
    fd = create_segment(1, 1 << 20, SYMMETRIC_BYTES)
    try:
        comm = Communicator(fd, 0, 1, selector=lambda *_: CONFIG, cores=1, timeout_s=2.0)
    finally:
        os.close(fd)
    with comm:
        yield comm


def taker(comm: Communicator, memory: Memory) -> Take:
    return PrivateBuffers().take if memory is Memory.PRIVATE else SymmetricBuffers(comm).take


def taken(
    comm: Communicator, take: Take, memory: Memory, n_bytes: int, n: int, collective: Collective = Collective.ALL_REDUCE
) -> tuple[list[memoryview], list[memoryview]]:
    shape = Shape(collective, DType.UINT8, ReduceOp.MAX, 0, n_bytes)
    placing = Placing.PRIVATE if memory is Memory.PRIVATE else Placing.SYMMETRIC
    return take(shape, comm.prepare(shape, CONFIG, placing), n)


def address(view: memoryview) -> int:
    return np.frombuffer(view, np.uint8).ctypes.data


@pytest.mark.parametrize("memory", Memory)
def test_buffers_have_the_sizes_of_the_call_and_pages_of_their_own(alone: Communicator, memory: Memory) -> None:
    take = taker(alone, memory)
    inputs, outputs = taken(alone, take, memory, 5000, 3)
    assert [len(view) for view in (*inputs, *outputs)] == [5000] * 6
    starts = sorted(address(view) for view in (*inputs, *outputs))
    assert all(later - earlier >= 5000 for earlier, later in itertools.pairwise(starts))
    assert all(start % mmap.PAGESIZE == 0 for start in starts)
    for view in (*inputs, *outputs):
        view[0] = view[-1] = 1
    places = {memory is Memory.SYMMETRIC}
    assert {alone.group.place(view) is not None for view in (*inputs, *outputs)} == places


@pytest.mark.parametrize("memory", Memory)
def test_buffers_are_kept_while_they_are_large_enough(alone: Communicator, memory: Memory) -> None:
    take = taker(alone, memory)
    large = [address(view) for views in taken(alone, take, memory, 9000, 2) for view in views]
    small = [address(view) for views in taken(alone, take, memory, 100, 2) for view in views]
    assert small == large


def test_symmetric_memory_that_has_become_too_small_is_given_back(alone: Communicator) -> None:
    """Kept, all sizes together would be more than there is."""
    take = taker(alone, Memory.SYMMETRIC)
    for n_bytes in range(100 << 10, 701 << 10, 100 << 10):
        inputs, outputs = taken(alone, take, Memory.SYMMETRIC, n_bytes, 1)
        assert len(inputs[0]) == len(outputs[0]) == n_bytes


def test_the_root_of_a_broadcast_sends_in_place(alone: Communicator) -> None:
    take = taker(alone, Memory.SYMMETRIC)
    (source,), (target,) = taken(alone, take, Memory.SYMMETRIC, 100, 1, Collective.BROADCAST)
    assert address(source) == address(target)
    (source,), (target,) = taken(alone, take, Memory.SYMMETRIC, 100, 1)
    assert address(source) != address(target)
