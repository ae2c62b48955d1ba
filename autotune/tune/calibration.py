"""How far forecasts are off, over what they claim: learnt from those that were judged by measurements. Pure.

In:  what was forecast and what was then measured. Out: a factor for the spreads of forecasts to come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_SCALES = tuple(2 ** (step / 4) for step in range(-6, 13))
_USUAL_WEIGHT = 8  # forecasts that count as having been off by just what they claimed
_MOST_OFF = 3.0  # standard deviations that one of them counts for at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """How far a forecast was off, the variance that it claimed, and that of the noise with which it was judged."""

    off: float
    claimed: float
    noise: float

    def unlikely(self, scale: float) -> float:
        """Twice the negative log likelihood, where forecasts are off by so many times what they claim."""
        variance = scale**2 * self.claimed + self.noise
        return math.log(variance) + min(self.off**2 / variance, _MOST_OFF**2)


def likeliest_scale(misses: Iterable[Miss]) -> float:
    """What forecasts are really off by, over what they claim (Dawid 1984: a forecaster is judged by what came after).

    The likeliest of some scales, the noise of what was measured being known: noise is no fault of a forecast's.
    """
    seen = list(misses)

    def unlikely(scale: float) -> float:
        usual = _USUAL_WEIGHT * (2 * math.log(scale) + 1 / scale**2)
        return usual + sum(miss.unlikely(scale) for miss in seen)

    return min(_SCALES, key=unlikely)
