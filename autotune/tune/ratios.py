"""What samples show of configs against the default, noise included. Pure; standard library only.

In:  log times by config and round. Out: a `Ratio` for each config.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ..types import Config

Round = TypeVar("Round", bound=Hashable)

USUAL_NOISE = 0.1
"""Of one log ratio, on a host that does other things as well."""
_USUAL_WEIGHT, _USUAL_OF_ALL = 30, 4  # what is usual counts as so many residuals, in a cell and over all of a run
_MEDIAN = math.pi / 2  # the variance of a median over that of a mean, where noise is normal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The log of a config's time over the default's, as far as samples show it; the variance is that of the noise."""

    log: float
    variance: float


def ratios_to(
    times: Mapping[Config, Mapping[Round, float]], base: Config, *, usual_noise: float = USUAL_NOISE
) -> dict[Config, Ratio]:
    """The median log ratio of every config to the base; empty where the base has none.

    Configs that ran in no round with the base are compared through the one that ran most often: a slow phase of the
    host falls on a round as a whole. How noisy a ratio is, all configs tell together.

    Args:
        times: logs of times, by round.
        usual_noise: of one log ratio, before these tell.
    """
    if not times.get(base):
        return {}
    pivot = _pivot(times, base)
    logs = {config: _logs(times[config], times[pivot]) for config in times}
    if not logs[base]:
        return {}
    scale = _noise([values for config, values in logs.items() if config != pivot], usual_noise)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The standard deviation of one log ratio, and how many residuals tell it."""

    scale: float
    n_residuals: int


def noise_of(times: Mapping[Config, Mapping[Round, float]], base: Config) -> Noise:
    """How noisy these are of themselves; all configs tell together."""
    if not times:
        return Noise(scale=0.0, n_residuals=0)
    pivot = _pivot(times, base)
    residuals = _residuals([_logs(times[config], times[pivot]) for config in times if config != pivot])
    return Noise(scale=_spread(residuals), n_residuals=len(residuals))


def pooled_noise(cells: Iterable[Noise]) -> float:
    """What is usual, after what some cells have shown."""
    seen = [Noise(scale=USUAL_NOISE, n_residuals=_USUAL_OF_ALL), *cells]
    return math.sqrt(sum(n.n_residuals * n.scale**2 for n in seen) / sum(n.n_residuals for n in seen))


def _pivot(times: Mapping[Config, Mapping[Round, float]], base: Config) -> Config:
    return max(times, key=lambda config: (len(times[config]), config == base, str(config)))


def _noise(ratios: list[list[float]], usual: float) -> float:
    residuals = _residuals(ratios)
    squares = len(residuals) * _spread(residuals) ** 2 + _USUAL_WEIGHT * usual**2
    return math.sqrt(squares / (len(residuals) + _USUAL_WEIGHT))


def _spread(residuals: list[float]) -> float:
    """By the median absolute deviation, which single disturbed samples do not move, as in `measure.racing`."""
    return 1.4826 * statistics.median(residuals) if residuals else 0.0


def _residuals(ratios: list[list[float]]) -> list[float]:
    return [
        abs(value - statistics.fmean(values)) * math.sqrt(len(values) / (len(values) - 1))
        for values in ratios
        if len(values) > 1
        for value in values
    ]
