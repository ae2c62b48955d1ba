"""What is known of a cell before it is measured: the cost model, corrected by what was measured elsewhere. Pure.

In:  prices of a cost model, trials of other cells and of earlier runs. Out: `Forecast` values, and who won next door.
May not touch: stores, clocks, backends.

A cost model is off by factors that change slowly: what an algorithm took over its price at 64 KiB, it will take at
256 KiB too. So every measured config leaves a residual, the log of what it took over what it was priced at, both
relative to the default of the same cell (a slow host falls on both and cancels). A forecast is the model's price,
moved by the weighted mean of the residuals near it (Nadaraya 1964, Watson 1964; with the weight of a prior that says
that the model is right, but for what the default's own price is off by). Near is near in size and ranks, with the same
algorithm, codec and knobs. Without a model the residuals alone are left.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..measure import leader, race_of
from ..types import Config, Phase, Problem, RuleKey, SampleKind, Trial

Pricing = Callable[[Problem, Config], float | None]
"""Microseconds of one call by a cost model; None where it has no price."""

OWN_RUN, EARLIER_RUN, SIMILAR_MACHINE = 1.0, 0.5, 0.2
"""How much a residual counts, by where it was measured."""

_PRIOR_WEIGHT = 0.1  # of the model's own word, against a residual of the same config at the same size
_PRICED_SPREAD, _UNPRICED_SPREAD = 0.5, 0.7  # standard deviation of a residual where nothing near was measured
_OWN_SPREAD = 0.1  # of a config against others of its algorithm
_SIZE_OCTAVES = 2.0  # the weight of a residual falls to 1/e over so many
_RANKS_OCTAVES = 0.7
_SEGMENT_OCTAVES = 3.0
_OTHER_SEGMENT, _OTHER_KNOBS, _OTHER_DTYPE = 0.7, 0.3, 0.6
_MOST_CELLS = 12  # that a forecast looks at: the nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The log of a config's time over the default's: what is expected, and the standard deviation of that."""

    mean: float
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The residuals of one measured cell."""

    problem: Problem
    residuals: Mapping[Config, float]
    trust: float


class Knowledge:
    """Everything that a search may know of cells that it has not measured.

    Args:
        pricing: the cost model's prices on this machine.
        default: of a problem.
    """

    def __init__(self, pricing: Pricing, default: Callable[[Problem], Config]) -> None:
        self._pricing = pricing
        self._default = default
        self._cells: dict[tuple[Problem, float], _Seen] = {}
        self._winners: dict[Problem, Config] = {}

    def learn(self, trials: Iterable[Trial], *, trust: float = OWN_RUN) -> None:
        """Take in one session's trials of one problem; what was known of them before is replaced."""
        own = list(trials)
        if not own:
            return
        problem = own[0].problem
        ratios = log_ratios(own, self._default(problem))
        if ratios:
            model = self._model(problem, ratios)
            residuals = {config: ratio - model[config] for config, ratio in ratios.items()}
            self._cells[problem, trust] = _Seen(problem=problem, residuals=residuals, trust=trust)
        if any((race := race_of(own)).values()):
            self._winners[problem] = leader(race)

    def won(self, problem: Problem, config: Config) -> None:
        """What a cell of this run decided."""
        self._winners[problem] = config

    def winners_near(self, problem: Problem) -> tuple[Config, ...]:
        """What won at the next smaller and larger size, and at the same size with the next rank counts; each once."""
        near = [self._winners[other] for other in self._beside(problem)]
        return tuple(dict.fromkeys(near))

    def algorithms_tried(self, problem: Problem) -> set[str]:
        """What was measured at any size with these ranks."""
        seen = [cell for cell in self._cells.values() if cell.problem.key == problem.key]
        return {config.algorithm for cell in seen for config in cell.residuals}

    def forecasts(
        self, problem: Problem, configs: Sequence[Config], measured: Mapping[Config, float] | None = None
    ) -> dict[Config, Forecast]:
        """What to expect of configs, those outside the model included.

        Args:
            measured: log ratios to the default that this cell has shown already.
        """
        model = self._model(problem, [*configs, *(measured or {})])
        cells = [(self._nearness(problem, seen), seen.residuals) for seen in self._nearest(problem)]
        if measured:
            cells.append((1.0, {config: ratio - model[config] for config, ratio in measured.items()}))
        priced = {config: self._pricing(problem, config) is not None for config in configs}
        shift = _shift(cells, self._default(problem).algorithm)
        own = self._default(problem).algorithm
        return {
            config: _forecast(config, model[config], 0.0 if config.algorithm == own else shift, priced[config], cells)
            for config in configs
        }

    def _model(self, problem: Problem, configs: Iterable[Config]) -> dict[Config, float]:
        """Log prices over the default's. What has no price is taken for as fast as the cheapest that has one."""
        prices = {config: self._pricing(problem, config) for config in configs}
        known = [price for price in prices.values() if price is not None]
        if not known:
            return dict.fromkeys(prices, 0.0)
        base = self._pricing(problem, self._default(problem)) or min(known)
        cheapest = min(known)
        return {config: math.log((cheapest if price is None else price) / base) for config, price in prices.items()}

    def _nearest(self, problem: Problem) -> list[_Seen]:
        cells = [seen for seen in self._cells.values() if _same_kind(seen.problem.key, problem.key)]
        cells.sort(key=lambda seen: -self._nearness(problem, seen))
        return cells[:_MOST_CELLS]

    def _nearness(self, problem: Problem, seen: _Seen) -> float:
        size = abs(_octaves(problem.message_bytes, seen.problem.message_bytes))
        ranks = abs(_octaves(problem.key.n_ranks, seen.problem.key.n_ranks))
        near = seen.trust * math.exp(-size / _SIZE_OCTAVES - ranks / _RANKS_OCTAVES)
        return near * (1.0 if seen.problem.key.dtype is problem.key.dtype else _OTHER_DTYPE)

    def _beside(self, problem: Problem) -> list[Problem]:
        kin = [other for other in self._winners if _same_kind(other.key, problem.key) and other != problem]
        kin = [other for other in kin if other.key.dtype is problem.key.dtype]
        same_ranks = [other for other in kin if other.key == problem.key]
        smaller = [other for other in same_ranks if other.message_bytes < problem.message_bytes]
        larger = [other for other in same_ranks if other.message_bytes > problem.message_bytes]
        ranks = [other for other in kin if other.key != problem.key]
        ranks.sort(
            key=lambda other: (
                abs(_octaves(other.message_bytes, problem.message_bytes)),
                abs(_octaves(other.key.n_ranks, problem.key.n_ranks)),
            )
        )
        sizes = [max(smaller, key=_size, default=None), min(larger, key=_size, default=None)]
        return [*(other for other in sizes if other is not None), *ranks[:1]]


def log_ratios(trials: Iterable[Trial], default: Config) -> dict[Config, float]:
    """The median log of each config's time over the default's, in the fresh rounds that both ran."""
    times: dict[Config, dict[tuple[Phase, int], float]] = {}
    for trial in trials:
        fresh = {(s.phase, s.round): s.time_us for s in trial.samples if s.kind is SampleKind.FRESH}
        if fresh:
            times[trial.config] = fresh
    base = times.get(default, {})
    found: dict[Config, float] = {}
    for config, own in times.items():
        common = own.keys() & base.keys()
        if common:
            found[config] = statistics.median(math.log(own[at] / base[at]) for at in common)
    return found


def _shift(cells: Sequence[tuple[float, Mapping[Config, float]]], default: str) -> float:
    """What the default's own price is off by: it moves the ratios of all algorithms but its own alike.

    The mean of the residuals, one for each algorithm, as if one more had been measured that is not off at all.
    """
    sums: dict[str, tuple[float, float]] = {}
    for near, residuals in cells:
        for config, residual in residuals.items():
            if config.algorithm != default:
                weight, moved = sums.get(config.algorithm, (0.0, 0.0))
                sums[config.algorithm] = weight + near, moved + near * residual
    return sum(moved / weight for weight, moved in sums.values()) / (len(sums) + 1)


def _forecast(
    config: Config, model: float, shift: float, priced: bool, cells: Iterable[tuple[float, Mapping[Config, float]]]
) -> Forecast:
    kin, moved, own = _PRIOR_WEIGHT, _PRIOR_WEIGHT * shift, 0.0
    for near, residuals in cells:
        for other, residual in residuals.items():
            if config.algorithm == other.algorithm:
                weight = near * _alike(config, other)
                kin += weight
                moved += weight * residual
                own += near if config == other else 0.0
    of_algorithm = (_PRICED_SPREAD if priced else _UNPRICED_SPREAD) ** 2 * _PRIOR_WEIGHT / kin
    of_config = _OWN_SPREAD**2 * _PRIOR_WEIGHT / (_PRIOR_WEIGHT + own)
    return Forecast(mean=model + moved / kin, spread=math.sqrt(of_algorithm + of_config))


def _alike(one: Config, other: Config) -> float:
    """How much one config tells of another of its algorithm."""
    if one == other:
        return 1.0
    alike = 1.0 if (one.codec, one.knobs) == (other.codec, other.knobs) else _OTHER_KNOBS
    if one.segment_bytes is None or other.segment_bytes is None:
        return alike * (1.0 if one.segment_bytes == other.segment_bytes else _OTHER_SEGMENT**2)
    apart = abs(_octaves(one.segment_bytes, other.segment_bytes))
    return alike * (1.0 if apart == 0.0 else _OTHER_SEGMENT * math.exp(-apart / _SEGMENT_OCTAVES))


def _same_kind(one: RuleKey, other: RuleKey) -> bool:
    """The same call in all but size, ranks and element type."""
    return _kind(one) == _kind(other)


def _kind(key: RuleKey) -> tuple[object, ...]:
    return key.backend, key.collective, key.op_class, key.memory, key.max_error


def _octaves(one: int, other: int) -> float:
    return math.log2(max(1, one) / max(1, other))


def _size(problem: Problem) -> int:
    return problem.message_bytes


def by_cell(trials: Iterable[Trial]) -> dict[tuple[int, Problem], list[Trial]]:
    """Trials by session and problem."""
    found: defaultdict[tuple[int, Problem], list[Trial]] = defaultdict(list)
    for trial in trials:
        found[trial.session_id, trial.problem].append(trial)
    return dict(found)
