"""A recording as a backend: what the product's own loop measures, it finds here, on a clock of recorded seconds.

In:  a recording, and which half of its rounds the search may see. Out: the outcomes that a `measure.Backend` gives.
May not touch: the other half, which judges the search.

The first sample of a config costs more than the others: its plan is compiled, its pages are touched, its peers are
connected. That was recorded in round 0, so whenever a search first asks for a config, it pays that; and so does the
exhaustive sweep, for every config.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.measure import Failure, Outcome, Timing, batch_calls
from autotune.types import Config, Problem, SampleKind, TrialState

from .recording import HALVES, Recording
from .sweeps import reference_of

RACE_ROUNDS = 9


class RecordedBackend:
    """A `measure.Backend`.

    Args:
        half: of the rounds; race rounds are the first nine of it, confirm rounds the others, one after the other.
    """

    def __init__(self, recording: Recording, *, half: int) -> None:
        self.name = recording.backend
        self._recording = recording
        self._half = half
        self._used: set[tuple[Problem, Config]] = set()
        self.elapsed_s = 0.0
        self.spent_s = dict.fromkeys(recording.cells, 0.0)

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return self._recording.cells[problem]

    def default(self, problem: Problem) -> Config:
        return self._recording.default(problem)

    def reference(self, problem: Problem) -> Config | None:
        reference = reference_of(problem)
        return reference if reference in self._recording.cells[problem] else None

    def measure_round(
        self, problem: Problem, configs: Sequence[Config], *, kind: SampleKind, batch: int
    ) -> list[Outcome]:
        number, phase = divmod(batch, 4)  # tune.rounds numbers its batches so
        at = RACE_ROUNDS + number % confirm_rounds(self._recording) if phase // 2 else number % RACE_ROUNDS
        column = at * HALVES + self._half
        return [self._sample(problem, config, column) for config in configs]

    def restart(self) -> None:
        """First samples cost as much again; that times differ between starts of the ranks was not recorded."""
        self._used.clear()

    def close(self) -> None:
        return

    def clock(self) -> float:
        """Recorded seconds spent so far."""
        return self.elapsed_s

    def _sample(self, problem: Problem, config: Config, column: int) -> Outcome:
        at = self._recording.cells[problem].index(config)
        is_first = (problem, config) not in self._used
        self._used.add((problem, config))
        cost_s = sample_cost_s(self._recording, problem, at, column, is_first=is_first)
        self.elapsed_s += cost_s
        self.spent_s[problem] += cost_s
        time_us = float(self._recording.time_us[problem][at, column])
        if np.isnan(time_us):
            return Failure(state=TrialState.INVALID, message="failed when it was recorded")
        return Timing(time_us=time_us, batch_calls=batch_calls(time_us))


def confirm_rounds(recording: Recording) -> int:
    """What is left of a half after the race."""
    return recording.n_rounds // HALVES - RACE_ROUNDS


def sample_cost_s(recording: Recording, problem: Problem, config: int, column: int, *, is_first: bool) -> float:
    """Seconds of a sample: those of its round, and of round 0 where it is the config's first."""
    costs = recording.cost_s[problem][config]
    if is_first:
        return float(costs[0])
    return float(costs[column] if column else np.median(costs[1:]))


def exhaustive_s(recording: Recording, problem: Problem, half: int) -> float:
    """Seconds of nine rounds of every config of a cell."""
    columns = [at * HALVES + half for at in range(RACE_ROUNDS)]
    return sum(
        sample_cost_s(recording, problem, config, column, is_first=column == columns[0])
        for config in range(len(recording.cells[problem]))
        for column in columns
    )
