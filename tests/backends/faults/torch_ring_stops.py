"""A torch worker that stops on rank 1 when it is asked for a ring."""

from __future__ import annotations

import os
import signal
import sys

from autotune.backends import torch_worker
from autotune.backends.rank_process import Json
from autotune.types import Config


class RingStops(torch_worker.TorchWorker):
    def _outcome(self, request: dict[str, Json], config: Config) -> dict[str, Json]:
        if config.algorithm == "ring" and self._comm.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return super()._outcome(request, config)


torch_worker.main(sys.argv[1:], RingStops)
