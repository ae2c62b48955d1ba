"""A child of an agent in a job on several hosts: one rank of the torch backend.

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store of trials, tables, files. `pool.AgentPool` starts it.

Its ranks find each other through the job's TCPStore, under the group's name. What they agree on beside the trial goes
over a group of its own, by gloo: it has connections of its own, but wakes threads that the trial's have to wait for, so
short calls read some microseconds slower here than on one host.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from ..backends.torch_agreement import Buffer
from ..backends.torch_worker import TorchWorker
from ..backends.worker import serve
from ..errors import AutotuneError
from ..kernels import _native
from ..types import Config, ReduceOp
from .setup import Setup, read_setup

_SIOCGIFADDR = 0x8915  # netdevice(7): the IPv4 address of an interface
_OPS = {ReduceOp.MAX: dist.ReduceOp.MAX, ReduceOp.MIN: dist.ReduceOp.MIN, ReduceOp.SUM: dist.ReduceOp.SUM}


class Gloo:
    """Implements `backends.torch_agreement.Agreement` over a group of torch.distributed's own."""

    def __init__(self, setup: Setup) -> None:
        self.rank = setup.rank
        self.n_ranks = setup.n_ranks
        self.local_rank = setup.local_rank
        self._setup = setup
        self._group: dist.ProcessGroup | None = None

    def store(self) -> dist.Store:
        """The job's, under the group's name."""
        setup = self._setup
        limit = timedelta(seconds=setup.timeout_s)
        server = dist.TCPStore(
            setup.store_address, setup.store_port, is_master=False, timeout=limit, wait_for_workers=False
        )
        return dist.PrefixStore(setup.group, server)

    def meet(self) -> None:
        """Make the group."""
        self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self._setup.timeout_s))

    def barrier(self) -> None:
        """See `Agreement`."""
        dist.barrier(self._group)

    def all_reduce(self, values: Buffer, op: ReduceOp, *, config: Config) -> None:
        """See `Agreement`."""
        dist.all_reduce(torch.from_numpy(values), _OPS[op], self._group)

    def all_gather(self, values: Buffer, out: Buffer, *, config: Config) -> None:
        """See `Agreement`."""
        dist.all_gather(list(torch.from_numpy(out)), torch.from_numpy(values), self._group)


def interface_of(address: str) -> str | None:
    """The network interface that has an address; None where none has."""
    if ":" in address:
        wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
        lines = Path("/proc/net/if_inet6").read_text("ascii").splitlines()
        return next((words[-1] for words in map(str.split, lines) if words[0] == wanted), None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(asked, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:  # without an IPv4 address
                continue
            if found[20:24] == socket.inet_aton(address):
                return name
    return None


def main(arguments: Sequence[str], worker: type[TorchWorker] = TorchWorker) -> None:
    """Serve requests until the socket closes."""
    _native.die_with_parent()
    setup = read_setup(json.loads(arguments[2]))
    if "GLOO_SOCKET_IFNAME" not in os.environ and setup.address is not None:
        # Else gloo takes the address that the host's name resolves to, which on many hosts is 127.0.1.1.
        name = interface_of(setup.address)
        if name is not None:
            os.environ["GLOO_SOCKET_IFNAME"] = name
    with socket.socket(fileno=int(arguments[0])) as link, link.makefile("rb") as requests:
        serve(worker(Gloo(setup), setup.timeout_s), link, requests)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
