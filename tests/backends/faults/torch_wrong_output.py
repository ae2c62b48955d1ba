"""A torch worker that leaves one wrong element in the buffers that were timed, on rank 1."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autotune.backends import torch_worker
from autotune.backends.inputs import Inputs
from autotune.backends.rank_process import Json


class WrongOutput(torch_worker.TorchWorker):
    def _first_wrong(self, inputs: Inputs, outputs: Sequence[memoryview], batch: int) -> dict[str, Json] | None:
        if self._comm.rank == 1:
            outputs[-1][20] ^= 1  # element 5 of int32
        return super()._first_wrong(inputs, outputs, batch)


torch_worker.main(sys.argv[1:], WrongOutput)
