"""One rank of a pool: a process that times collectives when it is told to (``python -m autotune.backends.worker``).

In:  requests, one JSON line each, on the socket that it inherited. Out: one JSON line for each.
May not touch: the store, tables, files. `launch.RankPool` starts it; nobody else does.

What a sample is: `measure.Backend`. Every rank does the same, in the same order; what ranks must agree on (how many
calls make a batch, whether an answer was right) is agreed by a collective, never by a clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import AutotuneError, UsageError
from ..kernels import Communicator, Shape, _native
from ..kernels.symmetric import Placing
from ..measure import calls_like, single_calls, undisturbed_mean
from ..measure.timing import SAMPLE_US
from ..runtime.network_facts import pair_transports
from ..topology.memory_left import memory_left
from ..types import Config, Fidelity, Memory, SampleKind, TrialState
from .agreed import first_wrong, slowest
from .buffers import PrivateBuffers, SymmetricBuffers, Take
from .data_inputs import DataInputs
from .estimate import estimated
from .inputs import Inputs
from .native_pairs import figures_of, pairs_asked, pingpong_us
from .random_check import RandomCheck
from .rank_process import Json
from .round_request import config_of, configs_of, shape_of

_ROTATION_BYTES = 256 << 10  # a batch goes round buffers of about this much, so that it does not stay on one
_MOST_BUFFERS = 8
_PLACING = {Memory.PRIVATE: Placing.PRIVATE, Memory.SYMMETRIC: Placing.SYMMETRIC}  # trials are out of place


class Worker:
    """The ranks' side of a pool.

    Args:
        comm: the group; its selector is never asked, since every call brings its config.
        sample_us: what the calls of a sample take together, where they are timed one by one.
    """

    def __init__(self, comm: Communicator, *, sample_us: float = SAMPLE_US) -> None:
        self._comm = comm
        self._sample_us = sample_us
        self._take: dict[Memory, Take] = {
            Memory.PRIVATE: PrivateBuffers().take,
            Memory.SYMMETRIC: SymmetricBuffers(comm).take,
        }
        self._seen: dict[tuple[Shape, Config, Placing], int] = {}
        self._ways: dict[tuple[Shape, Placing], tuple[int, float]] = {}
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
        cell = (shape, config, placing)
        first_time = cell not in self._seen
        given = self._given(shape, request)
        inputs = given or Inputs(shape, self._comm.rank, self._comm.n_ranks)
        if given is not None and not given.known(config):
            buffers = self._take[placing.memory](shape, call, 1)
            failed = self._judge(cell, call, given, float(str(request["max_error"])), *buffers)
            if failed is not None:
                return failed
        if first_time:
            failed = self._first_calls(cell, call, inputs, batch, config_of(request["default"]))
            if failed is not None:
                return failed
        calls = self._seen[cell]
        check_before = first_time and calls > 1  # a single call's buffers have been checked
        answer = self._sample(cell, call, inputs, kind, batch, calls, check_before=check_before)
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

    def _first_calls(
        self,
        cell: tuple[Shape, Config, Placing],
        call: _native.Call,
        exact: Inputs | DataInputs,
        batch: int,
        default: Config,
    ) -> dict[str, Json] | None:
        """A config's first calls: what is wrong with it; else how many calls its samples hold is agreed, once.

        An estimate that changed between rounds would compare samples of different lengths. The calls that check are
        timed as well, since each of them may be most of what a config costs that is soon dropped.
        """
        shape, config, placing = cell
        buffers = self._take[placing.memory](shape, call, 1)
        (source,), (target,) = buffers
        seconds: list[float] = []

        def run() -> None:
            seconds.append(self._timed(call, *buffers, 1))

        wrong = self._random.wrong(shape, run, source, target) if config.codec == "none" else None
        if wrong is not None:
            return {"state": TrialState.WRONG_RESULT.value, "message": wrong, "wrong": None}
        exact.rewrite(*buffers, batch + 1)
        run()
        failed = self._first_wrong(exact, buffers[1], batch + 1)
        if failed is not None:
            return failed
        calls, _ = self._way(cell, call, buffers, seconds, default)
        if calls > 1 and config != default:
            us = slowest(self._comm, np.array([self._timed(call, *buffers, 4)]))[0] * 1e6
            calls = calls_like(calls, us)
        self._seen[cell] = calls
        return None

    def _way(
        self,
        cell: tuple[Shape, Config, Placing],
        call: _native.Call,
        buffers: tuple[Sequence[memoryview], Sequence[memoryview]],
        seconds: Sequence[float],
        default: Config,
    ) -> tuple[int, float]:
        """How all configs of a problem are timed, agreed once: as its default's time says.

        A call alone and one of a batch do not compare: in a batch the next call begins while the last one ends.
        """
        shape, config, placing = cell
        if (shape, placing) not in self._ways:
            if config != default:
                with contextlib.suppress(UsageError):  # on every rank alike: what runs first decides
                    call = self._comm.prepare(shape, default, placing)
                    buffers, seconds = self._take[placing.memory](shape, call, 1), ()
            self._ways[shape, placing] = self._agreed_calls(call, *buffers, seconds)
        return self._ways[shape, placing]

    def _agreed_calls(
        self,
        call: _native.Call,
        inputs: Sequence[memoryview],
        outputs: Sequence[memoryview],
        seconds: Sequence[float],
    ) -> tuple[int, float]:
        """How many calls are timed together, and the microseconds of one; `seconds` are of this rank's calls so far."""
        return estimated(
            lambda calls: self._timed(call, inputs, outputs, calls),
            seconds,
            lambda times: float(slowest(self._comm, np.array(times)).min() * 1e6),
        )

    def _timed(
        self, call: _native.Call, inputs: Sequence[memoryview], outputs: Sequence[memoryview], calls: int
    ) -> float:
        """Seconds of one of so many calls back to back, on this rank."""
        return self._comm.group.time(call, self._comm.barrier_call(), inputs, outputs, calls) / calls

    def _sample(
        self,
        cell: tuple[Shape, Config, Placing],
        call: _native.Call,
        exact: Inputs | DataInputs,
        kind: SampleKind,
        batch: int,
        calls: int,
        *,
        check_before: bool,
    ) -> dict[str, Json]:
        shape, _, placing = cell
        per_call = max(1, shape.message_bytes(self._comm.n_ranks))
        fresh = kind is SampleKind.FRESH
        rotation = max(1, min(calls, _MOST_BUFFERS, _ROTATION_BYTES // per_call)) if fresh else 1
        inputs, outputs = self._take[placing.memory](shape, call, rotation)
        if check_before:
            exact.rewrite(inputs, outputs, batch + 1)
            self._timed(call, inputs, outputs, rotation)
            wrong = self._first_wrong(exact, outputs, batch + 1)
            if wrong is not None:
                return wrong
        exact.rewrite(inputs, outputs, batch)
        if calls > 1:
            times = [self._timed(call, inputs, outputs, calls)]
        else:
            # Timed one by one, each after an untimed rewrite of the input; so many that one odd call does not decide.
            times = [self._timed(call, inputs, outputs, 1)]
            for _ in range(single_calls(self._ways[shape, placing][1], self._sample_us) - 1):
                if fresh:
                    exact.rewrite(inputs, outputs, batch)
                times.append(self._timed(call, inputs, outputs, 1))
        wrong = self._first_wrong(exact, outputs[: min(calls, rotation)], batch)
        if wrong is not None:
            return wrong
        return {"time_us": undisturbed_mean(slowest(self._comm, np.array(times)).tolist()) * 1e6, "calls": calls}

    def _first_wrong(
        self, inputs: Inputs | DataInputs, outputs: Sequence[memoryview], batch: int
    ) -> dict[str, Json] | None:
        return first_wrong(self._comm, inputs, outputs, batch)

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
