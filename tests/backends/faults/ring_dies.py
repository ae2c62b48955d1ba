"""A worker that dies on rank 1 when it is asked for a ring, after a word about it; other configs are measured."""

from __future__ import annotations

import os
import signal
import sys

from autotune.backends import worker
from autotune.backends.rank_process import Json
from autotune.types import Config


class RingDies(worker.Worker):
    def _outcome(self, request: dict[str, Json], config: Config) -> dict[str, Json]:
        if config.algorithm == "ring" and self._comm.rank == 1:
            print("the ring is broken", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._outcome(request, config)


worker.Worker = RingDies  # type: ignore[misc]  # main() makes this one
worker.main(sys.argv[1:])
