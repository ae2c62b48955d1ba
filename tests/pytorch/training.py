"""Checks that ranks of a job run: training over mc2 against gloo, and the gradient hooks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from pytorch.behaviour import told
from pytorch.collectives import gloo
from torch.nn.parallel import DistributedDataParallel

from autotune import mc2_all_gather, mc2_all_reduce, mc2_reduce_scatter
from autotune.runtime.torch.ddp import Exchange, MC2DistributedDataParallel, ddp_hook

Value = Any  # models and groups; torch is not type-checked
STEPS = 20


def _model() -> torch.nn.Module:
    torch.manual_seed(7)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 8))


def _train(model: Value, parameters: Value = None, steps: int = STEPS) -> list[float]:
    """The whole job's loss of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(100 + dist.get_rank())
    goal = torch.randn(64, 8, generator=torch.Generator().manual_seed(5))
    losses = []
    for _ in range(steps):
        inputs = torch.randn(16, 64, generator=generator)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        everyone = loss.detach().to(torch.float64)
        dist.all_reduce(everyone, group=gloo())
        losses.append(everyone.item() / dist.get_world_size())
    return losses


def _close(got: list[float], want: list[float]) -> None:
    assert all(abs(a - b) <= 1e-4 * abs(b) for a, b in zip(got, want, strict=True)), (got, want)
    assert want[-1] < 0.9 * want[0]


def data_parallel() -> None:
    want = _train(DistributedDataParallel(_model(), process_group=gloo(), bucket_cap_mb=0.02))
    _close(_train(DistributedDataParallel(_model(), bucket_cap_mb=0.02)), want)
    hooked = DistributedDataParallel(_model(), bucket_cap_mb=0.02)
    hooked.register_comm_hook(Exchange(), ddp_hook)
    _close(_train(hooked), want)
    _close(_train(MC2DistributedDataParallel(_model(), bucket_cap_mb=0.02)), want)
    # Over another backend: the library's own collective, and a schedule over its messages.
    _close(_train(MC2DistributedDataParallel(_model(), process_group=gloo(), bucket_cap_mb=0.02)), want)
    _close(_train(MC2DistributedDataParallel(_model(), process_group=gloo(), bucket_cap_mb=0.02, topo="ring")), want)


def compressed() -> None:
    """int8 with error feedback comes to the same end; buckets that are rebuilt start afresh."""
    want = _train(DistributedDataParallel(_model(), bucket_cap_mb=0.02))
    model = MC2DistributedDataParallel(_model(), bucket_cap_mb=0.02, compression="int8", lossless_steps=3)
    got = _train(model)
    names = model.exchange.feedback.names()
    assert len(names) > 1
    assert all(model.exchange.feedback.norm(name) > 0 for name in names)
    assert got[:3] == want[:3]
    assert got[5:] != want[5:]
    assert abs(got[-1] - want[-1]) < 0.05 * want[0]
    state = Exchange(compression="int8", lossless_steps=0)
    for parameters in ([torch.ones(300)], [torch.ones(100), torch.ones(200)]):
        bucket = _Bucket(parameters)
        bucket.tensor += torch.linspace(0, 1, 300)
        state.start(bucket).wait()
        before = state.feedback.norm("bucket 0")
        state.start(bucket).wait()
        assert before > 0
    # The same over another backend, whose messages are encoded on the tensors' own device.
    over_gloo = MC2DistributedDataParallel(
        _model(), process_group=gloo(), bucket_cap_mb=0.02, compression="int8", lossless_steps=3
    )
    got = _train(over_gloo)
    assert all(over_gloo.exchange.feedback.norm(name) > 0 for name in over_gloo.exchange.feedback.names())
    assert got[5:] != want[5:]
    assert abs(got[-1] - want[-1]) < 0.05 * want[0]


class _Bucket:
    """What a hook sees of a bucket."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self._parameters = parameters
        self.tensor = torch.cat(parameters)

    def buffer(self) -> torch.Tensor:
        return self.tensor

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True

    def parameters(self) -> list[torch.Tensor]:
        return self._parameters


def sharded() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def run(backend: str) -> list[float]:
        group = gloo() if backend == "gloo" else dist.group.WORLD
        mesh = dist.device_mesh.DeviceMesh.from_group(group, "cpu")
        model = _model()
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return _train(model)

    assert init_device_mesh("cpu", (dist.get_world_size(),)).size() == dist.get_world_size()
    _close(run("mc2"), run("gloo"))


def calls() -> None:
    n, rank = dist.get_world_size(), dist.get_rank()
    for group in (None, gloo()):
        for size in (5, 100_000):
            for later in (False, True):
                whole = torch.full((size,), float(rank))
                got = mc2_all_reduce(whole, async_op=later, group=group)
                got = got.wait() if later else got
                assert got is whole
                assert (whole == n * (n - 1) / 2).all()
                mean = mc2_all_reduce(torch.full((size,), float(rank)), "avg", group=group)
                assert torch.allclose(mean, torch.full((size,), (n - 1) / 2))
                gathered = mc2_all_gather(torch.full((size, 2), float(rank)), async_op=later, group=group)
                gathered = gathered.wait() if later else gathered
                assert gathered.shape == (n, size, 2)
                assert all((gathered[r] == r).all() for r in range(n))
                part = mc2_reduce_scatter(torch.ones(n * size, 2), async_op=later, group=group)
                part = part.wait() if later else part
                assert part.shape == (size, 2)
                assert (part == n).all()
        for topo in ("ring", "tree"):
            assert (mc2_all_reduce(torch.ones(70_000), topo=topo, group=group) == n).all()
        strided = torch.ones(6, 4).t()
        assert mc2_all_reduce(strided, async_op=True, overlap=3, group=group).wait() is strided
        assert (strided == n).all()
        assert mc2_all_reduce(torch.ones(10), async_op=True, overlap=False, group=group).done()
    lossy = mc2_all_reduce(torch.linspace(1, 2, 10_000), compression="int8", topo="ring")
    assert torch.allclose(lossy, n * torch.linspace(1, 2, 10_000), rtol=0.05)
    assert (mc2_all_reduce(torch.ones(1000), compression=True, max_error=0.01) == n).all()
    assert (mc2_all_reduce(torch.ones(1000), compression=False, max_error=0.01) == n).all()


def refused_calls() -> list[list[str]]:
    ones = torch.ones(4)
    return [
        told(lambda: mc2_all_reduce(ones, topo="star")),
        told(lambda: mc2_all_reduce(ones, compression=True)),
        told(lambda: mc2_all_reduce(ones, compression="zip")),
        told(lambda: mc2_all_reduce(ones, overlap=0)),
        told(lambda: mc2_all_gather(ones, overlap=2)),
        told(lambda: mc2_all_gather(ones, topo="tree")),
        told(lambda: mc2_all_reduce(ones, "mean")),
        told(lambda: mc2_reduce_scatter(torch.ones(5))),
        told(lambda: mc2_all_reduce(torch.ones(4, dtype=torch.int16))),
    ]


def changed_input() -> list[str]:
    """AUTOTUNE_CHECK=1: rank 1 changes what it gave before the operation is over."""
    tensor = torch.ones(200_000)
    group = dist.group.WORLD
    gate = _Gate()
    blocker = group.communicator.submit(gate.wait)
    handle = mc2_all_gather(tensor, async_op=True)
    if dist.get_rank() == 1:
        tensor[7] = 5
    gate.open()
    blocker.wait()
    return told(handle.wait)


class _Gate:
    """Holds the line until it is opened."""

    def __init__(self) -> None:
        import threading

        self._opened = threading.Event()
        self.open = self._opened.set

    def wait(self) -> None:
        assert self._opened.wait(20)
