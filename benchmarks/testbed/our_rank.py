"""One rank of ours in a host: `our_rank.py SOCKET_NAME CORES`, with what torchrun sets in its environment.

The twin of benchmarks/peers/our_rank.py, whose samples it takes; only the group is made over the network.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.our_rank import PrivateBuffers, Sampler

from autotune import communicator
from autotune.kernels import _native


def main(address: str, cores_text: str) -> None:
    _native.die_with_parent()
    rank, cores = int(os.environ["RANK"]), [int(core) for core in cores_text.split(",")]
    with communicator() as comm, socket.socket(socket.AF_UNIX) as link, link.makefile("r") as requests:
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
        link.connect(b"\0" + address.encode())
        hosts = comm.hosts
        assert hosts is not None
        answer = f"hello {rank} {os.getpid()} autotune native, {hosts.network.name}"
        sampler = Sampler(comm, PrivateBuffers())
        while True:
            link.sendall(answer.encode() + b"\n")
            line = requests.readline()
            if not line:
                return
            answer = sampler.answer(line)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
