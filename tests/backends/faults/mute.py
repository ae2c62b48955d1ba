"""A worker that joins and then never answers, on any rank, though it lives."""

from __future__ import annotations

import sys
import threading

from autotune.backends import worker
from autotune.backends.rank_process import Json


class Mute(worker.Worker):
    def answer(self, request: dict[str, Json]) -> dict[str, Json]:
        if request["do"] != "join":
            threading.Event().wait()
        return super().answer(request)


worker.Worker = Mute  # type: ignore[misc]  # main() makes this one
worker.main(sys.argv[1:])
