"""Checks that ranks of a job run: every collective of mc2 against gloo's result on the same tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist

Value = Any  # groups, works, tensors and lists of them; torch is not type-checked
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")
MOVED = (*DTYPES, "int16", "complex64")
SHAPES: tuple[tuple[int, ...], ...] = ((0,), (1,), (7,), (3, 5), (20_000,))


@lru_cache
def gloo() -> Value:
    """The whole job over gloo."""
    return dist.new_group(backend="gloo")


def made(shape: tuple[int, ...], dtype: str, seed: int, *, strided: bool = False) -> torch.Tensor:
    """Small whole numbers, of which every sum and product of three is exact.

    Args:
        strided: not contiguous; some of gloo's collectives take such tensors for contiguous ones, so it gets no such.
    """
    generator = torch.Generator().manual_seed(seed * 97 + dist.get_rank())
    low, high = (0, 4) if dtype == "uint8" else (0, 2) if dtype == "bool" else (-3, 4)
    tensor = torch.randint(low, high, (*shape, 2), generator=generator).to(getattr(torch, dtype))[..., 1]
    return tensor if strided else tensor.contiguous()


def same(got: Value, want: Value, what: object) -> None:
    """Equal in type, shape and value."""
    if isinstance(got, (list, tuple)):
        for pair in zip(got, want, strict=True):
            same(*pair, what)
        return
    assert got.dtype == want.dtype, what
    if got.dtype is torch.bool:  # gloo adds bytes: 2 is true, too
        got, want = got.view(torch.uint8) != 0, want.view(torch.uint8) != 0
    assert got.shape == want.shape, what
    assert torch.equal(got, want), (what, got, want)


def both(run: Callable[[Value, bool], Value], what: object) -> None:
    """The same call over gloo and over mc2, synchronous and not."""
    want = run(gloo(), False)
    same(run(None, False), want, what)
    same(run(None, True), want, (what, "async"))


def finish(work: Value) -> None:
    if work is not None:
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()


def cases(dtypes: tuple[str, ...]) -> Iterator[tuple[str, tuple[int, ...], bool]]:
    for dtype, shape in itertools.product(dtypes, SHAPES):
        yield dtype, shape, False
    for dtype in dtypes:
        yield dtype, (3, 5), True


def all_reduce() -> None:
    ops = (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)
    for (dtype, shape, strided), op in itertools.product(cases(DTYPES), ops):
        _all_reduce(dtype, shape, strided, op)


def _all_reduce(dtype: str, shape: tuple[int, ...], strided: bool, op: Value) -> None:

    def run(group: Value, later: bool) -> torch.Tensor:
        tensor = made(shape, dtype, 1, strided=strided and group is None)
        finish(dist.all_reduce(tensor, op, group=group, async_op=later))
        return tensor

    both(run, ("all_reduce", dtype, shape, strided, op))


def average() -> None:
    """gloo has none: the sum, divided."""
    for dtype in ("float32", "float64", "bfloat16"):
        tensor = made((7,), dtype, 2) * 3
        want = tensor.clone()
        dist.all_reduce(want, group=gloo())
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, (want / dist.get_world_size()).to(want.dtype), dtype)


def reduce_and_scatter() -> None:
    for dtype, shape, strided in cases(DTYPES):
        for root in range(dist.get_world_size()):
            _reduce(dtype, shape, strided, root)
        _reduce_scatter(dtype, shape, strided)


def _reduce(dtype: str, shape: tuple[int, ...], strided: bool, root: int) -> None:

    def reduce(group: Value, later: bool) -> list[torch.Tensor]:
        tensor = made(shape, dtype, 3, strided=strided and group is None)
        finish(dist.reduce(tensor, root, group=group, async_op=later))
        return [tensor] if dist.get_rank() == root else []

    both(reduce, ("reduce", dtype, shape, strided, root))


def _reduce_scatter(dtype: str, shape: tuple[int, ...], strided: bool) -> None:
    n = dist.get_world_size()

    def scattered_list(group: Value, later: bool) -> torch.Tensor:
        out = torch.empty(shape, dtype=getattr(torch, dtype))
        parts = [made(shape, dtype, 4 + part, strided=strided) for part in range(n)]
        finish(dist.reduce_scatter(out, parts, group=group, async_op=later))
        return out

    want = torch.stack([made(shape, dtype, 4 + part, strided=strided) for part in range(n)])
    dist.all_reduce(want, group=gloo())
    for later in (False, True):
        same(scattered_list(None, later), want[dist.get_rank()], ("reduce_scatter", dtype, shape, strided, later))
        out = torch.empty(shape, dtype=getattr(torch, dtype))
        parts = torch.cat([made((1, *shape), dtype, 4 + part) for part in range(n)])
        whole = torch.stack([made((1, *shape), dtype, 4 + part) for part in range(n)])
        dist.all_reduce(whole, group=gloo())
        finish(dist.reduce_scatter_tensor(out, parts, async_op=later))
        same(out, whole[dist.get_rank(), 0], ("reduce_scatter_tensor", dtype, shape, later))


def moves() -> None:
    for dtype, shape, strided in cases(MOVED):
        _gathers(dtype, shape, strided)
        if dtype != "int16":
            for root in range(dist.get_world_size()):
                _rooted(dtype, shape, strided, root)


def _gathers(dtype: str, shape: tuple[int, ...], strided: bool) -> None:
    n = dist.get_world_size()
    kind = getattr(torch, dtype)

    def own(group: Value, seed: int) -> torch.Tensor:
        return made(shape, dtype, seed, strided=strided and group is None)

    def places() -> list[torch.Tensor]:
        return [torch.zeros(shape, dtype=kind) for _ in range(n)]

    def all_gather(group: Value, later: bool) -> list[torch.Tensor]:
        found = places()
        finish(dist.all_gather(found, own(group, 10), group=group, async_op=later))
        return found

    def all_gather_tensor(group: Value, later: bool) -> torch.Tensor:
        found = torch.zeros((n, *shape), dtype=kind)
        finish(dist.all_gather_into_tensor(found.view(-1), own(group, 11).reshape(-1), group=group, async_op=later))
        return found

    for case in (all_gather, all_gather_tensor):
        if dtype == "complex64" and case is all_gather_tensor:
            continue
        if dtype != "int16":  # gloo does not know it
            both(case, (case.__name__, dtype, shape, strided))
        elif case is all_gather:
            found = [torch.zeros(shape, dtype=torch.int64) for _ in range(n)]
            dist.all_gather(found, own(None, 10).to(torch.int64), group=gloo())
            same(case(None, False), [place.to(kind) for place in found], (dtype, shape))


def _rooted(dtype: str, shape: tuple[int, ...], strided: bool, root: int) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    kind = getattr(torch, dtype)

    def own(group: Value, seed: int) -> torch.Tensor:
        return made(shape, dtype, seed, strided=strided and group is None)

    def places() -> list[torch.Tensor]:
        return [torch.zeros(shape, dtype=kind) for _ in range(n)]

    def broadcast(group: Value, later: bool) -> torch.Tensor:
        tensor = own(group, 12)
        finish(dist.broadcast(tensor, root, group=group, async_op=later))
        return tensor

    def gather(group: Value, later: bool) -> list[torch.Tensor]:
        found = places() if rank == root else None
        finish(dist.gather(own(group, 13), found, root, group=group, async_op=later))
        return found or []

    def scatter(group: Value, later: bool) -> torch.Tensor:
        out = torch.zeros(shape, dtype=kind)
        parts = [own(group, 14 + part) for part in range(n)] if rank == root else None
        finish(dist.scatter(out, parts, root, group=group, async_op=later))
        return out

    for case in (broadcast, gather, scatter):
        if case is not broadcast and dtype in ("bool", "complex64"):  # gloo does not know these
            continue
        both(case, (case.__name__, dtype, shape, strided, root))


def exchanges() -> None:
    for dtype in MOVED:
        if dtype != "int16":
            _exchanges(dtype)


def _exchanges(dtype: str) -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    kind = getattr(torch, dtype)

    def equal(group: Value, later: bool) -> torch.Tensor:
        source = made((2 * n, 3), dtype, 20)
        out = torch.zeros(2 * n, 3, dtype=kind)
        finish(dist.all_to_all_single(out, source, group=group, async_op=later))
        return out

    def unequal(group: Value, later: bool) -> torch.Tensor:
        sent = [(rank + 2 * to) % 4 for to in range(n)]
        taken = [(source + 2 * rank) % 4 for source in range(n)]
        out = torch.zeros(sum(taken), 3, dtype=kind)
        source = made((sum(sent), 3), dtype, 21)
        finish(dist.all_to_all_single(out, source, taken, sent, group=group, async_op=later))
        return out

    for case in (equal, unequal):
        both(case, (case.__name__, dtype))
    sent = [made((rank + to, 2), dtype, 30 + to) for to in range(n)]
    out = [torch.zeros(source + rank, 2, dtype=kind) for source in range(n)]
    dist.all_to_all(out, sent)
    flat = torch.zeros(sum(source + rank for source in range(n)), 2, dtype=kind)
    dist.all_to_all_single(
        flat, torch.cat(sent), [source + rank for source in range(n)], [rank + to for to in range(n)], group=gloo()
    )
    same(torch.cat(out), flat, ("all_to_all", dtype))


def coalesced() -> None:
    """Several tensors as one call, by the names of torch 2.13 and by the older ones."""
    n = dist.get_world_size()
    group = dist.group.WORLD
    tensors = [made((size,), "float32", size) for size in (1, 5, 9)]
    want = [tensor.clone() for tensor in tensors]
    for tensor in want:
        dist.all_reduce(tensor, group=gloo())
    with dist.distributed_c10d._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    same(tensors, want, "all_reduce")
    inputs = [made((size,), "float32", 40 + size) for size in (1, 5)]
    gathered = [torch.zeros(n * tensor.numel()) for tensor in inputs]
    for out, tensor in zip(gathered, inputs, strict=True):
        dist.all_gather_into_tensor(out, tensor, group=gloo())
    for name in ("all_gather_single_coalesced", "allgather_into_tensor_coalesced"):
        outs = [torch.zeros_like(out) for out in gathered]
        getattr(group, name)(outs, inputs).wait()
        same(outs, gathered, name)
    for name in ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"):
        outs = [torch.zeros_like(tensor) for tensor in inputs]
        getattr(group, name)(outs, gathered).wait()
        same(outs, [n * tensor for tensor in inputs], name)
    for name in ("_allgather_base", "all_gather_single"):
        out = torch.zeros_like(gathered[1])
        getattr(group, name)(out, inputs[1]).wait()
        same(out, gathered[1], name)
    for name in ("_reduce_scatter_base", "reduce_scatter_single"):
        out = torch.zeros_like(inputs[1])
        getattr(group, name)(out, gathered[1]).wait()
        same(out, n * inputs[1], name)
    for name in ("alltoall_base", "all_to_all_single"):
        out, source = torch.zeros(n), made((n,), "float32", 50)
        want_out = torch.zeros(n)
        dist.all_to_all_single(want_out, source, group=gloo())
        getattr(group, name)(out, source, [], []).wait()
        same(out, want_out, name)


def objects() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    mine = {"rank": rank, "words": ["x"] * rank}
    found: list[Any] = [None] * n
    dist.all_gather_object(found, mine)
    assert found == [{"rank": r, "words": ["x"] * r} for r in range(n)]
    told = [mine, rank] if rank == 1 else [None, None]
    dist.broadcast_object_list(told, 1)
    assert told == [{"rank": 1, "words": ["x"]}, 1]
    gathered: list[Any] | None = [None] * n if rank == 2 else None
    dist.gather_object(mine, gathered, 2)
    assert gathered is None or gathered == found
    out: list[Any] = [None]
    dist.scatter_object_list(out, found if rank == 0 else None, 0)
    assert out == [mine]


def functional() -> None:
    import torch.distributed._functional_collectives as functional

    n, rank = dist.get_world_size(), dist.get_rank()
    group = dist.group.WORLD
    wait = functional.wait_tensor
    same(wait(functional.all_reduce(torch.ones(4) * rank, "sum", group)), torch.full((4,), n * (n - 1) / 2), "sum")
    same(wait(functional.all_reduce(torch.ones(4) * rank, "avg", group)), torch.full((4,), (n - 1) / 2), "avg")
    gather = getattr(functional, "all_gather_single", None) or functional.all_gather_tensor
    parts = torch.arange(n, dtype=torch.float32).repeat_interleave(2)
    same(wait(gather(torch.full((2,), float(rank)), 0, group)), parts, "gather")
    scatter = getattr(functional, "reduce_scatter_single", None) or functional.reduce_scatter_tensor
    same(wait(scatter(parts, "sum", 0, group)), torch.full((2,), float(n * rank)), "scatter")
    moved = functional.all_to_all_single(torch.full((n,), float(rank)), None, None, group)
    same(wait(moved), torch.arange(n, dtype=torch.float32), "all_to_all")
    same(wait(functional.broadcast(torch.ones(3) * rank, 1, group)), torch.ones(3), "broadcast")
    many = functional.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "sum", group)
    same([wait(tensor) for tensor in many], [torch.full((2,), float(n)), torch.full((3,), float(n))], "coalesced")
