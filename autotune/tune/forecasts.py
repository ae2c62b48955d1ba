"""What is expected of the configs of a cell, and what trying one may save. Pure; standard library only.

In:  expected logs of times over the default's, with their covariance. Out: `Forecast` values, expected improvements.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..types import Config

if TYPE_CHECKING:
    from .kriging import Array

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
        gain = self._logs[over] - self._logs[config]
        below = gain / spread
        density = math.exp(-below * below / 2) / math.sqrt(2 * math.pi)
        return spread * density + gain * statistics.NormalDist().cdf(below)


def _spread(variance: float) -> float:
    return max(_LEAST_SPREAD, math.sqrt(max(0.0, variance)))
