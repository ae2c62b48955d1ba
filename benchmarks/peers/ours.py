"""Ours: how its ranks are started, and which config it runs in a cell.

In:  a cell; a tuned table, one fixed config, or neither. Out: a `Launch`; a `Choice`.
May not touch: compared rounds. What a race measures is used to choose, never to compare.

Without a table the config of a cell is the best of a short race of the native backend's own candidates, as a tuner
would run it, before and apart from the compared rounds: one sample of each a round, the clearly worse ones dropped by
the rule of `autotune.measure.racing`; then the knobs of the leader. Nobody but ours has a choice to make, since the
peers' own selection is what their users get.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.backends.mpi_ranks import Launch
from autotune.backends.mpi_sampling import Outcome
from autotune.backends.native import NativeBackend
from autotune.kernels import create_segment
from autotune.measure import QUICK, Timing, leader, survivors
from autotune.runtime.selector import Selector
from autotune.settings import Settings
from autotune.types import Config, Memory, Phase, Sample, SampleKind

from .cells import Cell

SampleConfig = Callable[[Config, int], Outcome | None]
"""(config, batch) -> one sample of it, in the cell that is raced."""
RACE_S = 20.0
_KNOBS = (
    ("slices_in_flight", (2, 8)),
    ("stores", ("cached", "streamed")),
)
_KNOBS_FROM_BYTES = 256 << 10
"""Below, a message is one slice and stays in the caches: the knobs change nothing there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The config of a cell, and in words why that one."""

    config: Config
    how: str


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


def from_table(selector: Selector, cell: Cell, memory: Memory) -> Choice:
    """What a job gets from a tuned table."""
    selection = selector.select(
        cell.collective, message_bytes=cell.message_bytes, n_ranks=cell.n_ranks, memory=memory, backend="native"
    )
    how = "the table's rule" if selection.tuned else "the default: the table has no rule here"
    return Choice(config=selection.config, how=how)


def by_race(backend: NativeBackend, cell: Cell, memory: Memory, sample: SampleConfig, *, seconds: float) -> Choice:
    """The best of the backend's candidates and then of its knobs, within about `seconds`.

    Raises:
        ValueError: no candidate ran.
    """
    candidates = list(backend.candidates(cell.problem(memory)))
    until = time.monotonic() + seconds
    best, n_rounds = race(candidates, sample, until=until)
    n_candidates = len(candidates)
    if cell.message_bytes >= _KNOBS_FROM_BYTES and time.monotonic() < until:
        known = {key for key, _ in best.knobs}
        variants = [
            replace(best, knobs=tuple(sorted((*best.knobs, (key, value)))))
            for key, values in _KNOBS
            if key not in known
            for value in values
        ]
        best, _ = race([best, *variants], sample, until=until)
        n_candidates += len(variants)
    return Choice(config=best, how=f"race of {n_candidates} candidates, up to {n_rounds} rounds")


def race(candidates: Sequence[Config], sample: SampleConfig, *, until: float) -> tuple[Config, int]:
    """The leader after the rounds that time allows, at least one sample, and how many rounds there were.

    Raises:
        ValueError: nobody ran.
    """
    samples: dict[Config, dict[int, Sample]] = {config: {} for config in candidates}
    n_rounds = 0
    for number in range(QUICK.race_rounds):
        running = list(samples) if number == 0 else list(survivors(samples, QUICK))
        if number and (len(running) < 2 or time.monotonic() > until):
            break
        random.Random(f"race {number}").shuffle(running)
        for position, config in enumerate(running):
            outcome = sample(config, number)
            if not isinstance(outcome, Timing):
                del samples[config]
                print(f"left out {config}: {outcome.words if outcome else 'its ranks failed'}", file=sys.stderr)
                continue
            samples[config][number] = Sample(
                kind=SampleKind.FRESH,
                phase=Phase.RACE,
                round=number,
                position=position,
                batch_calls=outcome.batch_calls,
                time_us=outcome.time_us,
            )
            if time.monotonic() > until:
                break
        n_rounds += 1
    return leader(samples), n_rounds
