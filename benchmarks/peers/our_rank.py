"""One rank of ours: `our_rank.py SOCKET_NAME CORES RANK N_RANKS SEGMENT_FD TIMEOUT_S private|symmetric`.

The twin of mpi_csrc/sampler.c, which says what the lines are, for the native executor: the loop and the clock are
`Group.time`, in C++ (steady_clock is CLOCK_MONOTONIC), inputs and checks those of the tuner's own trials. A config is
the JSON that `ours.config_words` writes. broadcast is in place, as in MPI and as `Communicator.broadcast`.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.backends.inputs import Inputs
from autotune.errors import AutotuneError
from autotune.kernels import Communicator, Shape, _native
from autotune.kernels.symmetric import Placing
from autotune.topology.memory_left import memory_left
from autotune.types import Collective, Config, DType, ReduceOp


def main(arguments: Sequence[str]) -> None:
    address, cores_text, rank_text, ranks_text, fd_text, timeout_text, memory = arguments
    _native.die_with_parent()
    rank, cores = int(rank_text), [int(core) for core in cores_text.split(",")]
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    group = Communicator(
        int(fd_text),
        rank,
        int(ranks_text),
        selector=_no_selector,
        cores=len(cores),
        timeout_s=float(timeout_text),
        room_bytes=memory_left,
    )
    with group as comm, socket.socket(socket.AF_UNIX) as link, link.makefile("r") as requests:
        link.connect(b"\0" + address.encode())
        build = hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:8]
        answer = f"hello {rank} {os.getpid()} autotune native {build}, {_native.arithmetic()} arithmetic"
        sampler = Sampler(comm, SymmetricBuffers(comm) if memory == "symmetric" else PrivateBuffers())
        while True:
            link.sendall(answer.encode() + b"\n")
            line = requests.readline()
            if not line:
                return
            answer = sampler.answer(line)


class Sampler:
    """Answers requests with samples of one communicator."""

    def __init__(self, comm: Communicator, buffers: PrivateBuffers | SymmetricBuffers) -> None:
        self._comm = comm
        self._buffers = buffers

    def answer(self, line: str) -> str:
        """One line for one line; the words are those of sampler.c."""
        words = line.split(maxsplit=9)
        collective = Collective(words[1])
        count, batch, repeats, calls, n_buffers, keep_bytes = (int(word) for word in (words[2], *words[4:9]))
        shape = Shape(collective, DType.FLOAT32, ReduceOp.SUM, 0, count)
        try:
            call = self._comm.prepare(shape, _config(words[9]), self._buffers.placing)
        except AutotuneError as err:  # on every rank alike, before anything was sent
            return f"refused {err.message}"
        size, take = shape.message_bytes(self._comm.n_ranks), self._buffers.take
        outputs = [take("output", b, size)[: call.output_elements * 4] for b in range(n_buffers)]
        if collective is Collective.BROADCAST:
            inputs = [output[: call.input_elements * 4] for output in outputs]  # the root's, or nothing
        else:
            inputs = [take("input", b, size)[: call.input_elements * 4] for b in range(n_buffers)]
        exact = Inputs(shape, self._comm.rank, self._comm.n_ranks)
        group, barrier = self._comm.group, self._comm.barrier_call()
        times_us = []
        # What follows is compiled, as all of it is in sampler.c: no rank's interpreter runs between another's rewrite
        # and the calls that are timed, when what was rewritten would leave the cache of a core that they share.
        self._comm.barrier()
        for k in range(repeats):
            if k == 0 or words[3] == "fresh":
                exact.rewrite(inputs, outputs, batch)
            times_us.append(group.time(call, barrier, inputs, outputs, calls) * 1e6)
        wrong = exact.first_wrong(outputs[:calls], batch)
        del inputs, outputs
        self._buffers.release(keep_bytes)
        if wrong is not None:
            return f"wrong element {wrong[0]} is {wrong[1]:g}, expected {wrong[2]:g}"
        return "us " + " ".join(f"{time_us:.4f}" for time_us in times_us)


class PrivateBuffers:
    """Page-aligned memory of this process alone, kept and grown."""

    placing = Placing.PRIVATE

    def __init__(self) -> None:
        self._maps: dict[tuple[str, int], mmap.mmap] = {}

    def take(self, role: str, index: int, size: int) -> memoryview:
        """At least `size` bytes."""
        known = self._maps.get((role, index))
        if known is None or len(known) < size:
            self._maps[role, index] = known = mmap.mmap(-1, max(size, mmap.PAGESIZE))
            np.frombuffer(known, np.uint8)[:: mmap.PAGESIZE] = 0
        return memoryview(known)

    def release(self, keep_bytes: int) -> None:
        """Give back what is larger."""
        self._maps = {key: kept for key, kept in self._maps.items() if len(kept) <= keep_bytes}


class SymmetricBuffers:
    """Symmetric memory of the group; every rank takes and gives back the same, in the same order."""

    placing = Placing.SYMMETRIC

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._arrays: dict[tuple[str, int], np.ndarray[Any, Any]] = {}

    def take(self, role: str, index: int, size: int) -> memoryview:
        """At least `size` bytes, at the same place on every rank."""
        known = self._arrays.get((role, index))
        if known is None or known.nbytes < size:
            if known is not None:
                self._comm.free(known)
            self._arrays[role, index] = known = self._comm.allocate(size, "uint8")
        return known.data

    def release(self, keep_bytes: int) -> None:
        """Give back what is larger."""
        for key in [key for key, array in self._arrays.items() if array.nbytes > keep_bytes]:
            self._comm.free(self._arrays.pop(key))


def _config(words: str) -> Config:
    fields = json.loads(words)
    knobs = tuple(sorted(fields.pop("knobs").items()))
    return Config(**fields, knobs=knobs)


def _no_selector(*_: object) -> Config:
    raise AssertionError("requests bring their config")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
