"""One rank of a pool: a process that times collectives when it is told to (``python -m autotune.backends.worker``).

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store, tables, files. `launch.RankPool` starts it; nobody else does.

What a sample is: `measure.Backend`. Every rank does the same, in the same order; what ranks must agree on (how many
calls make a batch, whether an answer was right) is agreed by a collective, never by a clock.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import AutotuneError, UsageError
from ..kernels import Communicator, Shape, _native
from ..kernels.symmetric import Placing
from ..measure import batch_calls
from ..measure.timing import BATCH_US
from ..runtime.network_facts import pair_transports
from ..topology.memory_left import memory_left
from ..types import Config, Fidelity, Memory, ReduceOp, SampleKind, TrialState
from .buffers import PrivateBuffers, SymmetricBuffers, Take
from .data_inputs import DataInputs
from .inputs import Inputs
from .native_pairs import figures_of, pairs_asked, pingpong_us
from .random_check import RandomCheck
from .rank_process import Json
from .requests import config_of, configs_of, shape_of

_ROTATION_BYTES = 256 << 10  # a batch goes round buffers of about this much, so that it does not stay on one
_MOST_BUFFERS = 8
_MOST_SINGLE_CALLS = 8
_SINGLE_CALLS_US = 1000.0  # calls that are timed one by one are repeated up to this, and their mean is the sample
_SURELY_SINGLE_US = 2000.0  # for the least of a rank's first three calls: more than scheduling can add to all of them
_PLACING = {Memory.PRIVATE: Placing.PRIVATE, Memory.SYMMETRIC: Placing.SYMMETRIC}  # trials are out of place
_AGREE = Config(algorithm="flat", segment_bytes=65536)
_GATHER = Config(algorithm="direct", segment_bytes=65536)


class Worker:
    """The ranks' side of a pool.

    Args:
        comm: the group; its selector is never asked, since every call brings its config.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._take: dict[Memory, Take] = {
            Memory.PRIVATE: PrivateBuffers().take,
            Memory.SYMMETRIC: SymmetricBuffers(comm).take,
        }
        self._seen: dict[tuple[Shape, Config, Placing], int] = {}
        self._like: dict[tuple[Shape, Placing], int | None] = {}
        self._random = RandomCheck(comm)
        self._data: tuple[Shape, str, DataInputs] | None = None  # of the last cell with an error budget
        self._fidelity: dict[tuple[Shape, Config, Placing], Fidelity] = {}

    def answer(self, request: dict[str, Json]) -> dict[str, Json]:
        """Do what a request says."""
        match request["do"]:
            case "join":
                return {"rank": self._comm.rank}
            case "pairs":
                return {"figures": [self._figures(a, b) for a, b in pairs_asked(request)]}
            case "transports":
                return {"pairs": [[*pair, *kinds] for pair, kinds in pair_transports(self._comm).items()]}
            case "round":
                return {"outcomes": [self._outcome(request, config) for config in configs_of(request)]}
            case "pingpong":
                return {"us": pingpong_us(self._comm, int(str(request["bytes"])), int(str(request["turns"])))}
        raise ValueError(f"unknown request {request['do']!r}")

    def _outcome(self, request: dict[str, Json], config: Config) -> dict[str, Json]:
        shape = shape_of(request)
        placing = _PLACING[Memory(request["memory"])]
        kind = SampleKind(request["kind"])
        batch = int(str(request["batch"]))
        try:
            call = self._comm.prepare(shape, config, placing)
        except UsageError as err:  # on every rank alike, before anything was sent
            return {"state": TrialState.INVALID.value, "message": err.message, "wrong": None}
        take = self._take[placing.memory]
        cell = (shape, config, placing)
        first_time = cell not in self._seen
        given = self._given(shape, request)
        inputs = given or Inputs(shape, self._comm.rank, self._comm.n_ranks)
        if given is not None and not given.known(config):
            failed = self._judge(cell, call, given, float(str(request["max_error"])), *take(shape, call, 1))
            if failed is not None:
                return failed
        if first_time:
            (source,), (target,) = take(shape, call, 1)
            wrong = self._random.wrong(shape, call, source, target) if config.codec == "none" else None
            if wrong is not None:
                return {"state": TrialState.WRONG_RESULT.value, "message": wrong, "wrong": None}
            # Agreed once: an estimate that changed between rounds would compare batches of different lengths.
            like = self._calls_of_default(request, shape, placing)
            self._seen[cell] = self._agreed_calls(call, *take(shape, call, 1), like)
        calls = self._seen[cell]
        answer = self._sample(shape, call, inputs, take, kind, batch, calls, check_before=first_time)
        if "time_us" in answer and cell in self._fidelity:
            answer |= {"error": self._fidelity[cell].error, "density": self._fidelity[cell].density}
        return answer

    def _given(self, shape: Shape, request: dict[str, Json]) -> DataInputs | None:
        """The data that problems with an error budget are measured on; None for the others."""
        if "max_error" not in request:
            return None
        word = str(request["data"])
        if self._data is None or self._data[:2] != (shape, word):
            self._data = (shape, word, DataInputs(self._comm, shape, word))
        return self._data[2]

    def _judge(
        self,
        cell: tuple[Shape, Config, Placing],
        call: _native.Call,
        given: DataInputs,
        budget: float,
        inputs: Sequence[memoryview],
        outputs: Sequence[memoryview],
    ) -> dict[str, Json] | None:
        """Run once on the data: what is wrong with it, or whether it is off by more than the budget."""
        config = cell[1]
        found = given.fidelity(call, config, inputs[0], outputs[0])
        if isinstance(found, str):
            given.forget(config)
            return {"state": TrialState.WRONG_RESULT.value, "message": found, "wrong": None}
        if config.codec == "none":
            return None
        if found.error > budget:
            given.forget(config)
            message = f"its result is off by {found.error:.3g} of its norm on the data, above {budget:g}"
            return {"state": TrialState.INVALID.value, "message": message, "wrong": None}
        self._fidelity[cell] = found
        return None

    def _calls_of_default(self, request: dict[str, Json], shape: Shape, placing: Placing) -> int | None:
        """How many calls a sample of the cell's default has; None where it does not run here."""
        if (shape, placing) not in self._like:
            try:
                call = self._comm.prepare(shape, config_of(request["default"]), placing)
            except UsageError:  # on every rank alike
                self._like[shape, placing] = None
            else:
                take = self._take[placing.memory]
                self._like[shape, placing] = self._agreed_calls(call, *take(shape, call, 1), None)
        return self._like[shape, placing]

    def _agreed_calls(
        self, call: _native.Call, inputs: Sequence[memoryview], outputs: Sequence[memoryview], like: int | None
    ) -> int:
        """How many calls a sample has: as an estimate says, or so many as what it is compared with, `like`, has.

        A call alone and one of a batch do not compare: in a batch the next call begins while the last one ends. A
        batch is shorter than the default's only where it would take five times as long as a batch need take.
        """
        if like == 1:
            return 1
        barrier = self._comm.barrier_call()
        group = self._comm.group

        def estimate_us(calls: int) -> float:
            """The least of three: one that was disturbed would put short calls among those timed one by one."""
            times = np.array([group.time(call, barrier, inputs, outputs, calls) / calls for _ in range(3)])
            return float(self._slowest(times).min() * 1e6)

        # First touch of pages and of both outbox halves; a call that is slow all the same is timed alone in any case.
        if estimate_us(1) >= _SURELY_SINGLE_US and like is None:
            return 1
        estimate = estimate_us(4)
        if like is not None:
            return max(2, min(like, int(5 * BATCH_US / estimate)))
        return batch_calls(estimate_us(32) if estimate < BATCH_US / 4 else estimate)

    def _sample(
        self,
        shape: Shape,
        call: _native.Call,
        exact: Inputs | DataInputs,
        take: Take,
        kind: SampleKind,
        batch: int,
        calls: int,
        *,
        check_before: bool,
    ) -> dict[str, Json]:
        group, barrier = self._comm.group, self._comm.barrier_call()
        per_call = max(1, shape.message_bytes(self._comm.n_ranks))
        fresh = kind is SampleKind.FRESH
        rotation = max(1, min(calls, _MOST_BUFFERS, _ROTATION_BYTES // per_call)) if fresh else 1
        inputs, outputs = take(shape, call, rotation)
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

    def _first_wrong(
        self, inputs: Inputs | DataInputs, outputs: Sequence[memoryview], batch: int
    ) -> dict[str, Json] | None:
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
        if isinstance(inputs, DataInputs):
            message = f"rank {rank} has other bytes than in the first run, within 4 KiB from element {int(index)} on"
            return {"state": TrialState.WRONG_RESULT.value, "message": message, "wrong": None}
        return {
            "state": TrialState.WRONG_RESULT.value,
            "message": f"rank {rank} has {got:g} at element {int(index)}, expected {expected:g}",
            "wrong": {"rank": rank, "index": int(index), "got": f"{got:g}", "expected": f"{expected:g}"},
        }

    def _figures(self, a: int, b: int) -> Json:
        """[latency_us, bandwidth_gb_per_s] of messages between two ranks, on the first of them; None on the others."""
        self._comm.barrier()
        return figures_of(self._comm, a, b) if self._comm.rank in (a, b) else None


def _no_selector(*_: object) -> Config:
    raise AssertionError("a worker's calls bring their config")


def serve(worker: Worker, link: socket.socket, requests: Iterable[bytes]) -> None:
    """Answer requests, a JSON line each, until there are no more."""
    for line in requests:
        link.sendall(json.dumps(worker.answer(json.loads(line))).encode() + b"\n")


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
        room_bytes=memory_left,
    )
    with group as comm, socket.socket(fileno=int(arguments[0])) as link, link.makefile("rb") as requests:
        serve(Worker(comm), link, requests)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except AutotuneError as err:
        sys.exit(f"{err.message} ({err.remedy})")
