"""What is known of a cell before it is measured: the cost model, corrected by what was measured elsewhere. Pure.

In:  prices of a cost model, trials of other cells and of earlier runs. Out: `Forecast` values, and who won next door.
May not touch: stores, clocks, backends.

A cost model is off by factors that change slowly: what an algorithm took over its price at 64 KiB, it will take at
256 KiB too. So every measured config leaves a residual, the log of what it took over what it was priced at, both
relative to the default of the same cell (a slow host falls on both and cancels). A forecast is the model's price, moved
by what the residuals near it let expect (`kriging`). How far forecasts are off altogether is learnt on the way: each
cell, once measured, judges what was forecast for it. Without a model the residuals alone are left.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..measure import leader, race_of
from ..types import Config, Phase, Problem, RuleKey, SampleKind, Trial
from .calibration import Miss, likeliest_scale
from .forecasts import Forecasts
from .kriging import Kernel, Measured, expected
from .ratios import Noise, Ratio, noise_of, pooled_noise, ratios_to

Pricing = Callable[[Problem, Config], float | None]
"""Microseconds of one call by a cost model; None where it has no price."""

OWN_RUN, EARLIER_RUN, SIMILAR_MACHINE = 1.0, 0.5, 0.2
"""How much a residual counts, by where it was measured."""

_KERNEL = Kernel()
_MOST_CELLS = 8  # that a forecast looks at: the nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What one measured cell has shown."""

    problem: Problem
    ratios: Mapping[Config, Ratio]
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
        self._cheapest_us: dict[Problem, float] = {}
        self._winners: dict[Problem, Config] = {}
        self._noise: dict[tuple[Problem, float], Noise] = {}
        self._missed: dict[tuple[Problem, float], tuple[Miss, ...]] = {}

    def learn(self, trials: Iterable[Trial], *, trust: float = OWN_RUN) -> None:
        """Take in one session's trials of one problem; what was known of them before is replaced."""
        own = list(trials)
        if not own:
            return
        problem = own[0].problem
        times, default = _log_times(own), self._default(problem)
        self._noise[problem, trust] = noise_of(times, default)
        ratios = ratios_to(times, default, usual_noise=self.noise(problem))
        if ratios:
            if (problem, trust) not in self._missed:
                self._missed[problem, trust] = self._misses(problem, ratios)
            self._cells[problem, trust] = _Seen(problem=problem, ratios=ratios, trust=trust)
        if any((race := race_of(own)).values()):
            self._winners[problem] = leader(race)

    def won(self, problem: Problem, config: Config) -> None:
        """What a cell of this run decided."""
        self._winners[problem] = config

    def winners_near(self, problem: Problem) -> tuple[Config, ...]:
        """What won at the next smaller and larger size, and at the same size with the next rank counts; each once."""
        near = [self._winners[other] for other in self._beside(problem)]
        return tuple(dict.fromkeys(near))

    def noise(self, problem: Problem) -> float:
        """The standard deviation of one log ratio, by what other cells of this kind have shown."""
        kin = [
            found
            for (other, _), found in self._noise.items()
            if _same_kind(other.key, problem.key) and other != problem
        ]
        return pooled_noise(kin)

    def algorithms_tried(self, problem: Problem) -> set[str]:
        """What was measured at any size with these ranks."""
        seen = [cell for cell in self._cells.values() if cell.problem.key == problem.key]
        return {config.tuned_algorithm for cell in seen for config in cell.ratios}

    def forecasts(
        self, problem: Problem, configs: Sequence[Config], measured: Mapping[Config, Ratio] | None = None
    ) -> Forecasts:
        """What to expect of configs, those outside the model included.

        Args:
            measured: ratios to the default that this cell has shown already.
        """
        return self._forecasts(problem, configs, measured or {}, _KERNEL.scaled(self._scale(problem)))

    def _forecasts(
        self, problem: Problem, configs: Sequence[Config], measured: Mapping[Config, Ratio], kernel: Kernel
    ) -> Forecasts:
        default, model = self._default(problem), self._model(problem, [*configs, *measured])
        seen = [
            *self._nearest(problem),
            *([_Seen(problem=problem, ratios=measured, trust=OWN_RUN)] if measured else []),
        ]
        cells = [self._residuals(cell) for cell in seen]
        known = [config for cell in cells for config in cell.residuals]
        unpriced = frozenset(c for c in (default, *configs, *known) if self._pricing(problem, c) is None)
        found = expected(problem, default, configs, cells, unpriced, kernel)
        logs = {config: model[config] + float(mean) for config, mean in zip(configs, found.means, strict=True)}
        return Forecasts(logs, found.covariance)

    def _residuals(self, seen: _Seen) -> Measured:
        model = self._model(seen.problem, seen.ratios)
        left = {c: Ratio(log=ratio.log - model[c], variance=ratio.variance) for c, ratio in seen.ratios.items()}
        return Measured(problem=seen.problem, default=self._default(seen.problem), residuals=left, trust=seen.trust)

    def _misses(self, problem: Problem, ratios: Mapping[Config, Ratio]) -> tuple[Miss, ...]:
        """How far what was measured lay from what was forecast, and what was claimed for that."""
        others = [config for config in ratios if config != self._default(problem)]
        claimed = self._forecasts(problem, others, {}, _KERNEL)
        return tuple(
            Miss(off=ratios[c].log - claimed[c].mean, claimed=claimed[c].spread ** 2, noise=ratios[c].variance)
            for c in others
        )

    def _scale(self, problem: Problem) -> float:
        """What forecasts of this kind of call are really off by, over what they claim."""
        kin = (missed for (other, _), missed in self._missed.items() if _same_kind(other.key, problem.key))
        return likeliest_scale(itertools.chain.from_iterable(kin))

    def _model(self, problem: Problem, configs: Iterable[Config]) -> dict[Config, float]:
        """Log prices over the default's. What has no price is taken for as fast as the cheapest that was asked for."""
        prices = {config: self._pricing(problem, config) for config in configs}
        known = [price for price in prices.values() if price is not None]
        cheapest_us = min([*known, self._cheapest_us.get(problem, math.inf)])
        if cheapest_us == math.inf:
            return dict.fromkeys(prices, 0.0)
        self._cheapest_us[problem] = cheapest_us
        base_us = self._pricing(problem, self._default(problem)) or cheapest_us
        return {
            config: math.log((cheapest_us if price is None else price) / base_us) for config, price in prices.items()
        }

    def _nearest(self, problem: Problem) -> list[_Seen]:
        """The cells whose measurements tell most, but for this one's of this run, which come with what is asked."""
        kin = [seen for seen in self._cells.values() if _same_kind(seen.problem.key, problem.key)]
        cells = [seen for seen in kin if seen.problem != problem or seen.trust != OWN_RUN]
        cells.sort(key=lambda seen: -self._nearness(problem, seen))
        return cells[:_MOST_CELLS]

    def _nearness(self, problem: Problem, seen: _Seen) -> float:
        size = abs(_octaves(problem.message_bytes, seen.problem.message_bytes))
        ranks = abs(_octaves(problem.key.n_ranks, seen.problem.key.n_ranks))
        near = seen.trust * math.exp(-size / _KERNEL.size_octaves - ranks / _KERNEL.ranks_octaves)
        return near * (1.0 if seen.problem.key.dtype is problem.key.dtype else _KERNEL.dtype)

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


def log_ratios(trials: Iterable[Trial], default: Config) -> dict[Config, Ratio]:
    """The log of each config's time over the default's, in the fresh rounds that both ran."""
    return ratios_to(_log_times(trials), default)


def _log_times(trials: Iterable[Trial]) -> dict[Config, dict[tuple[Phase, int], float]]:
    times: dict[Config, dict[tuple[Phase, int], float]] = {}
    for trial in trials:
        fresh = {(s.phase, s.round): math.log(s.time_us) for s in trial.samples if s.kind is SampleKind.FRESH}
        if fresh:
            times[trial.config] = fresh
    return times


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
