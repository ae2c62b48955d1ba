"""A worker whose kernel is right for whole numbers, and on rank 1 off by one rounding for others."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from autotune.backends import worker
from autotune.backends.random_check import RandomCheck
from autotune.kernels import Shape


class WrongRounding(RandomCheck):
    """On rank 1, results are moved by the last bit where they are no whole numbers."""

    def wrong(self, shape: Shape, run: Callable[[], object], source: memoryview, target: memoryview) -> str | None:
        def run_wrongly() -> None:
            run()
            if self._comm.rank == 1:
                values = np.frombuffer(target, np.float32)
                values.view(np.uint32)[values != np.floor(values)] ^= 1

        return super().wrong(shape, run_wrongly, source, target)


worker.RandomCheck = WrongRounding  # type: ignore[attr-defined]  # Worker makes this one
worker.main(sys.argv[1:])
