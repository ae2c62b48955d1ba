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
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol

from ..errors import BackendUnavailable, UsageError
from ..kernels import create_segment
from ..types import TrialState
from .rank_process import STOP_S, Ended, Json, PoolFailed, RankProcess, pool_failed

SYMMETRIC_BYTES = 64 << 30
"""Address space for a rank's symmetric memory: more than trials will ever allocate."""


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
