"""One rank as a child of this process: started with a socket and its setup, ended, and how it ended.

In:  a module, a setup. Out: a running process; an `Ended`, and the error of a pool whose ranks ended so.
May not touch: requests and answers (launch), the store.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import TrialFailed
from ..types import TrialState

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

STOP_S = 2.0
"""What a rank has to end by itself once nobody asks any more."""


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
