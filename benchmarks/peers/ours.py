"""Ours: how its ranks are started, how it reads a config, and the race of its candidates.

In:  candidates, a way to sample them. Out: a `Launch`; the leader.
May not touch: compared rounds. What a race measures is used to choose, never to compare.

The race is that of the native backend's own candidates, as a tuner would run it, before and apart from the compared
rounds (choosing.py). Nobody but ours has a choice to make, since the peers' own selection is what their users get.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.backends.mpi_ranks import Launch
from autotune.backends.mpi_sampling import Outcome
from autotune.kernels import create_segment
from autotune.measure import QUICK, Effort, Timing, leader, survivors
from autotune.settings import Settings
from autotune.types import Config, Memory, Phase, Sample, SampleKind

SampleConfig = Callable[[Config, int], Outcome | None]
"""(config, batch) -> one sample of it, in the cell that is raced."""
RACE_S = 20.0


def launch(*, n_ranks: int, cores: Sequence[int], settings: Settings, memory: Memory) -> tuple[Launch, int]:
    """How our ranks are started, and the segment's descriptor, which the caller closes once they run."""
    fd = create_segment(n_ranks, settings.staging_bytes, settings.symmetric_bytes)
    script = Path(__file__).with_name("our_rank.py")
    listed = ",".join(map(str, cores))

    def commands(address: str, scratch: Path) -> list[list[str]]:
        # -P keeps the script's folder off the path, so that autotune is the one that runs here.
        words = [sys.executable, "-P", str(script), address, listed]
        timeout_s = str(settings.timeout_s)
        return [[*words, str(rank), str(n_ranks), str(fd), timeout_s, memory.value] for rank in range(n_ranks)]

    quiet = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return Launch(commands=commands, env=quiet, pass_fds=(fd,)), fd


def config_words(config: Config) -> str:
    """A config as our ranks read it."""
    fields = {
        "algorithm": config.algorithm,
        "segment_bytes": config.segment_bytes,
        "codec": config.codec,
        "knobs": dict(config.knobs),
    }
    return json.dumps(fields, separators=(",", ":"))


def config_of(words: str) -> Config:
    """The config that `config_words` wrote."""
    fields = json.loads(words)
    knobs = tuple(sorted(fields.pop("knobs").items()))
    return Config(**fields, knobs=knobs)


class Race:
    """A race of some configs in one cell: one sample of each a round, the clearly worse ones dropped.

    Args:
        seed: of the orders in which they run.
        effort: how many rounds, and how many stay, as `autotune run` would have it.
    """

    def __init__(
        self, candidates: Sequence[Config], sample: SampleConfig, seed: str = "race", effort: Effort = QUICK
    ) -> None:
        self.samples: dict[Config, dict[int, Sample]] = {config: {} for config in candidates}
        self.n_rounds = 0
        self._sample = sample
        self._seed = seed
        self._effort = effort

    def step(self, until: float) -> bool:
        """Run one round, and end it early when time is up and somebody ran; whether there may be another one."""
        number = self.n_rounds
        running = list(self.samples) if number == 0 else list(survivors(self.samples, self._effort))
        if number == self._effort.race_rounds or (number and len(running) < 2):
            return False
        random.Random(f"{self._seed} {number}").shuffle(running)
        for position, config in enumerate(running):
            outcome = self._sample(config, number)
            if not isinstance(outcome, Timing):
                del self.samples[config]
                print(f"left out {config}: {outcome.words if outcome else 'its ranks failed'}", file=sys.stderr)
                continue
            self.samples[config][number] = Sample(
                kind=SampleKind.FRESH,
                phase=Phase.RACE,
                round=number,
                position=position,
                batch_calls=outcome.batch_calls,
                time_us=outcome.time_us,
            )
            if time.monotonic() > until:
                break
        self.n_rounds += 1
        return True

    def leader(self) -> Config:
        """The fastest of those that ran to the end.

        Raises:
            ValueError: nobody ran.
        """
        return leader(self.samples)


def race(candidates: Sequence[Config], sample: SampleConfig, *, until: float, effort: Effort) -> tuple[Config, int]:
    """The leader after the rounds that time allows, at least one sample, and how many rounds there were.

    Raises:
        ValueError: nobody ran.
    """
    raced = Race(candidates, sample, effort=effort)
    while raced.step(until) and time.monotonic() <= until:
        pass
    return raced.leader(), raced.n_rounds
