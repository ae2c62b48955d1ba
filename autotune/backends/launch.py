"""Ranks of this host as child processes, each pinned to a core, that answer requests until they are told to stop.

In:  a number of ranks, cores, requests as JSON values. Out: every rank's answer, or a TrialFailed that says which rank
hung or died and what it last wrote. May not touch: the store, tables, schedules.

The ranks share one segment and are told what to do over a socket each. They cannot outlive this process: the kernel
kills them when it ends, however it ends.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from ..errors import BackendUnavailable, TrialFailed, UsageError
from ..kernels import create_segment
from ..types import TrialState

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

STOP_S = 2.0
"""What a rank has to end by itself once nobody asks any more."""
SYMMETRIC_BYTES = 64 << 30
"""Address space for a rank's symmetric memory: more than trials will ever allocate."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a rank ended.

    Args:
        code: exit code, or minus the signal's number.
        said: the last line that it wrote.
        hung: it did not end by itself, and was killed by the pool.
    """

    code: int
    said: str
    hung: bool


class PoolFailed(TrialFailed):
    """The pool is unusable: a rank died or did not answer.

    Args:
        state: CRASHED or TIMEOUT.
    """

    def __init__(self, message: str, *, remedy: str, state: TrialState) -> None:
        super().__init__(message, remedy=remedy)
        self.state = state


class Ranks(Protocol):
    """Ranks that answer requests: a `RankPool`, or those of a launcher's job (autotune.launch)."""

    n_ranks: int

    def ask(self, request: Mapping[str, Json]) -> list[dict[str, Json]]:
        """Every rank's answer, in the order of ranks.

        Raises:
            PoolFailed: a rank died or did not answer in time; all ranks are gone then.
        """
        ...

    def close(self) -> object:
        """End the ranks."""
        ...


class StartRanks(Protocol):
    """Starts the ranks that a backend measures with; the arguments are those of `RankPool`."""

    def __call__(
        self,
        placement: tuple[int, ...],
        cores: Sequence[int],
        *,
        staging_bytes: int,
        timeout_s: float,
        watchdog_s: float,
        module: str = ...,
    ) -> Ranks:
        """So many ranks on each host."""
        ...


class RankProcess:
    """One rank: a child of this process that runs a module, given a socket, the group's segment and its setup.

    Args:
        segment: the segment's descriptor, handed on; None where the ranks meet in another way.
        setup: what the module reads as its third argument.
    """

    def __init__(self, module: str, segment: int | None, setup: Mapping[str, Json]) -> None:
        self.link, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        handed = [theirs.fileno()] if segment is None else [theirs.fileno(), segment]
        try:
            # -P keeps the working directory off the path: a file there could shadow a module of ours.
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    module,
                    str(theirs.fileno()),
                    str(-1 if segment is None else segment),
                    json.dumps(setup),
                ],
                pass_fds=handed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=_quiet_environment(),
                process_group=0,  # Ctrl-C is for this process, which ends the rank in its turn
            )
        except BaseException:
            self.link.close()
            self._errors.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self, deadline_s: float) -> Ended:
        """How it ended, by itself since nobody asks any more, or killed at the deadline of the monotonic clock."""
        self.link.close()
        hung = False
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            hung = True
            self._process.kill()
            self._process.wait()
        with self._errors:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return Ended(self._process.returncode, lines[-1] if lines else "", hung)


class RankPool:
    """n ranks that run `autotune.backends.worker`, or another module that answers like it.

    Args:
        cores: rank r is pinned to cores[r % len(cores)].
        timeout_s: the longest wait inside a collective.
        watchdog_s: the longest time until a request is answered.

    Raises:
        BackendUnavailable: the ranks did not start.
    """

    def __init__(
        self,
        n_ranks: int,
        cores: Sequence[int],
        *,
        staging_bytes: int,
        timeout_s: float,
        watchdog_s: float,
        module: str = "autotune.backends.worker",
    ) -> None:
        self.n_ranks = n_ranks
        self._watchdog_s = watchdog_s
        self._ranks: list[RankProcess] = []
        fd = create_segment(n_ranks, staging_bytes, SYMMETRIC_BYTES)
        try:
            for rank in range(n_ranks):
                setup: dict[str, Json] = {
                    "rank": rank,
                    "n_ranks": n_ranks,
                    "core": cores[rank % len(cores)],
                    "n_cores": len(cores),
                    "timeout_s": timeout_s,
                }
                self._ranks.append(RankProcess(module, fd, setup))
            self.ask({"do": "join"})
        except PoolFailed as err:
            self.close()
            raise BackendUnavailable(f"the ranks did not start: {err.message}", remedy=err.remedy) from err
        except BaseException:
            self.close()
            raise
        finally:
            os.close(fd)

    def __enter__(self) -> RankPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, request: Mapping[str, Json]) -> list[dict[str, Json]]:
        """Send a request to every rank and wait for every answer, in the order of ranks.

        Raises:
            PoolFailed: a rank died or did not answer within the watchdog's time; the pool is closed then.
        """
        line = json.dumps(request).encode() + b"\n"
        try:
            for rank in self._ranks:
                rank.link.sendall(line)
            return self._answers()
        except OSError as err:
            raise self._failed(f"a rank does not listen ({err})", TrialState.CRASHED) from err

    def _answers(self) -> list[dict[str, Json]]:
        deadline = time.monotonic() + self._watchdog_s
        answers: dict[int, dict[str, Json]] = {}
        partial = [b""] * self.n_ranks
        with selectors.DefaultSelector() as waiting:
            for rank, process in enumerate(self._ranks):
                waiting.register(process.link, selectors.EVENT_READ, rank)
            while len(answers) < self.n_ranks:
                ready = waiting.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    missing = ", ".join(str(r) for r in range(self.n_ranks) if r not in answers)
                    raise self._failed(
                        f"no answer from rank(s) {missing} within {self._watchdog_s:g} s", TrialState.TIMEOUT
                    )
                for key, _ in ready:
                    rank = int(key.data)
                    part = self._ranks[rank].link.recv(1 << 16)
                    if not part:
                        raise self._failed(f"rank {rank} ended", TrialState.CRASHED)
                    partial[rank] += part
                    if partial[rank].endswith(b"\n"):
                        answers[rank] = json.loads(partial[rank])
                        waiting.unregister(self._ranks[rank].link)
        return [answers[rank] for rank in range(self.n_ranks)]

    def _failed(self, what: str, state: TrialState) -> PoolFailed:
        """A rank that hangs makes the others give up and end first, so the reason is known when all have ended."""
        return pool_failed(what, state, {f"rank {number}": rank for number, rank in enumerate(self.close())})

    def close(self) -> list[Ended]:
        """End the ranks; how each one ended."""
        for rank in self._ranks:
            rank.link.close()  # a rank that waits for a request ends by itself
        deadline_s = time.monotonic() + STOP_S
        ended = [rank.end(deadline_s) for rank in self._ranks]
        self._ranks = []
        return ended


def start_here(
    placement: tuple[int, ...],
    cores: Sequence[int],
    *,
    staging_bytes: int,
    timeout_s: float,
    watchdog_s: float,
    module: str = "autotune.backends.worker",
) -> RankPool:
    """Implements `StartRanks` on this host, without a launcher.

    Raises:
        UsageError: ranks on several hosts.
    """
    if len(placement) > 1:
        raise UsageError(
            f"ranks on {len(placement)} hosts are asked for, and no launcher started this command there",
            remedy="start it with torchrun, srun or mpirun",
        )
    return RankPool(
        placement[0],
        cores,
        staging_bytes=staging_bytes,
        timeout_s=timeout_s,
        watchdog_s=watchdog_s,
        module=module,
    )


def pool_failed(what: str, state: TrialState, ended: Mapping[str, Ended]) -> PoolFailed:
    """The error of a pool whose ranks, named as shown to people, have ended so."""
    if any(rank.hung for rank in ended.values()):
        state = TrialState.TIMEOUT
    words = [what]
    for name, rank in ended.items():
        if rank.code or rank.said:
            words.append(f"{name} {_ending(rank)}" + (f" after writing: {rank.said}" if rank.said else ""))
    return PoolFailed(
        "; ".join(words), remedy="see the trial's message (autotune explain), or autotune doctor", state=state
    )


def _ending(rank: Ended) -> str:
    if rank.hung:
        return f"hung and was ended after {STOP_S:g} s"
    return f"exited with {rank.code}" if rank.code >= 0 else f"was ended by signal {-rank.code}"


def _quiet_environment() -> dict[str, str]:
    """The ranks' environment: one thread each, since a pool of threads would take the cores that are measured."""
    quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **quiet}
