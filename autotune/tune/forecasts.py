"""What is expected of the configs of a cell, and what trying one may save. Pure; numpy, imported where used.

In:  expected logs of times over the default's, with their covariance; a gain so far. Out: `Forecast` values, expected
improvements of one config and of several together.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..measure import ALPHA, MIN_GAIN, Comparison, last_look, rounds_at
from ..measure.paired import CONFIDENCE
from ..measure.sequential import level
from ..types import Config

if TYPE_CHECKING:
    from .kriging import Array

_DRAWS = 1000
_LEAST_SPREAD = 1e-3  # so that one can divide by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The log of a config's time over the default's: what is expected, and the standard deviation of that."""

    mean: float
    spread: float


class Forecasts(Mapping[Config, Forecast]):
    """Of several configs of a cell, and how they hang together: kin are off by the same."""

    def __init__(self, logs: Mapping[Config, float], covariance: Array) -> None:
        self._logs = dict(logs)
        self._at = {config: at for at, config in enumerate(logs)}
        self._covariance = covariance

    def __getitem__(self, config: Config) -> Forecast:
        at = self._at[config]
        return Forecast(mean=self._logs[config], spread=_spread(float(self._covariance[at, at])))

    def __iter__(self) -> Iterator[Config]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def best_of(self, configs: Iterable[Config]) -> Config:
        """The one that is expected to be fastest; the first by name where several are."""
        return min(configs, key=lambda config: (self._logs[config], str(config)))

    def improvement(self, config: Config, over: Config) -> float:
        """The share of the time of `over` that a config is expected to save (Mockus 1978); what it would lose if it
        were slower does not count, since it would not be taken then."""
        one, two = self._at[config], self._at[over]
        cov = self._covariance
        spread = _spread(float(cov[one, one] + cov[two, two] - 2 * cov[one, two]))
        return expected_saving(self._logs[over] - self._logs[config], spread)

    def together(
        self, configs: Sequence[Config], count: int, *, over: Config, given: Sequence[Config] = ()
    ) -> list[tuple[Config, float]]:
        """Up to so many configs that are worth most together, one after the other, and what each adds.

        What one adds is the share of the time of `over` that it is expected to save beyond the best of those before it
        (q-EI, chosen greedily: Ginsbourger, Le Riche and Carraro 2010): kin that are off by the same add little. By
        draws from the joint forecast, the same ones every time.

        Args:
            given: that are taken already.
        """
        import numpy as np

        waiting = [config for config in configs if config != over and config not in given]
        known = [over, *given, *waiting]
        at = [self._at[config] for config in known]
        means = np.array([self._logs[config] for config in known])
        values, vectors = np.linalg.eigh(self._covariance[np.ix_(at, at)])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = means[:, None] + root @ np.random.default_rng(0).standard_normal((len(known), _DRAWS))
        n_given = 1 + len(given)
        best, open_at = draws[:n_given].min(axis=0), list(range(n_given, len(known)))
        taken: list[tuple[Config, float]] = []
        while open_at and len(taken) < count:
            adds = np.maximum(0.0, best - draws[open_at]).mean(axis=1)
            first = min(range(len(open_at)), key=lambda n: (-round(float(adds[n]), 6), coarse_first(known[open_at[n]])))
            row = open_at.pop(first)
            taken.append((known[row], float(adds[first])))
            best = np.minimum(best, draws[row])
        return taken


def expected_saving(gain: float, spread: float) -> float:
    """What may be saved is expected to be so much, where the log of what it may be is normal; a loss counts as 0."""
    below = gain / spread
    density = math.exp(-below * below / 2) / math.sqrt(2 * math.pi)
    return spread * density + gain * statistics.NormalDist().cdf(below)


def next_look_saves(gain: Comparison, most_rounds: int) -> float:
    """The share of the default's time that more rounds of an open decision are expected to save, up to the next look.

    That is what a challenger saves where a look lets it replace the default, times how likely that is, by what its
    rounds have shown and as if nothing had been known before (predictive power: Spiegelhalter, Freedman and Blackburn
    1986). Where a later look is expected to save more for its rounds, it counts, for so many rounds of it as the next
    one takes.

    Args:
        most_rounds: that the decision may get; where no look is left, nothing is saved.
    """
    last = last_look(gain.n_rounds)
    if last is None or gain.low is None or gain.high is None:
        return 1.0
    width = 2 * statistics.NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 ** (last + 2))
    spread = _spread((math.log(gain.high / gain.low) / width) ** 2)
    done, found, saves = gain.n_rounds, math.log(gain.median), 0.0
    for look in itertools.count(last + 1):
        rounds = rounds_at(look)
        if rounds > most_rounds:
            break
        more = rounds - done
        needed = statistics.NormalDist().inv_cdf(1 - ALPHA * level(look)) * spread * math.sqrt(done / rounds)
        moves = spread * math.sqrt(more / rounds)
        below = (found - max(needed, math.log(MIN_GAIN))) / moves
        density = math.exp(-below * below / 2) / math.sqrt(2 * math.pi)
        expected = found * statistics.NormalDist().cdf(below) + moves * density
        saves = max(saves, -math.expm1(-expected) * (rounds_at(last + 1) - done) / more)
    return saves


def coarse_first(config: Config) -> tuple[float, str]:
    """An order among equal forecasts: the coarser cut first, as a model leaves out what a piece costs, if anything."""
    return (-math.inf if config.segment_bytes is None else -config.segment_bytes, str(config))


def _spread(variance: float) -> float:
    return max(_LEAST_SPREAD, math.sqrt(max(0.0, variance)))
