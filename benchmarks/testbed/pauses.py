"""Ranks behind shaped interfaces: between two timings they pause until the token buckets are full again.

In:  requests as `RankSet` takes them. Out: answers of the same form. May not touch: what ranks do.

A bucket lets 128 KiB pass at once, and the rest as fast as the rate. So how long a call of 64 KiB takes depends on what
the ranks did before it, and who spends longer between timings (in barriers, filling inputs) has the shorter calls: at
1 Gbit/s, 100 us in between are worth 12 KB. With pauses every timing begins as the first one does, for everybody.
"""

from __future__ import annotations

import time

from hosts.network import Network

from autotune.backends.mpi_ranks import Launch, RankSet
from autotune.types import Collective

FROM_BYTES = 16 << 10
"""Smaller messages leave a bucket nearly full."""
_ITEM_BYTES = 4
_COLLECTIVE, _COUNT, _REPEATS = 1, 2, 5  # words of a request


class PausingRanks(RankSet):
    """Takes the timings of a request one by one, each after a pause."""

    def __init__(self, name: str, n_ranks: int, launch: Launch, *, remedy: str, pause_s: float) -> None:
        super().__init__(name, n_ranks, launch, remedy=remedy)
        self._pause_s = pause_s

    def ask(self, line: str, *, timeout_s: float) -> list[str]:
        """As of RankSet."""
        words = line.split(" ")
        parts = self.n_ranks if Collective(words[_COLLECTIVE]).splits_by_rank else 1
        if int(words[_COUNT]) * parts * _ITEM_BYTES < FROM_BYTES:
            return super().ask(line, timeout_s=timeout_s)
        one = " ".join([*words[:_REPEATS], "1", *words[_REPEATS + 1 :]])
        answers = []
        for _ in range(int(words[_REPEATS])):
            time.sleep(self._pause_s)
            answers.append(super().ask(one, timeout_s=timeout_s))
        return [_together([answer[rank] for answer in answers]) for rank in range(self.n_ranks)]


def _together(answers: list[str]) -> str:
    """The times of all in one line; or the first that is something else."""
    strange = next((answer for answer in answers if not answer.startswith("us ")), None)
    return strange or f"us {' '.join(answer.removeprefix('us ').strip() for answer in answers)}\n"


def started(name: str, network: Network, n_ranks: int, launch: Launch) -> RankSet:
    """A library's ranks; with pauses where the network is shaped."""
    remedy = "see what it wrote"
    if network.rate_mbit is None:
        return RankSet(name, n_ranks, launch, remedy=remedy)
    pause_s = network.burst_bytes * 8 / (network.rate_mbit * 1e6)
    return PausingRanks(name, n_ranks, launch, remedy=remedy, pause_s=pause_s)
