"""What samples say: medians with intervals, and paired ratios with theirs.

In:  samples of one or two configs.
Out: `Interval` and `Comparison`.
May not touch: anything but numbers. scipy.stats costs most of a second to import, so it is imported where it is used.

A host's speed drifts by whole factors within minutes, for everybody at once. Ratios inside a round do not see that, so
configs are only ever compared in pairs: one sample each, of the same kind, phase and round. All intervals are exact and
two-sided, of 95 % unless another confidence is asked for, and there is none below six values. Whoever measures on until
the answer is clear uses `sequential`, which asks for more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..types import Phase, Sample, SampleKind

MIN_ROUNDS = 9
"""Paired rounds below which nothing is called a winner."""
ALPHA = 0.01
"""How often the test may prefer a config that is the default's equal."""
MIN_GAIN = 1.02
"""A smaller gain is not worth leaving the default for."""
AGAIN_FROM = 10_000
"""Confirm rounds from this number on were measured by ranks that had been started anew: some states of a machine, such
as where the ranks' pages lie, last as long as its ranks do, and all rounds of one start see the same one."""
TEST = (
    f"one-sided Wilcoxon signed-rank test on the log ratios of paired confirm rounds, looked at after {MIN_ROUNDS}, "
    f"15, 25, 42 ... of them with p < {0.2 * ALPHA:g}, {0.5 * ALPHA:g}, {0.3 * ALPHA:g}, {0.2 * ALPHA:g} ..., so "
    f"that all looks together err with at most {ALPHA:g}; challengers in the order of the race, up to the first that "
    f"fails; a median gain of at least {MIN_GAIN:g}; and no loss by the median of the rounds that were measured once "
    "the ranks had been started anew, where there are any"
)
"""The test in words, as written into every table."""
CONFIDENCE = 0.95
_UNSTABLE_SPREAD = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A median and its interval; low and high are None where there are too few values for one."""

    n_values: int
    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Baseline time over candidate time in paired rounds: above 1, the candidate is faster.

    Args:
        n_rounds: pairs.
        median: the ratio, as the median of all averages of two log ratios (Hodges and Lehmann 1963).
        low: end of the interval, or None below six rounds.
        high: the other end.
        p_value: how likely ratios at least so high are, if both configs are equally fast (one-sided).
    """

    n_rounds: int
    median: float
    low: float | None
    high: float | None
    p_value: float

    @property
    def unstable(self) -> bool:
        """Whether the interval says little: its ends are more than a quarter apart, or it does not exist."""
        return self.low is None or self.high is None or self.high > self.low * _UNSTABLE_SPREAD


def median_interval(values: Sequence[float]) -> Interval:
    """The median of one config's times, with an interval from order statistics, which assumes no distribution.

    The number of values below the median is binomial (scipy.stats.binom), so that k-th lowest and k-th highest enclose
    it (Conover, Practical Nonparametric Statistics, 1999, section 3.2).

    Raises:
        ValueError: no values.
    """
    from scipy import stats

    ordered = sorted(values)
    k = int(stats.binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))
    return Interval(
        n_values=len(ordered),
        median=statistics.median(ordered),
        low=ordered[k - 1] if k else None,
        high=ordered[-k] if k else None,
    )


def paired_ratio(
    baseline: Iterable[Sample], candidate: Iterable[Sample], *, confidence: float = CONFIDENCE
) -> Comparison:
    """Compare two configs measured in the same session, over the rounds that both have.

    If noise multiplies times and falls on both alike, log ratios lie symmetrically about the log of the true ratio.
    Then the signed-rank test is exact, and so is the interval that goes with it, between two of the Walsh averages;
    their median is the estimate (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 2014, sections 3.1
    to 3.3).

    Raises:
        ValueError: no common round.
    """
    before, after = _by_round(baseline), _by_round(candidate)
    logs = sorted(math.log(before[key] / after[key]) for key in before.keys() & after.keys())
    if not logs:
        raise ValueError("the two configs have no round in common")
    walsh = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    drop = _walsh_drop(len(logs), confidence)
    return Comparison(
        n_rounds=len(logs),
        median=math.exp(statistics.median(walsh)),
        low=None if drop is None else math.exp(walsh[drop]),
        high=None if drop is None else math.exp(walsh[-1 - drop]),
        p_value=_signed_rank_p(logs),
    )


def _by_round(samples: Iterable[Sample]) -> dict[tuple[SampleKind, Phase, int], float]:
    return {(sample.kind, sample.phase, sample.round): sample.time_us for sample in samples}


def _signed_rank_p(logs: Sequence[float]) -> float:
    from scipy import stats

    if not any(logs):  # scipy divides by zero where nothing is left to rank
        return 1.0
    # Of itself scipy would go through all permutations where two ratios tie, which takes seconds.
    return float(stats.wilcoxon(logs, alternative="greater", method="exact").pvalue)


@lru_cache
def _walsh_drop(n: int, confidence: float) -> int | None:
    """How many of the lowest and of the highest Walsh averages fall outside the interval; None: there are too few.

    The largest d with 2 P(T <= d) <= 1 - confidence, T being the signed-rank statistic of n values under the null.
    Counted here, since scipy offers the statistic's tail but not its quantiles.
    """
    counts = [1]  # counts[t]: subsets of the ranks so far whose sum is t
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        counts = [longer[t] + (counts[t - rank] if t >= rank else 0) for t in range(len(longer))]
    tail, drop = 0, -1
    while 2 * (tail + counts[drop + 1]) <= (1 - confidence) * 2**n:
        drop += 1
        tail += counts[drop]
    return drop if drop >= 0 else None
