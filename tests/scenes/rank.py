"""One rank of a scene: ``python rank.py FOLDER RANK``, started by scene.py.

In:  FOLDER/scene.json, the scene's store. Out: FOLDER/rank<r>.json, one result for each step that was tried; an error
of autotune's is a result. Outputs of calls go back as text (base64).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from ranks.buffers import buffers_of
from ranks.cases import Call
from scenes.notes import Notes

from autotune.errors import AutotuneError
from autotune.kernels import Communicator, Shape
from autotune.runtime.hosts import join_hosts
from autotune.runtime.network_facts import pair_transports
from autotune.runtime.whereabouts import whereabouts
from autotune.settings import read
from autotune.topology.host_rates import keep_rate
from autotune.types import Config

Result = dict[str, Any]


class Actor:
    """Does the steps of one rank."""

    def __init__(self, folder: Path, rank: int, n_ranks: int, timeout_s: float) -> None:
        self.store = Notes(str(folder / "notes"))
        self.rank = rank
        self.n_ranks = n_ranks
        self.timeout_s = timeout_s
        self.comm: Communicator | None = None

    def step(self, step: Result) -> Result:
        words = {key: value for key, value in step.items() if key != "do"}
        start = time.monotonic()
        try:
            result = getattr(self, f"do_{step['do']}")(**words) or {}
        except AutotuneError as err:
            result = {"error": err.message, "remedy": err.remedy, "kind": type(err).__name__}
        return result | {"seconds": time.monotonic() - start}

    @property
    def joined(self) -> Communicator:
        assert self.comm is not None
        return self.comm

    def do_join(self, n_ranks: int | None = None, max_error: float | None = None) -> Result:
        self.comm = join_hosts(
            self.store, self.rank, n_ranks or self.n_ranks, max_error=max_error, timeout_s=self.timeout_s
        )
        hosts = self.comm.hosts
        assert hosts is not None
        return {
            "host_of": hosts.host_of,
            "names": hosts.host_names,
            "transports": hosts.transports(),
            "last_hosts": hosts.last_hosts,
        }

    def do_keep_rate(self, gb_per_s: float) -> Result:
        """As a probe does, on the host that this rank is on."""
        settings = read()
        keep_rate(settings.cache_dir, whereabouts(settings.runtime_dir).host, gb_per_s)
        return {}

    def do_calls(self, calls: list[Result]) -> Result:
        """Collectives without a barrier between them; their outputs."""
        outputs = []
        for fields in calls:
            call = Call.from_json(fields)
            mine = call.inputs(self.n_ranks)[self.rank]
            source, target = buffers_of(call, mine, self.n_ranks, self.rank, None)
            shape = Shape(call.collective, call.dtype, call.op, call.root, call.count)
            native = self.joined.prepare(shape, call.config)
            self.joined.group.run(native, source and source.array, target and target.array)
            assert all(buffer.guards_whole() for buffer in (source, target) if buffer), call
            outputs.append(None if target is None else base64.b64encode(target.array.tobytes()).decode())
        return {"outputs": outputs}

    def do_all_reduce(
        self, count: int = 8, algorithm: str = "ring", times: int = 1, note: str = "", segment_bytes: int = 4096
    ) -> Result:
        """The same call again and again; whether all results were right."""
        config = Config(algorithm=algorithm, segment_bytes=segment_bytes)
        wanted = self.n_ranks * (self.n_ranks + 1) // 2
        for number in range(times):
            array = np.full(count, self.rank + 1, np.float32)
            self.joined.all_reduce(array, config=config)
            assert (array == wanted).all(), (number, array[array != wanted][:3])
            if note and number == 0 and self.rank == 0:
                self.store.set(note, "")
        return {"right": times}

    def do_exchange(self, count: int, pairs: list[list[int]]) -> Result:
        """send and recv between pairs of ranks, each way."""
        for first, second in pairs:
            if self.rank not in (first, second):
                continue
            other = first + second - self.rank
            mine = np.arange(count, dtype=np.float32) + self.rank
            got = np.empty_like(mine)
            if self.rank == first:
                self.joined.send(mine, other)
                self.joined.recv(got, other)
            else:
                self.joined.recv(got, other)
                self.joined.send(mine, other)
            assert np.array_equal(got, np.arange(count, dtype=np.float32) + other)
        return {}

    def do_all_to_all_v(self) -> Result:
        """Rank s sends s + r elements to rank r."""
        sent = [self.rank + r for r in range(self.n_ranks)]
        array = np.repeat(np.arange(self.n_ranks), sent).astype(np.int32) + 100 * self.rank
        out = np.empty(sum(sent), np.int32)
        self.joined.all_to_all_v(array, out, sent, sent, config=Config(algorithm="direct", segment_bytes=4096))
        assert np.array_equal(out, np.repeat(100 * np.arange(self.n_ranks), sent) + self.rank)
        return {}

    def do_transports(self) -> Result:
        return {"pairs": [[*pair, *kinds] for pair, kinds in pair_transports(self.joined).items()]}

    def do_allocate(self) -> Result:
        self.joined.allocate(10)
        return {}

    def do_note(self, key: str) -> Result:
        self.store.set(key, "")
        return {}

    def do_die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_hang(self) -> None:
        signal.pause()

    def do_rubbish(self, at_least: int = 0) -> Result:
        """Connect to every port that listens in this host, as soon as there are so many, and say things."""
        deadline = time.monotonic() + self.timeout_s
        while len(ports := _listening()) < at_least:
            assert time.monotonic() < deadline, "nobody listens"
        rng = np.random.default_rng(0)
        for port in sorted(ports):
            for length in (1, 64, 100_000):
                stranger = socket.create_connection((self.own_address(), port), 5)
                with stranger, contextlib.suppress(OSError):  # it may hang up
                    stranger.sendall(rng.bytes(length))
        return {"ports": len(ports)}

    @staticmethod
    def own_address() -> str:
        return f"198.18.0.{int(os.environ['GROUP_RANK']) + 1}"

    def do_close(self) -> Result:
        self.joined.close()
        return {}


def _listening() -> set[int]:
    return {
        int(line.split()[1].partition(":")[2], 16)
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }


def main(folder: Path, rank: int) -> None:
    scene = json.loads((folder / "scene.json").read_text())
    actor = Actor(folder, rank, sum(scene["per_host"]), scene["timeout_s"])
    results: list[Result] = []
    for step in scene["own"].get(str(rank), scene["steps"]):
        results.append(actor.step(step))
        partial = folder / f"rank{rank}.new"
        partial.write_text(json.dumps(results))
        partial.rename(folder / f"rank{rank}.json")  # whole, whenever the rank is killed


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
