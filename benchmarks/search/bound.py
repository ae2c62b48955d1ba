"""What noise alone costs: the regret of a race that is never wrong, with the rounds that a run has to confirm it.

In:  a recording. Out: a line for it. The config that is fastest in the unseen half is tested against the default on the
confirm rounds of the seen one, at the looks of a run, and takes its place if it proves faster. Who decides by this test
can hardly do better on these rounds, whatever is raced.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from autotune.measure import NORMAL, Standing, rounds_at, sequential_ratio, standing
from autotune.types import Config, Phase, Problem, Sample, SampleKind

from .judging import Judged, judged
from .recorded import RACE_ROUNDS, confirm_rounds
from .recording import HALVES, Recording, Samples


def bound(recording: Recording, orders: int) -> str:
    """Mean and worst cell, over both halves of each order of the rounds."""
    runs = [
        {problem: _judged(ordered, problem, half) for problem in ordered.cells}
        for ordered in map(recording.reordered, range(orders))
        for half in range(HALVES)
    ]
    mean = statistics.fmean(one.regret for run in runs for one in run.values())
    worst = max(statistics.fmean(run[problem].regret for run in runs) for problem in recording.cells)
    return f"{recording.name}: mean {mean:.2%}, worst cell {worst:.1%}"


def _judged(recording: Recording, problem: Problem, half: int) -> Judged:
    configs, times = recording.cells[problem], recording.time_us[problem]
    default = recording.default(problem)
    best = configs[int(np.nanargmin(np.median(times[:, 1 - half :: HALVES], axis=1)))]
    rounds = times[:, half::HALVES][:, RACE_ROUNDS:]
    by_config = {config: _samples(rounds[configs.index(config)]) for config in (default, best)}
    most = min(confirm_rounds(recording), NORMAL.most_rounds)
    choice = best if best != default and _proves_faster(by_config, default, best, most) else default
    return judged(recording, problem, choice, spent_s=0.0, seen=half)


def _proves_faster(by_config: Mapping[Config, Sequence[Sample]], default: Config, best: Config, most: int) -> bool:
    look = 0
    while (n_rounds := rounds_at(look)) <= most:
        gain = sequential_ratio(by_config[default][:n_rounds], by_config[best][:n_rounds])
        if gain is not None and standing(gain) is not Standing.OPEN:
            return standing(gain) is Standing.FASTER
        look += 1
    return False


def _samples(times: Samples) -> list[Sample]:
    return [
        Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=r, position=0, batch_calls=1, time_us=float(time_us))
        for r, time_us in enumerate(times)
    ]
