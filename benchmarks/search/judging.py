"""What a choice is worth: by the rounds that the search did not see. Pure.

In:  a recording, a cell, a choice, and which half of the rounds the search saw. Out: `Judged`.

The oracle of an exhaustive sweep has to be chosen on rounds other than those on which it is compared, else it would be
credited with its luck. So the even rounds of the unseen half choose one, and the odd ones compare; and the other way
round. The regret is over the pairs of both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.measure import MIN_GAIN
from autotune.types import Config, Problem

from .recorded import exhaustive_s
from .recording import HALVES, Recording

_ALPHA = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One cell of one run.

    Args:
        oracle: of the even rounds.
        regret: time over the oracles', less one.
        low: the regret is at least this with 99 % confidence: what of it noise does not explain.
        slower: whether the choice is significantly slower than the default.
    """

    problem: Problem
    config: Config
    oracle: Config
    regret: float
    low: float
    spent_s: float
    exhaustive_s: float
    slower: bool


def judged(recording: Recording, problem: Problem, config: Config, *, spent_s: float, seen: int) -> Judged:
    """Judge a choice by the half of the rounds that the search has not seen."""
    configs = recording.cells[problem]
    unseen = recording.time_us[problem][:, 1 - seen :: HALVES]
    oracles: list[Config] = []
    over: list[float] = []
    for choosing, comparing in ((unseen[:, ::2], unseen[:, 1::2]), (unseen[:, 1::2], unseen[:, ::2])):
        oracle = configs[int(np.nanargmin(np.median(choosing, axis=1)))]
        oracles.append(oracle)
        over += log_ratios(comparing, configs, config, oracle)
    return Judged(
        problem=problem,
        config=config,
        oracle=oracles[0],
        regret=math.exp(walsh_median(over)) - 1,
        low=math.exp(walsh_low(over)) - 1,
        spent_s=spent_s,
        exhaustive_s=exhaustive_s(recording, problem, seen),
        slower=is_slower(log_ratios(unseen, configs, config, recording.default(problem))),
    )


def apart(recording: Recording, one: Judged, other: Judged) -> bool:
    """Whether two choices for a cell differ by more than noise and by what is worth a change, on all rounds."""
    logs = log_ratios(recording.time_us[one.problem], recording.cells[one.problem], one.config, other.config)
    return is_slower(logs) or is_slower([-log for log in logs])


def is_slower(logs: Sequence[float]) -> bool:
    """Whether log ratios show a loss that is significant and worth a change."""
    from scipy import stats

    if not any(logs) or walsh_median(logs) <= math.log(MIN_GAIN):
        return False
    return float(stats.wilcoxon(logs, alternative="greater", method="exact").pvalue) < _ALPHA


def log_ratios(times: npt.NDArray[np.float32], configs: Sequence[Config], one: Config, other: Config) -> list[float]:
    """The logs of one config's times over another's, round by round."""
    own, base = times[configs.index(one)], times[configs.index(other)]
    return [float(log) for log in np.log(own / base)]


def walsh_median(logs: Sequence[float]) -> float:
    """Hodges and Lehmann's estimate, as in measure.paired."""
    return statistics.median(_walsh(logs))


def walsh_low(logs: Sequence[float]) -> float:
    """The lower end of its interval of 99 % (one-sided), by the normal approximation of the signed-rank statistic."""
    n = len(logs)
    middle, spread = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    at = int(middle - statistics.NormalDist().inv_cdf(1 - _ALPHA) * spread)
    return sorted(_walsh(logs))[max(0, at)]


def _walsh(logs: Sequence[float]) -> list[float]:
    return [(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]]
