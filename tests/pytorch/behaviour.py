"""Checks that ranks of a job run: works, messages, groups, and what goes wrong."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from autotune.errors import AutotuneError

Value = Any  # groups and calls; torch is not type-checked
SHORT = timedelta(seconds=3)


def fresh(**arguments: Value) -> Value:
    """A new group of all ranks."""
    return dist.new_group(backend="mc2", **arguments)


def told(run: Value) -> list[str]:
    """The error that a call raises: its type, what it says, and the remedy."""
    try:
        run()
    except AutotuneError as err:
        return [type(err).__name__, err.message, err.remedy]
    except Exception as err:
        return [type(err).__name__, str(err), ""]
    return []


def works() -> None:
    """Several under way end in order of issue; futures, callbacks, and mixed synchronous calls."""
    n, ended = dist.get_world_size(), []
    tensors = [torch.full((size,), 1.0) for size in (1, 50_000, 3, 400_000, 8)]
    handles = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for number, handle in enumerate(handles):
        handle.get_future().then(lambda _, number=number: ended.append(number))
    last = torch.ones(2)
    dist.all_reduce(last)  # after all that were issued before
    assert all(handle.is_completed() for handle in handles)
    assert last.tolist() == [n, n]
    assert ended == [0, 1, 2, 3, 4]
    for handle, tensor in zip(handles, tensors, strict=True):
        assert handle.wait()
        assert handle.wait(timedelta(seconds=1))
        assert handle.is_success()
        assert handle.exception() is None
        assert handle.result()[0] is tensor
        assert handle.get_future().wait()[0] is tensor
        assert (tensor == n).all()
    first = torch.ones(4)
    handle = dist.all_reduce(first, async_op=True)
    value = handle.get_future().then(lambda future: future.wait()[0].sum()).wait()
    assert value == 4 * n
    dist.barrier()
    assert dist.barrier(async_op=True).wait()


def messages() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    to, source = (rank + 1) % n, (rank - 1) % n
    large = torch.full((1 << 20,), float(rank))  # more than a channel holds: both directions have to move
    got = torch.empty(1 << 20)
    for work in (dist.isend(large, to), dist.irecv(got, source)):
        assert work.wait()
    assert (got == source).all()
    batch = [dist.P2POp(dist.irecv, got, to), dist.P2POp(dist.isend, large, source)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert (got == to).all()
    if rank == 0:
        for tag, size in ((7, 3), (8, 0), (9, 5)):
            dist.send(torch.full((size,), tag, dtype=torch.bfloat16), 1, tag=tag)
        dist.send(torch.arange(6).view(2, 3).t(), 1)
        dist.recv(large, 1)  # while a collective and other messages are under way
    if rank == 1:
        for tag, size in ((9, 5), (7, 3), (8, 0)):
            out = torch.zeros(size, dtype=torch.bfloat16)
            dist.recv(out, 0, tag=tag)
            assert (out == tag).all()
        strided = torch.zeros(2, 3, dtype=torch.int64).t()
        work = dist.irecv(strided, 0)
        work.wait()
        assert work.source_rank() == 0
        assert torch.equal(strided, torch.arange(6).view(2, 3).t())
        dist.send(large, 0)
    dist.barrier()


def groups() -> None:
    """Sub-groups, and calls on several of them in another order on each rank."""
    rank = dist.get_rank()
    pair = dist.new_group([0, 2], backend="mc2")
    if rank in (0, 2):
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor, group=pair)
        assert tensor.tolist() == [2.0, 2.0, 2.0]
        dist.broadcast(tensor := torch.full((2,), float(rank)), 2, group=pair)
        assert tensor.tolist() == [2.0, 2.0]
        dist.destroy_process_group(pair)
    # A ring of groups, each used in another order by each rank.
    made = {members: dist.new_group(list(members), backend="mc2") for members in ((0, 1), (1, 2), (0, 2))}
    handles = []
    for members, group in sorted(made.items(), reverse=rank == 1):
        if rank in members:
            tensor = torch.ones(5)
            handles.append((tensor, dist.all_reduce(tensor, group=group, async_op=True)))
    for tensor, handle in handles:
        handle.wait()
        assert tensor.sum() == 10


def another_order() -> list[str]:
    """Rank 2 makes two groups in the other order, so that it is somebody in a group that is none."""
    said: list[str] = []
    for members in ([0, 1], [0, 2])[:: 1 if dist.get_rank() < 2 else -1]:
        said += told(lambda members=members: dist.new_group(members, backend="mc2", timeout=SHORT))  # type: ignore[misc]
    return said


def threads() -> None:
    n = dist.get_world_size()
    made = [fresh() for _ in range(4)]
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(20):
            tensor = torch.full((1000 * number + turn,), float(number))
            handle = dist.all_reduce(tensor, group=made[number], async_op=turn % 2 == 1)
            if handle is not None:
                handle.wait()
            if not (tensor == number * n).all():
                wrong.append(f"group {number}, turn {turn}")

    running = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(30)
        assert not thread.is_alive()
    assert not wrong
    # Two groups in the other order on some ranks: asynchronous calls of different groups do not wait for each other.
    one, two = torch.ones(100_000), torch.ones(100_000)
    pairs = [(one, made[0]), (two, made[1])]
    if dist.get_rank() == 1:
        pairs.reverse()
    for handle in [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in pairs]:
        handle.wait()
    assert one[0] == two[0] == n
    for group in made:
        dist.destroy_process_group(group)


def refused() -> list[list[str]]:
    """What cannot be done is one clear error, on the rank that asks, and the group goes on."""
    ones = torch.ones(4)
    said = [
        told(lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32), dist.ReduceOp.BAND)),
        told(lambda: dist.all_reduce(torch.ones(4, dtype=torch.int16))),
        told(lambda: dist.all_reduce(torch.ones(4, dtype=torch.bool), dist.ReduceOp.AVG)),
        told(lambda: dist.broadcast(torch.empty(4, device="meta"), 0)),
        told(lambda: dist.broadcast(torch.eye(2).to_sparse(), 0)),
        told(lambda: dist.recv(ones)),
        told(lambda: dist.all_gather([ones], ones)),
        told(lambda: dist.all_gather_into_tensor(torch.empty(5), ones)),
        told(lambda: dist.all_to_all_single(torch.empty(4), ones, [1, 1], [1, 1])),
    ]
    dist.all_reduce(ones)
    assert ones[0] == dist.get_world_size()
    return said


def other_order() -> list[str]:
    """Rank 0 calls A, B; the others B, A."""
    group = fresh(timeout=SHORT)
    calls = [lambda: dist.all_reduce(torch.ones(4), group=group), lambda: dist.all_reduce(torch.ones(9), group=group)]
    if dist.get_rank() != 0:
        calls.reverse()
    said = [words for call in calls if (words := told(call))]
    again = told(lambda: dist.barrier(group=group))
    assert again[0] == "CommunicatorError", again
    return said[0]


def later_error() -> list[str]:
    """The error of an asynchronous call comes at its wait, and with its future."""
    group = fresh(timeout=SHORT)
    size = 4 + (dist.get_rank() == 1)
    handle = dist.all_reduce(torch.ones(size), group=group, async_op=True)
    said = told(handle.wait)
    assert handle.is_completed()
    assert not handle.is_success()
    assert isinstance(handle.exception(), AutotuneError)
    assert told(handle.get_future().wait)
    return said


def absent() -> list[str]:
    """Rank 1 makes two calls fewer."""
    group = fresh(timeout=SHORT)
    said: list[str] = []
    for number in range(3):
        if dist.get_rank() != 1 or number == 0:
            said = said or told(lambda: dist.all_reduce(torch.ones(4), group=group))
    if dist.get_rank() == 1:
        dist.barrier(group=gloo_barrier())
        return told(lambda: dist.all_reduce(torch.ones(4), group=group))
    dist.barrier(group=gloo_barrier())
    return said


def gloo_barrier() -> Value:
    from pytorch.collectives import gloo

    return gloo()


def differing(variable: str, value: str) -> list[str]:
    """Rank 1 has another setting."""
    with mock.patch.dict(os.environ, {variable: value} if dist.get_rank() == 1 else {}):
        return told(lambda: fresh(timeout=SHORT))


def other_version() -> list[str]:
    """Rank 2 has another version."""
    if dist.get_rank() == 2:
        with mock.patch("autotune.runtime.torch.agreement.__version__", "0.0.1"):
            return told(lambda: fresh(timeout=SHORT))
    return told(lambda: fresh(timeout=SHORT))


def one_missing() -> list[str]:
    """Rank 1 does not create the group."""
    gloo_barrier()
    if dist.get_rank() == 1:
        dist.distributed_c10d._world.group_count += 1  # as if it had
        dist.barrier(group=gloo_barrier())
        return []
    said = told(lambda: fresh(timeout=SHORT))
    dist.barrier(group=gloo_barrier())
    return said


def table_of_rank_0(path: str) -> str:
    """The config of a call on a group whose rank 0 alone has a table."""
    with mock.patch.dict(os.environ, {"AUTOTUNE_TABLE": path} if dist.get_rank() == 0 else {}):
        group = fresh()
    config = group.selector.select("all_reduce", message_bytes=1 << 20, n_ranks=dist.get_world_size()).config
    dist.all_reduce(torch.ones(1 << 18), group=group)
    return str(config)


def left() -> list[str]:
    """A destroyed group says so."""
    group = fresh()
    dist.all_reduce(torch.ones(2), group=group)
    handle = dist.all_reduce(torch.ones(2), group=group, async_op=True)
    dist.destroy_process_group(group)
    assert handle.wait()
    return told(lambda: group.allreduce([torch.ones(2)]))
