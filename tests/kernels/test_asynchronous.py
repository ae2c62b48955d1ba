"""Asynchronous calls: order, results, protection of inputs, errors, and what closing does to those under way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.errors import CommunicatorError, UsageError
from autotune.kernels import Communicator, create_segment
from autotune.kernels.asynchronous import STAGED_BYTES
from autotune.kernels.schedules.registry import names
from autotune.types import Collective, Config, DType, Memory, ReduceOp

TIMEOUT_S = 3.0


def both(run: Callable[[int], object]) -> list[object]:
    """Run as rank 0 and as rank 1, on two threads."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(2), timeout=30))


def made(check: bool) -> list[Communicator]:
    fd = create_segment(2, 1 << 20, 1 << 24)

    def select(collective: Collective, size: int, dtype: DType, op: ReduceOp, memory: Memory) -> Config:
        knobs = (("exchange", "zero_copy"),) if memory is Memory.SYMMETRIC else ()
        name = "direct" if knobs else names(collective, 2)[0]
        return Config(algorithm=name, segment_bytes=65536, knobs=knobs)

    def join(rank: int) -> Communicator:
        return Communicator(fd, rank, 2, selector=select, cores=1, timeout_s=TIMEOUT_S, check=check)

    comms = both(join)
    os.close(fd)
    return [comm for comm in comms if isinstance(comm, Communicator)]


@pytest.fixture
def pair() -> Iterator[list[Communicator]]:
    comms = made(check=False)
    yield comms
    for comm in comms:
        comm.close(finish=False)


@pytest.fixture
def checked() -> Iterator[list[Communicator]]:
    comms = made(check=True)
    yield comms
    for comm in comms:
        comm.close(finish=False)


class Gate:
    """An operation that holds the line until it is opened."""

    def __init__(self) -> None:
        self._opened, self._reached = threading.Event(), threading.Event()
        self.open = self._opened.set

    def __call__(self) -> None:
        self._reached.set()
        assert self._opened.wait(20)

    def reached(self) -> bool:
        """Whether the line has come to it, sooner or later."""
        return self._reached.wait(20)


def test_several_in_flight_end_in_order_of_issue_with_synchronous_calls_between(pair: list[Communicator]) -> None:
    def run(rank: int) -> list[str]:
        comm, ended = pair[rank], list[str]()
        arrays = [np.full(size, rank + 1.0) for size in (4, 100_000, 7)]
        handles = []
        for number, array in enumerate(arrays):
            handle = comm.all_reduce(array, async_op=True)
            handle.when_done(lambda number=number: ended.append(f"call {number}"))
            handles.append(handle)
        total = comm.all_reduce(np.array([rank]))
        ended.append(f"synchronous {total}")
        assert all(handle.done() for handle in handles)
        for handle, array in zip(handles, arrays, strict=True):
            assert handle.wait() is array
            assert handle.wait(0.0) is array
            assert (array == 3.0).all()
        return ended

    assert both(run) == [["call 0", "call 1", "call 2", "synchronous [1]"]] * 2


def test_every_collective_can_be_asynchronous(pair: list[Communicator]) -> None:
    def run(rank: int) -> list[object]:
        comm, mine = pair[rank], np.array([rank + 1.0, 10.0])
        on_root = np.zeros(4) if rank == 0 else None
        handles = [
            comm.all_reduce(mine, "max", out=np.zeros(2), async_op=True),
            comm.all_gather(mine, async_op=True),
            comm.reduce_scatter(mine, np.zeros(1), async_op=True),
            comm.broadcast(mine.copy(), 1, async_op=True),
            comm.reduce(mine.copy(), root=0, async_op=True),
            comm.scatter(np.arange(4.0) if rank == 0 else None, np.zeros(2), async_op=True),
            comm.gather(mine, on_root, async_op=True),
            comm.all_to_all(mine, np.zeros(2), async_op=True),
            comm.barrier(async_op=True),
        ]
        results = [handle.wait() for handle in handles]
        return [None if result is None else np.asarray(result).tolist() for result in results]

    first, second = both(run)
    assert first == [
        [2, 10], [[1, 10], [2, 10]], [3], [2, 10], [3, 20], [0, 1], [1, 10, 2, 10], [1, 2], None,
    ]  # fmt: skip
    assert second == [[2, 10], [[1, 10], [2, 10]], [20], [2, 10], [2, 10], [2, 3], None, [10, 10], None]


@pytest.mark.parametrize(("count", "staged"), [(STAGED_BYTES // 8, True), (STAGED_BYTES // 8 + 1, False)])
def test_staged_inputs_may_be_changed_at_once(pair: list[Communicator], count: int, staged: bool) -> None:
    def run(rank: int) -> bool:
        comm, gate = pair[rank], Gate()
        comm.submit(gate)
        array, out = np.full(count, rank + 1.0), np.zeros(count)
        handle = comm.all_reduce(array, out=out, async_op=True)
        assert handle.staged is staged
        if staged:
            array[:] = 99
        gate.open()
        handle.wait()
        return bool((out == 3.0).all())

    assert both(run) == [True, True]


def test_inputs_in_place_and_in_symmetric_memory_are_not_staged(pair: list[Communicator]) -> None:
    def run(rank: int) -> list[bool]:
        comm = pair[rank]
        source, out = comm.allocate(8), comm.allocate(8)
        handles = [comm.all_reduce(source, out=out, async_op=True), comm.all_reduce(np.zeros(4), async_op=True)]
        for handle in handles:
            handle.wait()
        return [handle.staged for handle in handles]

    assert both(run) == [[False, False]] * 2


@pytest.mark.parametrize("in_place", [True, False])
def test_a_call_of_no_elements_keeps_its_place_in_symmetric_memory(pair: list[Communicator], in_place: bool) -> None:
    """A program over symmetric memory is made for one buffer or for two, of any size."""

    def run(rank: int) -> None:
        comm = pair[rank]
        source, other = comm.allocate(4)[2:2], comm.allocate(4)[2:2]
        comm.all_reduce(source, out=source if in_place else other, async_op=True).wait(TIMEOUT_S)

    both(run)


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_changed_input_is_found_and_the_rank_is_named(checked: list[Communicator], symmetric: bool) -> None:
    count = STAGED_BYTES

    def run(rank: int) -> str:
        comm, gate = checked[rank], Gate()
        source = comm.allocate(count) if symmetric else np.zeros(count, np.float32)
        out = comm.allocate(count) if symmetric else np.zeros(count, np.float32)
        comm.submit(gate)
        handle = comm.all_reduce(source, out=out, async_op=True)
        if rank == 1:
            source[5] = 1
        gate.open()
        with pytest.raises(CommunicatorError) as caught:
            handle.wait()
        with pytest.raises((CommunicatorError, UsageError)):
            comm.barrier()
        return str(caught.value)

    other, own = both(run)
    assert "rank 1 changed the input of all_reduce" in str(own)
    assert "rank 1" in str(other)


def test_an_input_that_stays_passes_the_check(checked: list[Communicator]) -> None:
    def run(rank: int) -> bool:
        out = np.zeros(STAGED_BYTES)
        checked[rank].all_reduce(np.ones(STAGED_BYTES), out=out, async_op=True).wait()
        return bool((out == 2).all())

    assert both(run) == [True, True]


def test_arguments_are_checked_at_the_call(pair: list[Communicator]) -> None:
    comm = pair[0]
    with pytest.raises(UsageError, match="output has"):
        comm.all_reduce(np.zeros(4), out=np.zeros(5), async_op=True)
    with pytest.raises(UsageError, match="is not one of"):
        comm.all_reduce(np.zeros(4), "mean", async_op=True)
    with pytest.raises(UsageError, match="contiguous"):
        comm.all_reduce(np.zeros((4, 4))[:, 1], async_op=True)


def test_errors_come_at_the_wait_and_at_later_calls(pair: list[Communicator]) -> None:
    def run(rank: int) -> set[str]:
        comm, said = pair[rank], set[str]()
        handles = [comm.all_reduce(np.zeros(4 + rank), async_op=True), comm.all_reduce(np.zeros(3), async_op=True)]
        for handle in handles:
            for _ in range(2):
                with pytest.raises(CommunicatorError) as caught:
                    handle.wait()
                said.add(str(caught.value).split(" (reported by")[0])
            assert isinstance(handle.error(), CommunicatorError)
        with pytest.raises(CommunicatorError):
            comm.barrier()
        return said

    first, second = both(run)
    assert first == second
    assert len(first) == 1  # type: ignore[arg-type]
    assert "disagree at call 1 in: count" in str(first)


def test_a_wait_with_a_time_limit_can_be_repeated(pair: list[Communicator]) -> None:
    gate = Gate()
    handle = pair[0].submit(gate)
    with pytest.raises(TimeoutError, match=r"not over after 0\.01 s"):
        handle.wait(0.01)
    assert not handle.done()
    gate.open()
    assert handle.wait() is None


def test_a_callback_may_wait_for_a_later_operation(pair: list[Communicator]) -> None:
    comm, gate, seen = pair[0], Gate(), list[int]()
    first = comm.submit(gate)
    later = comm.submit(lambda: 5)
    first.when_done(lambda: seen.append(later.wait()))
    gate.open()
    first.wait()
    assert later.wait() == 5
    comm.submit(lambda: None).wait()
    assert seen == [5]


def test_closing_finishes_what_was_issued(pair: list[Communicator]) -> None:
    def run(rank: int) -> list[float]:
        array = np.full(50_000, rank + 1.0)
        handles = [pair[rank].all_reduce(array, async_op=True) for _ in range(3)]
        pair[rank].close()
        assert all(handle.done() for handle in handles)
        with pytest.raises(UsageError, match="closed"):
            pair[rank].all_reduce(array, async_op=True)
        return [float(array[0]), float(handles[-1].wait()[-1])]  # type: ignore[index]

    assert both(run) == [[12.0, 12.0]] * 2


def test_leaving_by_an_exception_fails_what_has_not_begun(pair: list[Communicator]) -> None:
    comm, gate = pair[0], Gate()
    running = comm.submit(gate)
    waiting = comm.all_reduce(np.zeros(4), async_op=True)
    assert gate.reached()

    def leave() -> None:
        with comm:
            raise ValueError("something else")

    thread = ThreadPoolExecutor(1)
    left = thread.submit(leave)
    with pytest.raises(CommunicatorError, match="closed before the operation began"):
        waiting.wait(20)
    gate.open()
    assert isinstance(left.exception(20), ValueError)
    thread.shutdown()
    assert running.wait() is None


_UNCLOSED = """
import os, numpy as np
from autotune.kernels import Communicator, create_segment
from autotune.types import Config
fd = create_segment(2, 1 << 20, 0)
from concurrent.futures import ThreadPoolExecutor
make = lambda rank: Communicator(fd, rank, 2, selector=lambda *_: Config(algorithm="direct", segment_bytes=65536),
                                 cores=1, timeout_s=2.0)
with ThreadPoolExecutor(2) as pool:
    comms = list(pool.map(make, range(2)))
comms[0].all_reduce(np.zeros(4), async_op=True)  # waits for rank 1, which never comes
print("end")
"""


def test_a_process_ends_with_operations_under_way() -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", _UNCLOSED], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "end\n"
    assert "Fatal" not in ended.stderr
