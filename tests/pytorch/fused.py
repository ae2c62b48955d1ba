"""Checks that ranks of a job run: fused products against unfused ones in float64, their gradients, bounded gathers."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from pytorch.behaviour import told

from autotune.errors import AutotuneError
from autotune.runtime.torch import tiles, vendor
from autotune.runtime.torch.fused import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from autotune.runtime.torch.gathering import KVCacheAllGatherer, chunked_all_gather
from autotune.table.tiles import Fusion

Value = Any
TILES = (1, 2, 3, 50)  # the last is more than there are rows


def _all(make: Value) -> list[Value]:
    """What `make` gives for every rank, as every rank can work it out."""
    return [make(torch.Generator().manual_seed(rank)) for rank in range(dist.get_world_size())]


def _whole(generator: torch.Generator, *shape: int) -> torch.Tensor:
    """Small whole numbers, so that products and sums are exact in any order."""
    return torch.randint(-4, 5, shape, generator=generator).float()


def products() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for m, k, p in ((7, 5, 3), (6, 1, 4), (1, 2, 2), (0, 3, 2)):
        xs = _all(lambda g, m=m, k=k: _whole(g, m, k))
        ws = _all(lambda g, k=k, p=p: _whole(g, k, p))
        total = sum(x.double() @ w.double() for x, w in zip(xs, ws, strict=True)).float()
        everyones = torch.cat(xs) @ ws[rank]
        wide = _all(lambda g, m=m, k=k: _whole(g, n * m, k))
        parts = sum(x.double() @ w.double() for x, w in zip(wide, ws, strict=True)).float()
        for tiles_ in TILES:
            assert torch.equal(matmul_all_reduce(xs[rank], ws[rank], tiles=tiles_), total)
            assert torch.equal(all_gather_matmul(xs[rank], ws[rank], tiles=tiles_), everyones)
            scattered = matmul_reduce_scatter(wide[rank], ws[rank], tiles=tiles_)
            assert torch.equal(scattered, parts[rank * m : (rank + 1) * m])
    batched = _all(lambda g: _whole(g, 2, 3, 4))
    square = _all(lambda g: _whole(g, 4, 4))
    total = sum(x.double() @ w.double() for x, w in zip(batched, square, strict=True)).float()
    assert torch.equal(matmul_all_reduce(batched[rank], square[rank], tiles=2), total)


def gradients() -> None:
    """Backward of each fused call against the definition: the gradient of a sum over ranks of weighted results."""
    rank, n = dist.get_rank(), dist.get_world_size()
    m, k, p = 6, 4, 5
    xs, ws = _all(lambda g: _whole(g, m, k)), _all(lambda g: _whole(g, k, p))
    wide = _all(lambda g: _whole(g, n * m, k))

    def check(fused: Value, sources: list[torch.Tensor], plain: Value, grads: list[torch.Tensor]) -> None:
        x, w = sources[rank].clone().requires_grad_(), ws[rank].clone().requires_grad_()
        fused(x, w, tiles=2).backward(grads[rank])
        leaves = [(a.clone().requires_grad_(), b.clone().requires_grad_()) for a, b in zip(sources, ws, strict=True)]
        torch.autograd.backward(plain(leaves), grads)
        assert torch.equal(x.grad, leaves[rank][0].grad)
        assert torch.equal(w.grad, leaves[rank][1].grad)

    same = [_whole(torch.Generator().manual_seed(9), m, p)] * n
    sum_once = [same[0], *(torch.zeros_like(same[0]) for _ in range(n - 1))]  # every rank holds the one sum

    def summed(leaves: Value) -> list[torch.Tensor]:
        total = sum(x @ w for x, w in leaves)
        return [total] * n

    x, w = xs[rank].clone().requires_grad_(), ws[rank].clone().requires_grad_()
    matmul_all_reduce(x, w, tiles=3).backward(same[rank])
    leaves = [(a.clone().requires_grad_(), b.clone().requires_grad_()) for a, b in zip(xs, ws, strict=True)]
    torch.autograd.backward(summed(leaves), sum_once)
    assert torch.equal(x.grad, leaves[rank][0].grad)
    assert torch.equal(w.grad, leaves[rank][1].grad)

    gathered = _all(lambda g: _whole(g, n * m, p))
    check(all_gather_matmul, xs, lambda ls: [torch.cat([x for x, _ in ls]) @ w for _, w in ls], gathered)
    own = _all(lambda g: _whole(g, m, p))
    check(matmul_reduce_scatter, wide, lambda ls: list(sum(x @ w for x, w in ls).chunk(n)), own)


def gathers() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    tensors = _all(lambda g: torch.rand(11, 3, generator=g))
    whole = torch.stack(tensors)
    for max_bytes in (n * 12, n * 12 * 4, 1 << 20):
        low = 0
        for rows, piece in chunked_all_gather(tensors[rank], max_bytes):
            assert rows.start == low
            assert piece.nbytes <= max_bytes
            assert torch.equal(piece, whole[:, rows])
            low = rows.stop
        assert low == 11
    caches = _all(lambda g: (torch.rand(5, 7, 4, generator=g), torch.rand(5, 7, 4, generator=g)))
    for max_bytes in (2 * n * 7 * 4 * 4, 2 * 2 * n * 7 * 4 * 4 + 5, 1 << 20):
        gatherer, seen = KVCacheAllGatherer(max_bytes), 0
        assert gatherer.predicted_bytes(7, 5, 4, 4) <= max_bytes
        largest = 0
        for heads, keys, values in gatherer.gather(*caches[rank]):
            assert torch.equal(keys, torch.stack([k[heads] for k, _ in caches], dim=1))
            assert torch.equal(values, torch.stack([v[heads] for _, v in caches], dim=1))
            largest = max(largest, keys.nbytes + values.nbytes)
            seen = heads.stop
        assert seen == 5
        assert largest == gatherer.predicted_bytes(7, 5, 4, 4)


def compressed_gathers() -> None:
    """int8 and int4 with scales, over every backend: within the codec's bound, a piece at a time."""
    from autotune.kernels.codecs import Codec
    from autotune.types import DType

    rank, n = dist.get_rank(), dist.get_world_size()
    caches = _all(lambda g: (torch.randn(4, 70, 8, generator=g), torch.randn(4, 70, 8, generator=g)))
    rows = _all(lambda g: torch.randn(300, 5, generator=g))
    for word in ("int8", "int4"):
        bound = Codec.parse(word).relative_error(DType.FLOAT32)
        for _, keys, values in KVCacheAllGatherer(2 * n * 70 * 8 * 4, compression=word).gather(*caches[rank]):
            assert keys.shape == values.shape == (1, n, 70, 8)
        heads = list(KVCacheAllGatherer(1 << 20, compression=word).gather(*caches[rank]))
        for kind in (0, 1):
            got, want = heads[0][1 + kind], torch.stack([cache[kind] for cache in caches], dim=1)
            assert 0 < (got - want).norm() <= bound * want.norm()
        got = torch.cat([piece for _, piece in chunked_all_gather(rows[rank], n * 2000, compression=word)], dim=1)
        assert 0 < (got - torch.stack(rows)).norm() <= bound * torch.stack(rows).norm()


def tuned() -> dict[str, Value]:
    """A choice is equal on all ranks, is used, and survives a file."""
    found = tiles.tune_tiles("matmul_all_reduce", 64, 32, 16, candidates=(2, 4), rounds=9)
    x, w = torch.rand(64, 32), torch.rand(32, 16)
    chosen = tiles.way_of(Fusion.MATMUL_ALL_REDUCE, x, w, None, None)
    assert chosen == tiles.Way(tiles=found.tiles)
    assert tiles.way_of(Fusion.MATMUL_ALL_REDUCE, x, w, 3, None) == tiles.Way(tiles=3)
    assert tiles.way_of(Fusion.MATMUL_ALL_REDUCE, x[1:], w, None, None) == tiles.UNFUSED
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiles.json"
        tiles.save_tiles(path)
        assert os.stat(path).st_mode & 0o777 == 0o600
        tiles._known.clear()
        tiles.load_tiles(path)
    assert tiles.way_of(Fusion.MATMUL_ALL_REDUCE, x, w, None, None) == chosen
    return {"tiles": found.tiles, "best": found.best, "unfused_us": found.unfused_us, "of": found.collective_us}


def by_the_vendor() -> None:
    """A stand-in for a vendor's operator: found by its signature, measured beside ours, called where it is chosen."""
    from torch import Tensor

    def npu_mm_all_reduce_base(
        x1: Tensor, x2: Tensor, hcom: str, *, reduce_op: str = "sum", comm_mode: str | None = None
    ) -> Tensor:
        assert (hcom, reduce_op) == ("group of HCCL", "sum")
        if comm_mode == "aiv":
            raise RuntimeError("not for this chip")
        out = x1 @ x2
        dist.all_reduce(out)
        return out + (comm_mode == "wrong")

    module = mock.Mock(spec=["npu_mm_all_reduce_base"], npu_mm_all_reduce_base=npu_mm_all_reduce_base)
    own = vendor.found_in(module)
    assert list(own) == [Fusion.MATMUL_ALL_REDUCE]
    x, w = torch.rand(8, 4), torch.rand(4, 4)
    with (
        mock.patch.object(vendor, "hcom_name", return_value="group of HCCL"),
        mock.patch.object(tiles, "operators", return_value=own),
        mock.patch("autotune.runtime.torch.fused.operators", return_value=own),
    ):
        works = [tiles._works(way, Fusion.MATMUL_ALL_REDUCE, x, w, None) for way in tiles.vendor_ways(*own.values())]
        assert works == [True, True, False]
        assert not tiles._works(tiles.Way(vendor=(("comm_mode", "wrong"),)), Fusion.MATMUL_ALL_REDUCE, x, w, None)
        found = tiles.tune_tiles("matmul_all_reduce", 8, 4, 4, candidates=(2,), rounds=9)
        assert found.vendor in (None, (), (("comm_mode", "ai_cpu"),))
        shape = tiles._shape(Fusion.MATMUL_ALL_REDUCE, 8, 4, 4, torch.float32, None)
        tiles._known[shape] = dataclasses.replace(found, tiles=1, vendor=(("comm_mode", "ai_cpu"),))
        leaf = x.clone().requires_grad_()
        made = matmul_all_reduce(leaf, w)
        made.sum().backward()
        assert torch.allclose(made, matmul_all_reduce(x, w, tiles=1))
        assert torch.allclose(leaf.grad, torch.ones(8, 4) @ w.t())
    assert "the vendor's operator, which is not here" in told(lambda: matmul_all_reduce(x, w))[1]
    del tiles._known[shape]


def refused() -> list[str]:
    x, w = torch.rand(5, 4), torch.rand(4, 2)
    wrong = [
        lambda: matmul_all_reduce(x, w.t()),
        lambda: matmul_all_reduce(x, w.double()),
        lambda: matmul_all_reduce(x, w, tiles=0),
        lambda: all_gather_matmul(x.view(1, 5, 4), w),
        lambda: matmul_reduce_scatter(x, w),
        lambda: list(chunked_all_gather(x, 3)),
        lambda: list(KVCacheAllGatherer(3).gather(torch.rand(1, 2, 3), torch.rand(1, 2, 3))),
        lambda: list(KVCacheAllGatherer(3).gather(torch.rand(1, 2, 3), torch.rand(2, 2, 3))),
        lambda: tiles.tune_tiles("product", 4, 4, 4),
        lambda: tiles.tune_tiles("matmul_all_reduce", 4, 4, 4, rounds=2),
        lambda: tiles.load_tiles("/nonexistent/tiles.json"),
    ]
    said = []
    for call in wrong:
        try:
            call()
        except AutotuneError as err:
            said.append(err.message if err.remedy else "no remedy")
    return said
