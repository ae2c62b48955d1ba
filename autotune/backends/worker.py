"""One rank of a pool: a process that times collectives when it is told to (``python -m autotune.backends.worker``).

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store, tables, files. `launch.RankPool` starts it; nobody else does.

What a sample is: `measure.Backend`. Every rank does the same, in the same order; what ranks must agree on (how many
calls make a batch, whether an answer was right) is agreed by a collective, never by a clock.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import sys
from collections.abc import Sequence

import numpy as np

from ..errors import AutotuneError, UsageError
from ..kernels import Communicator, Shape, _native
from ..measure import batch_calls
from ..measure.timing import BATCH_US
from ..types import Collective, Config, DType, ReduceOp, SampleKind, TrialState
from .inputs import Inputs
from .launch import Json
from .random_check import RandomCheck

_ROTATION_BYTES = 256 << 10  # a batch goes round buffers of about this much, so that it does not stay on one
_MOST_BUFFERS = 8
_MOST_SINGLE_CALLS = 8
_SINGLE_CALLS_US = 1000.0  # calls that are timed one by one are repeated up to this, and their mean is the sample
_AGREE = Config(algorithm="flat", segment_bytes=65536)
_GATHER = Config(algorithm="direct", segment_bytes=65536)


class Worker:
    """The ranks' side of a pool.

    Args:
        comm: the group; its selector is never asked, since every call brings its config.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._buffers = _Buffers()
        self._seen: dict[tuple[Shape, Config], int] = {}
        self._random = RandomCheck(comm)

    def answer(self, request: dict[str, Json]) -> dict[str, Json]:
        """Do what a request says."""
        match request["do"]:
            case "join":
                return {"rank": self._comm.rank}
            case "round":
                return {"outcomes": [self._outcome(request, config) for config in _configs(request)]}
            case "pingpong":
                return {"us": self._pingpong(int(str(request["bytes"])), int(str(request["turns"])))}
        raise ValueError(f"unknown request {request['do']!r}")

    def _outcome(self, request: dict[str, Json], config: Config) -> dict[str, Json]:
        shape = _shape(request)
        kind = SampleKind(request["kind"])
        batch = int(str(request["batch"]))
        try:
            call = self._comm.prepare(shape, config)
        except UsageError as err:  # on every rank alike, before anything was sent
            return {"state": TrialState.INVALID.value, "message": err.message, "wrong": None}
        first_time = (shape, config) not in self._seen
        if first_time:
            wrong = self._random.wrong(shape, config)
            if wrong is not None:
                return {"state": TrialState.WRONG_RESULT.value, "message": wrong, "wrong": None}
            # The bound on the calls of a batch is agreed once: an estimate that changed between rounds would
            # compare batches of different lengths.
            self._seen[(shape, config)] = self._agreed_calls(shape, call)
        calls = self._seen[(shape, config)]
        return self._sample(shape, call, kind, batch, calls, check_before=first_time)

    def _agreed_calls(self, shape: Shape, call: _native.Call) -> int:
        inputs, outputs = self._buffers.take(shape, call, 1)
        barrier = self._comm.barrier_call()
        group = self._comm.group
        group.time(call, barrier, inputs, outputs, 1)  # first touch of pages and of both outbox halves
        group.time(call, barrier, inputs, outputs, 1)
        estimate = self._slowest(np.array([group.time(call, barrier, inputs, outputs, 4) / 4 * 1e6]))[0]
        if estimate < BATCH_US / 4:
            estimate = self._slowest(np.array([group.time(call, barrier, inputs, outputs, 32) / 32 * 1e6]))[0]
        return batch_calls(float(estimate))

    def _sample(
        self, shape: Shape, call: _native.Call, kind: SampleKind, batch: int, calls: int, *, check_before: bool
    ) -> dict[str, Json]:
        group, barrier = self._comm.group, self._comm.barrier_call()
        per_call = max(1, shape.message_bytes(self._comm.n_ranks))
        fresh = kind is SampleKind.FRESH
        rotation = max(1, min(calls, _MOST_BUFFERS, _ROTATION_BYTES // per_call)) if fresh else 1
        inputs, outputs = self._buffers.take(shape, call, rotation)
        exact = Inputs(shape, self._comm.rank, self._comm.n_ranks)
        if check_before:
            exact.rewrite(inputs, outputs, batch + 1)
            group.time(call, barrier, inputs, outputs, rotation)
            wrong = self._first_wrong(exact, outputs, batch + 1)
            if wrong is not None:
                return wrong
        exact.rewrite(inputs, outputs, batch)
        if calls > 1:
            seconds = np.array([group.time(call, barrier, inputs, outputs, calls) / calls])
        else:
            # Timed one by one, each after an untimed rewrite of the input; so many that one odd call does not decide.
            once = group.time(call, barrier, inputs, outputs, 1)
            times = [once]
            wanted = float(self._slowest(np.array([_SINGLE_CALLS_US / max(once * 1e6, 1.0)]))[0])
            for _ in range(min(_MOST_SINGLE_CALLS, int(wanted) + 1) - 1):
                if fresh:
                    exact.rewrite(inputs, outputs, batch)
                times.append(group.time(call, barrier, inputs, outputs, 1))
            seconds = np.array(times)
        wrong = self._first_wrong(exact, outputs[: min(calls, rotation)], batch)
        if wrong is not None:
            return wrong
        return {"time_us": float(self._slowest(seconds).mean() * 1e6), "calls": calls}

    def _slowest(
        self, values: np.ndarray[tuple[int], np.dtype[np.float64]]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The largest of all ranks' values, one by one; agreed, so that all ranks go on alike."""
        self._comm.all_reduce(values, ReduceOp.MAX, config=_AGREE)
        return values

    def _first_wrong(self, inputs: Inputs, outputs: Sequence[memoryview], batch: int) -> dict[str, Json] | None:
        """The first wrong element of any rank, as every rank reports it; None if all are right."""
        mine = inputs.first_wrong(outputs, batch)
        everyone = np.zeros((self._comm.n_ranks, 4))
        report = np.array([0.0, 0, 0, 0] if mine is None else [1.0, *mine])
        self._comm.all_gather(report, everyone, config=_GATHER)
        bad = np.flatnonzero(everyone[:, 0])
        if not bad.size:
            return None
        rank = int(bad[0])
        _, index, got, expected = everyone[rank]
        return {
            "state": TrialState.WRONG_RESULT.value,
            "message": f"rank {rank} has {got:g} at element {int(index)}, expected {expected:g}",
            "wrong": {"rank": rank, "index": int(index), "got": f"{got:g}", "expected": f"{expected:g}"},
        }

    def _pingpong(self, n_bytes: int, turns: int) -> float:
        """Microseconds of one message between ranks 0 and 1: the median of nine batches of round trips."""
        data = bytearray(n_bytes)
        _native.pingpong(self._comm.group, data, 2)
        return float(np.median([_native.pingpong(self._comm.group, data, turns) for _ in range(9)])) * 1e6


class _Buffers:
    """Page-aligned input and output buffers, kept and grown, so that a sample does not pay for fresh pages."""

    def __init__(self) -> None:
        self._maps: dict[tuple[str, int], mmap.mmap] = {}

    def take(self, shape: Shape, call: _native.Call, n: int) -> tuple[list[memoryview], list[memoryview]]:
        item = shape.dtype.itemsize
        inputs = [self._view("input", i, call.input_elements * item) for i in range(n)]
        outputs = [self._view("output", i, call.output_elements * item) for i in range(n)]
        return inputs, outputs

    def _view(self, role: str, index: int, size: int) -> memoryview:
        known = self._maps.get((role, index))
        if known is None or len(known) < size:
            self._maps[(role, index)] = known = mmap.mmap(-1, max(size, mmap.PAGESIZE))
            np.frombuffer(known, np.uint8)[:: mmap.PAGESIZE] = 0
        return memoryview(known)[:size]


def _shape(request: dict[str, Json]) -> Shape:
    return Shape(
        Collective(request["collective"]),
        DType(request["dtype"]),
        ReduceOp(request["op"]),
        0,
        int(str(request["count"])),
    )


def _configs(request: dict[str, Json]) -> list[Config]:
    listed = request["configs"]
    assert isinstance(listed, list)
    configs = []
    for fields in listed:
        assert isinstance(fields, dict)
        knobs = fields["knobs"]
        assert isinstance(knobs, dict)
        configs.append(
            Config(
                algorithm=str(fields["algorithm"]),
                segment_bytes=None if fields["segment_bytes"] is None else int(str(fields["segment_bytes"])),
                codec=str(fields["codec"]),
                knobs=tuple(sorted((str(k), v) for k, v in knobs.items() if isinstance(v, int | str))),
            )
        )
    return configs


def _no_selector(*_: object) -> Config:
    raise AssertionError("a worker's calls bring their config")


def main(arguments: Sequence[str]) -> None:
    """Serve requests until the socket closes."""
    _native.die_with_parent()
    setup = json.loads(arguments[2])
    os.sched_setaffinity(0, {setup["core"]})
    group = Communicator(
        int(arguments[1]),
        setup["rank"],
        setup["n_ranks"],
        selector=_no_selector,
        cores=setup["n_cores"],
        timeout_s=setup["timeout_s"],
    )
    with group as comm, socket.socket(fileno=int(arguments[0])) as link, link.makefile("rb") as requests:
        worker = Worker(comm)
        for line in requests:
            link.sendall(json.dumps(worker.answer(json.loads(line))).encode() + b"\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
