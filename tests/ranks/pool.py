"""Ranks as processes of their own for tests: started, asked, killed by pid and reaped, whatever happens.

In:  plain steps for each rank (see process.py). Out: every rank's results and output bytes, or how it ended. Every wait
has an end: a rank that is not done by then fails the test with what all ranks wrote, and none of them is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from ranks.cases import Call
from spec import STORAGE, Array

from autotune.kernels import create_segment

Step = dict[str, Any]

STAGING_BYTES = 1 << 20
SYMMETRIC_BYTES = 64 << 20  # address space; takes no memory before it is allocated
_TESTS = Path(__file__).resolve().parent.parent


@dataclass(slots=True)
class Answer:
    """What one rank did with its steps. If it ended instead: its exit code, and what it wrote to standard error."""

    results: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    ended: int | None = None
    written: str = ""

    @property
    def errors(self) -> list[str]:
        """The messages of the steps that failed."""
        return [result["message"] for result in self.results if "error" in result]


class RankTimeout(AssertionError):
    """A rank did not answer in time."""


class Ranks:
    """n processes. A context manager.

    Args:
        cores: on which each rank may run; None binds rank r to the r-th of this process's cores, going round.
    """

    def __init__(self, n: int, *, cores: Sequence[Collection[int]] | None = None) -> None:
        own = sorted(os.sched_getaffinity(0))
        self._n_cores = len(own)
        self._cores = [[own[rank % len(own)]] for rank in range(n)] if cores is None else [*map(list, cores)]
        self.n = n
        self._processes: list[subprocess.Popen[bytes]] = []
        self._links: list[socket.socket] = []
        self._written: list[IO[bytes]] = []
        try:
            for rank in range(n):
                self._start(rank)
        except BaseException:
            self.close()
            raise

    def _start(self, rank: int) -> None:
        ours, theirs = socket.socketpair()
        self._links.append(ours)
        written = tempfile.TemporaryFile()  # noqa: SIM115 - kept for what ranks write; closed by close()
        self._written.append(written)
        setup = {"rank": rank, "cores": self._cores[rank], "n_cores": self._n_cores}
        paths = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        with theirs:
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-m", "ranks.process", str(theirs.fileno()), json.dumps(setup)],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stderr=written,
                    env={**os.environ, **quiet, "PYTHONPATH": paths},
                )
            )

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process, by its pid, and wait for it."""
        for link in self._links:
            link.close()
        for process in self._processes:
            process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 2.0
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for written in self._written:
            written.close()
        self._processes, self._links, self._written = [], [], []

    def pid(self, rank: int) -> int:
        return self._processes[rank].pid

    def kill(self, rank: int, number: signal.Signals = signal.SIGKILL) -> None:
        self._processes[rank].send_signal(number)

    def join(
        self,
        n: int | None = None,
        *,
        group: str = "g",
        timeout_s: float = 10.0,
        symmetric_bytes: int = SYMMETRIC_BYTES,
        **settings: object,
    ) -> list[Answer]:
        """Ranks 0 .. n-1 join a new group; further settings go to `do_join`."""
        n = self.n if n is None else n
        step = {"do": "join", "group": group, "n": n, "timeout_s": timeout_s, **settings}
        with self.segment(n, symmetric_bytes) as fd:
            return self.ask({rank: [step] for rank in range(n)}, fd=fd)

    @contextlib.contextmanager
    def segment(self, n: int, symmetric_bytes: int = SYMMETRIC_BYTES) -> Iterator[int]:
        """A segment for a group that ranks join by steps of their own."""
        fd = create_segment(n, STAGING_BYTES, symmetric_bytes)
        try:
            yield fd
        finally:
            os.close(fd)

    def ask(
        self,
        steps: Mapping[int, Sequence[Step]],
        *,
        fd: int = -1,
        silent: Collection[int] = (),
        within_s: float = 30.0,
    ) -> list[Answer]:
        """Send steps to ranks and wait for the answers of all but the silent ones, in the order of `steps`.

        Raises:
            RankTimeout: a rank did not answer within within_s; every process has been ended then.
        """
        for rank, of_rank in steps.items():
            line = json.dumps(of_rank).encode() + b"\n"
            with contextlib.suppress(BrokenPipeError):  # it has ended, which shows below
                sent = socket.send_fds(self._links[rank], [line], [fd] if fd >= 0 else [])
                self._links[rank].sendall(line[sent:])
        return self.answers([rank for rank in steps if rank not in silent], within_s)

    def answers(self, ranks: Iterable[int], within_s: float = 30.0) -> list[Answer]:
        """Wait for the answers of ranks that were asked before."""
        deadline = time.monotonic() + within_s
        received = {rank: bytearray() for rank in ranks}
        done: dict[int, Answer] = {}
        with selectors.DefaultSelector() as waiting:
            for rank in received:
                waiting.register(self._links[rank], selectors.EVENT_READ, rank)
            while len(done) < len(received):
                ready = waiting.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise RankTimeout(self._autopsy(sorted(received.keys() - done.keys()), within_s))
                for key, _ in ready:
                    rank = int(key.data)
                    answer = self._more(rank, received[rank])
                    if answer is not None:
                        done[rank] = answer
                        waiting.unregister(self._links[rank])
        return [done[rank] for rank in received]

    def _more(self, rank: int, received: bytearray) -> Answer | None:
        try:
            part = self._links[rank].recv(1 << 20)
        except ConnectionResetError:
            part = b""
        if not part:
            return Answer(ended=self._processes[rank].wait(10.0), written=self.written(rank))
        received += part
        end = received.find(b"\n")
        if end < 0:
            return None
        head = json.loads(received[:end])
        body = received[end + 1 :]
        if len(body) < sum(head["sizes"]):
            return None
        outputs, at = [], 0
        for size in head["sizes"]:
            outputs.append(bytes(body[at : at + size]))
            at += size
        return Answer(results=head["results"], outputs=outputs)

    def until_asleep(self, rank: int, within_s: float = 20.0) -> None:
        """Return when a rank that was asked waits for another one: it naps, again and again, and does not answer."""
        deadline = time.monotonic() + within_s
        naps = first = _naps(self.pid(rank))
        while naps < first + 8:
            answered = select.select([self._links[rank]], [], [], 0.02)[0]
            assert not answered, f"rank {rank} has answered, or ended: {self.written(rank)}"
            assert time.monotonic() < deadline, f"rank {rank} does not wait"
            naps = _naps(self.pid(rank))

    def written(self, rank: int) -> str:
        """What a rank has written to its standard error."""
        file = self._written[rank]
        return os.pread(file.fileno(), 1 << 16, 0).decode(errors="replace")

    def _autopsy(self, silent: list[int], within_s: float) -> str:
        words = [f"no answer from ranks {silent} within {within_s:g} s"]
        words += [f"rank {rank} wrote: {text}" for rank in range(self.n) if (text := self.written(rank))]
        self.close()
        return "\n".join(words)


class Groups:
    """One set of ranks with a group of every size asked for, kept as long as nothing fails. For many small calls."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ranks: Ranks | None = None
        self._joined: set[int] = set()

    def run(self, n: int, calls: Sequence[Call], *, turns: Sequence[Sequence[int]] = ()) -> list[list[Array | None]]:
        """Every rank makes the calls one after the other, with nothing in between but `turns` of work.

        Args:
            turns: [rank][call]: how long a rank is busy before a call.

        Returns:
            [call][rank]: the output; None where a rank has none.
        """
        steps = {rank: _steps(n, calls, turns[rank] if turns else ()) for rank in range(n)}
        answers = self.ask(n, steps)
        outputs: list[list[Array | None]] = [[] for _ in calls]
        for rank, answer in enumerate(answers):
            assert answer.ended is None, f"rank {rank} ended with {answer.ended}: {answer.written}"
            assert answer.errors == [], f"rank {rank}: {answer.errors}"
            results = [result for result in answer.results if result]
            blobs = iter(answer.outputs)
            for number, (call, result) in enumerate(zip(calls, results, strict=True)):
                assert result["guards_whole"], f"rank {rank}, call {number}: bytes beside a buffer were written"
                assert result["input_kept"], f"rank {rank}, call {number}: the input was modified"
                outputs[number].append(np.frombuffer(next(blobs), STORAGE[call.dtype]) if result["output"] else None)
        return outputs

    def ask(self, n: int, steps: Mapping[int, Sequence[Step]]) -> list[Answer]:
        """Steps in the group of n ranks, whose name is str(n)."""
        if self._ranks is None:
            self._ranks = Ranks(self._most)
        if n not in self._joined:
            joined = self._ranks.join(n, group=str(n), timeout_s=20.0)
            assert all(not answer.errors for answer in joined), joined
            self._joined.add(n)
        try:
            answers = self._ranks.ask(steps, within_s=60.0)
        except RankTimeout:
            self.close()
            raise
        if any(answer.errors or answer.ended is not None for answer in answers):
            self.close()  # the next example starts with whole groups
        return answers

    def close(self) -> None:
        if self._ranks is not None:
            self._ranks.close()
        self._ranks, self._joined = None, set()


def _naps(pid: int) -> int:
    """How often a process went to sleep by itself; one that waits for input does not, one that computes neither."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def _steps(n: int, calls: Sequence[Call], turns: Sequence[int]) -> list[Step]:
    steps: list[Step] = []
    for number, call in enumerate(calls):
        if turns:
            steps.append({"do": "work", "turns": turns[number]})
        steps.append({"do": "call", "group": str(n), "call": call.to_json()})
    return steps
