"""A worker that makes its calls with one element more on rank 1."""

from __future__ import annotations

import sys

from autotune.backends import worker
from autotune.backends.rank_process import Json
from autotune.types import Config


class OtherCounts(worker.Worker):
    def _outcome(self, request: dict[str, Json], config: Config) -> dict[str, Json]:
        count = int(str(request["count"])) + self._comm.rank
        return super()._outcome({**request, "count": count}, config)


worker.Worker = OtherCounts  # type: ignore[misc]  # main() makes this one
worker.main(sys.argv[1:])
