"""Tests that may be looked at again and again: what a run that stops when it is sure may still say. Pure.

In:  numbers of paired rounds, paired samples. Out: when to look, what a look may spend, whether a decision stands.
May not touch: clocks, stores. Standard library only, but for what `paired` imports when it is called.

A test at a fixed number of rounds is wrong more often than it says once somebody measures on because the answer was not
yet clear. Two remedies are used here, each with its error rate:

looks       Decisions (is a config faster than the default?) are tested at 9, 15, 25, 42, 70 and 116 paired rounds
            only, and each look spends a part of alpha (Lan and DeMets, Biometrika 70, 1983), so that wherever a run
            stops, it errs with at most alpha. A look has the rounds of those before it, so it adds less to the error
            than its own level: the levels sum to 1.37 alpha, and all looks together err with 0.99 alpha, whatever the
            distribution of times: where nothing differs, the sign of a log ratio says nothing of its size, and any
            order of sizes is as likely (counted in 1.2 million such runs; a test counts again). The first look gets a
            fifth, for nine unanimous rounds; the second half, for it can bear a disturbed one.
sequence    Several challengers of one default are tested in the order in which they came out of the race, whose rounds
            are others, and the first that does not prove faster ends it (fixed sequence: Maurer, Hothorn and Lehmacher
            1995). So they need not share alpha.
confidence  Races, which have few rounds, use a bound that holds at all rounds at once: that of Robbins's normal mixture
sequence    (Annals of Mathematical Statistics 41, 1970; Howard et al., Annals of Statistics 49, 2021), for log ratios
            with a known scale of noise.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable

from ..types import Phase, Sample, SampleKind
from .paired import AGAIN_FROM, ALPHA, CONFIDENCE, MIN_GAIN, MIN_ROUNDS, Comparison, paired_ratio

_GROWTH = (5, 3)  # 5/3, in whole numbers
_LEVELS = (0.2, 0.5, 0.3, 0.2, 0.1, 0.07)
_AGAIN_ROUNDS = 3
_MIXTURE = 2.0  # the bound is tightest after about so many rounds


class Standing(enum.Enum):
    """Where a challenger stands against the default.

    FASTER replaces it. NOT_FASTER: the interval of its gain ends below what is worth a change. OPEN: more rounds could
    still show either; the default stays until they do.
    """

    FASTER = "faster"
    NOT_FASTER = "not_faster"
    OPEN = "open"


def rounds_at(look: int) -> int:
    """Paired rounds at the look with this number, from 0: 9, 15, 25, 42, 70, 116 ..."""
    more, fewer = _GROWTH
    return -(-MIN_ROUNDS * int(more**look) // int(fewer**look))


def last_look(n_rounds: int) -> int | None:
    """The number of the last look that so many rounds allow; None below nine."""
    look = None
    while rounds_at(0 if look is None else look + 1) <= n_rounds:
        look = 0 if look is None else look + 1
    return look


def look_with(n_rounds: int) -> int:
    """The first look with at least so many rounds."""
    look = 0
    while rounds_at(look) < n_rounds:
        look += 1
    return look


def level(look: int) -> float:
    """What p has to be below at a look, in parts of `ALPHA`."""
    beyond = max(0, look - len(_LEVELS) + 1)
    return float(_LEVELS[look - beyond] / 3**beyond)


def sequential_ratio(baseline: Iterable[Sample], candidate: Iterable[Sample]) -> Comparison | None:
    """`paired_ratio` over the rounds of the last look; None where there was no look yet.

    The interval holds 95 % however often one looks.
    """
    before = {(s.kind, s.phase, s.round): s for s in baseline}
    after = {(s.kind, s.phase, s.round): s for s in candidate}
    common = sorted(before.keys() & after.keys(), key=_order)
    look = last_look(len(common))
    if look is None:
        return None
    taken = common[: rounds_at(look)]
    confidence = 1 - (1 - CONFIDENCE) / 2 ** (look + 1)
    return paired_ratio([before[key] for key in taken], [after[key] for key in taken], confidence=confidence)


def standing(gain: Comparison) -> Standing:
    """What the last look says of a challenger, given its gain over the default by `sequential_ratio`."""
    look = last_look(gain.n_rounds)
    if look is None:
        return Standing.OPEN
    if gain.median >= MIN_GAIN and gain.p_value < ALPHA * level(look):
        return Standing.FASTER
    if gain.high is not None and gain.high < MIN_GAIN:
        return Standing.NOT_FASTER
    return Standing.OPEN


def holds_again(baseline: Iterable[Sample], candidate: Iterable[Sample]) -> bool:
    """Whether a candidate was no slower once the ranks had been started anew; True where fewer than three rounds tell.

    By the median alone: these few rounds prove nothing, but a state of the first start that made the gain shows.
    """
    before, after = ([s for s in samples if s.round >= AGAIN_FROM] for samples in (baseline, candidate))
    common = {(s.kind, s.phase, s.round) for s in before} & {(s.kind, s.phase, s.round) for s in after}
    return len(common) < _AGAIN_ROUNDS or paired_ratio(before, after).median >= 1.0


def bound(n_rounds: int, scale: float, alpha: float) -> float:
    """How far the mean of n log ratios may lie from the true one, at all n at once but for a probability of alpha.

    Args:
        scale: standard deviation of one log ratio.
    """
    grown = (n_rounds + _MIXTURE) * (math.log((n_rounds + _MIXTURE) / _MIXTURE) - 2 * math.log(alpha))
    return scale * math.sqrt(grown) / n_rounds


def _order(key: tuple[SampleKind, Phase, int]) -> tuple[str, str, int]:
    kind, phase, number = key
    return kind.value, phase.value, number
