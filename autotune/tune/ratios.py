"""What samples show of configs against the default, noise included. Pure; standard library only.

In:  log times by config and round. Out: a `Ratio` for each config.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..types import Config

Round = TypeVar("Round", bound=Hashable)

_USUAL_NOISE, _USUAL_WEIGHT = 0.1, 4  # of a log ratio; counts as so many residuals
_MEDIAN = math.pi / 2  # the variance of a median over that of a mean, where noise is normal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The log of a config's time over the default's, as far as samples show it; the variance is that of the noise."""

    log: float
    variance: float


def ratios_to(times: Mapping[Config, Mapping[Round, float]], base: Config) -> dict[Config, Ratio]:
    """The median log ratio of every config to the base; empty where the base has none.

    Configs that ran in no round with the base are compared through the one that ran most often: a slow phase of the
    host falls on a round as a whole. How noisy a ratio is, all configs tell together.

    Args:
        times: logs of times, by round.
    """
    if not times.get(base):
        return {}
    pivot = max(times, key=lambda config: (len(times[config]), config == base, str(config)))
    logs = {config: _logs(times[config], times[pivot]) for config in times}
    if not logs[base]:
        return {}
    scale = _noise([values for config, values in logs.items() if config != pivot])
    shift = statistics.median(logs[base])
    found = {}
    for config, values in logs.items():
        if values:
            rounds = 1 / len(values) + (1 / len(logs[base]) if pivot not in (config, base) else 0.0)
            variance = 0.0 if config == base else scale * scale * _MEDIAN * rounds
            found[config] = Ratio(log=statistics.median(values) - shift, variance=variance)
    return found


def _logs(own: Mapping[Round, float], other: Mapping[Round, float]) -> list[float]:
    return [own[number] - other[number] for number in own if number in other]


def _noise(ratios: list[list[float]]) -> float:
    """By the median absolute deviation, which single disturbed samples do not move, as in `measure.racing`."""
    residuals = [
        abs(value - statistics.fmean(values)) * math.sqrt(len(values) / (len(values) - 1))
        for values in ratios
        if len(values) > 1
        for value in values
    ]
    seen = 1.4826 * statistics.median(residuals) if residuals else 0.0
    return math.sqrt((len(residuals) * seen**2 + _USUAL_WEIGHT * _USUAL_NOISE**2) / (len(residuals) + _USUAL_WEIGHT))
