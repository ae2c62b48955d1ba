"""One rank of the torch backend: a process that times collectives over torch.distributed when it is told to.

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store, tables, files. `torch_dist.TorchBackend` starts it through `launch.RankPool`.

Samples and checks are those of `worker.Worker`; what ranks agree on beside the trial: torch_agreement.py.

torch's all_reduce, reduce and broadcast are in place, and that is how jobs call them: here the input is copied into the
output before the clock starts, for the library's collective and for our schedules alike. The other collectives run out
of place.

On a CPU the clock is the host's. On other devices it is the device's own, over a batch of calls (portable_clock.py),
each on tensors of its own. Run on hardware: no.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.distributed as dist

from ..errors import AutotuneError, UsageError
from ..kernels import Communicator, Shape, _native
from ..kernels.portable import PortableCommunicator
from ..kernels.portable_clock import Clock
from ..kernels.portable_tensors import lengths
from ..kernels.programs import layout_of
from ..kernels.symmetric import Placing
from ..measure.timing import COSTLY_SAMPLE_US
from ..portfolio.torch_groups import library_call
from ..table import LIBRARY
from ..types import Collective, Config, Layout, Memory, ReduceOp
from .agreed import slowest
from .rank_process import Json
from .torch_agreement import Agreement, Buffer, SharedMemory
from .torch_device import device_of
from .torch_pairs import measured
from .worker import Worker, serve

_IN_PLACE = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.BROADCAST)
_DEVICE_BYTES = 256 << 20  # tensors of a batch
_ESTIMATE_CALLS = 8
Buffers = Sequence[memoryview]
Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class TorchCall:
    """What `Worker` asks of a call, and what is needed to carry it out."""

    shape: Shape
    config: Config
    input_elements: int
    output_elements: int


class TorchGroup:
    """Calls over torch.distributed on a device, on buffers of the host."""

    def __init__(self, native: Agreement, device: str, timeout_s: float) -> None:
        self._native = native
        self.device = device_of(device, native.local_rank)
        self.clock = Clock(self.device)
        store = native.store()
        dist.init_process_group(
            dist.get_default_backend_for_device(self.device),
            store=store,
            rank=native.rank,
            world_size=native.n_ranks,
            timeout=timedelta(seconds=timeout_s),
        )
        native.meet()
        self._ours = PortableCommunicator(selector=_no_selector, layout=_layout(store, native.rank, native.n_ranks))

    def prepare(self, shape: Shape, config: Config) -> TorchCall:
        """The call, checked.

        Raises:
            UsageError: a config that cannot be carried out, on every rank alike.
        """
        if config.algorithm != LIBRARY.algorithm:
            self._ours.prepare(shape, config)
        elif config != LIBRARY:
            raise UsageError(f"config {config}: the library's collective has no settings", remedy="use library alone")
        return TorchCall(shape, config, *lengths(shape, self._native.n_ranks))

    def run(self, call: TorchCall, source: memoryview, target: memoryview) -> None:
        """Once, untimed."""
        self.time(call, None, [source], [target], 1)

    def time(self, call: TorchCall, barrier: object, inputs: Buffers, outputs: Buffers, calls: int) -> float:
        """Seconds of so many calls back to back, call i on buffers i modulo their number, each time as they are now.

        Args:
            barrier: not used; ranks meet by the native executor's.
        """
        n = len(inputs)
        pairs = [self._pair(call, inputs[i % n], outputs[i % n], again=i >= n) for i in range(calls)]
        steps = [self._step(call, *pair) for pair in pairs]
        seconds = self.clock.seconds(steps, self._native.barrier)
        for (_, result), output in zip(pairs, outputs, strict=False):
            kept = torch.frombuffer(output, dtype=result.dtype)
            if kept.data_ptr() != result.data_ptr():
                kept.copy_(result)
        return seconds

    def _pair(self, call: TorchCall, source: memoryview, target: memoryview, *, again: bool) -> Pair:
        """Input and output of a call, on the device; on a CPU the buffers themselves, but for those used again."""
        dtype = getattr(torch, call.shape.dtype.value)
        given, result = torch.frombuffer(source, dtype=dtype), torch.frombuffer(target, dtype=dtype)
        if self.device.type != "cpu" or again:
            given, result = given.to(self.device, copy=True), result.to(self.device, copy=True)
        collective = call.shape.collective
        if collective in _IN_PLACE:
            if collective is not Collective.BROADCAST or self._native.rank == call.shape.root:
                result.copy_(given)
            given = result
        return given, result

    def _step(self, call: TorchCall, source: torch.Tensor, target: torch.Tensor) -> Callable[[], object]:
        if call.config != LIBRARY:
            return lambda: self._ours.run(call.shape, call.config, source, target)
        return library_call(call.shape, source, target, self._native.rank, self._native.n_ranks)


class TorchRanks:
    """What `Worker` takes for a `Communicator`: trials over torch.distributed, agreement beside them."""

    def __init__(self, native: Agreement, timeout_s: float) -> None:
        self._native = native
        self._timeout_s = timeout_s
        self._group: TorchGroup | None = None
        self.rank = native.rank
        self.n_ranks = native.n_ranks

    def open(self, device: str, kind: type[TorchGroup] = TorchGroup) -> None:
        """Meet the other ranks."""
        self._group = kind(self._native, device, self._timeout_s)

    @property
    def group(self) -> TorchGroup:
        assert self._group is not None, "the first request names the device"
        return self._group

    def prepare(self, shape: Shape, config: Config, placing: Placing) -> TorchCall:
        """As `TorchGroup.prepare`."""
        if placing.memory is not Memory.PRIVATE:
            raise UsageError("torch.distributed has no symmetric memory", remedy="use private memory")
        return self.group.prepare(shape, config)

    def barrier_call(self) -> None:
        """Nothing: `TorchGroup.time` has a barrier of its own."""

    def all_reduce(self, values: Buffer, op: ReduceOp, *, config: Config) -> None:
        """As `Communicator.all_reduce`."""
        self._native.all_reduce(values, op, config=config)

    def all_gather(self, values: Buffer, out: Buffer, *, config: Config) -> None:
        """As `Communicator.all_gather`."""
        self._native.all_gather(values, out, config=config)


class TorchWorker(Worker):
    """`Worker` over torch.distributed."""

    def __init__(self, native: Communicator | Agreement, timeout_s: float) -> None:
        self._ranks = TorchRanks(SharedMemory(native) if isinstance(native, Communicator) else native, timeout_s)
        # The class asks of its communicator no more than TorchRanks has; the native types are nominal.
        super().__init__(cast(Communicator, self._ranks), sample_us=COSTLY_SAMPLE_US)

    def answer(self, request: dict[str, Json]) -> dict[str, Json]:
        """Do what a request says."""
        if request["do"] == "device":
            self._ranks.open(str(request["device"]))
            return {"torch": torch.__version__}
        return super().answer(request)

    def _figures(self, a: int, b: int) -> Json:
        group = self._ranks.group
        dist.barrier()
        if self._ranks.rank not in (a, b):
            return None
        first = self._ranks.rank == a
        found = measured(first, b if first else a, str(group.device))
        return list(found) if first else None

    def _agreed_calls(
        self, call: _native.Call, inputs: Buffers, outputs: Buffers, seconds: Sequence[float]
    ) -> tuple[int, float]:
        group = self._ranks.group
        if group.device.type == "cpu":
            return super()._agreed_calls(call, inputs, outputs, seconds)
        asked = cast(TorchCall, call)
        for _ in range(2):  # connections, and whatever the device compiles
            group.run(asked, inputs[0], outputs[0])
        together = group.time(asked, None, inputs, outputs, _ESTIMATE_CALLS)
        estimate_us = float(slowest(self._comm, np.array([together / _ESTIMATE_CALLS * 1e6]))[0])
        room = _DEVICE_BYTES // (asked.shape.message_bytes(self._ranks.n_ranks) or 1)
        return max(1, min(math.ceil(group.clock.least_s * 1e6 / estimate_us), room)), estimate_us


def _layout(store: dist.Store, rank: int, n_ranks: int) -> Layout | None:
    """Which ranks share a host, that is a kernel and a network namespace; None where all do."""
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    store.set(f"host/{rank}", f"{kernel} {os.readlink('/proc/self/ns/net')}")
    hosts = [store.get(f"host/{other}").decode() for other in range(n_ranks)]
    if len(set(hosts)) == 1:
        return None
    return layout_of(n_ranks, 0, tuple(map(hosts.index, hosts)))


def _no_selector(*_: object) -> Config:
    raise AssertionError("a worker's calls bring their config")


def main(arguments: Sequence[str], worker: type[TorchWorker] = TorchWorker) -> None:
    """Serve requests until the socket closes."""
    _native.die_with_parent()
    setup = json.loads(arguments[2])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"  # all ranks are on this host, whatever its name resolves to
    timeout_s = setup["timeout_s"]
    group = Communicator(
        int(arguments[1]),
        setup["rank"],
        setup["n_ranks"],
        selector=_no_selector,
        cores=setup["n_cores"],
        timeout_s=timeout_s,
    )
    with group as comm, socket.socket(fileno=int(arguments[0])) as link, link.makefile("rb") as requests:
        serve(worker(comm, timeout_s), link, requests)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
