"""Who says what to try next: the ask/tell seam between the loop and a search. Nothing here measures.

A proposer serves one problem. Before each race round the loop asks which configs enter the race; after it, it tells
every outcome. A search that learns from outcomes enters a few at a time; the grid enters everything at once.

Every proposer works over the legal configs that it is given, so the space is conditional by itself: no codec's
parameters without a codec, no segment where nothing is cut. What it asks next depends on what it was told alone, so
that a proposer that is rebuilt from the store goes on as if nothing had happened.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..measure import Outcome, Timing
from ..types import Config, Problem
from .forecasts import Forecasts, coarse_first
from .knowledge import Knowledge
from .ratios import USUAL_NOISE, Ratio, ratios_to

_MANY = 25  # configs
_SHARE = 8  # of these, one may enter where there are very many


class Proposer(Protocol):
    """Chooses among the legal configs of one problem. It holds no truth: it is rebuilt from the store's outcomes."""

    def ask(self) -> tuple[Config, ...]:
        """Configs that enter the race now; those that are in it already are ignored. Empty: nothing new for now.

        When nothing new comes and the race is over, the problem is done.
        """
        ...

    def hopes(self, running: Sequence[Config]) -> tuple[Config, ...] | None:
        """Who of those that still run may yet be worth choosing, first the one that would be chosen now.

        None where the search has no opinion, and the race alone decides.
        """
        ...

    def worth(self, of: Sequence[Config] | None) -> float | None:
        """The share of the default's time that the best of these configs, or of all, is expected to save.

        None where the search has no opinion, and cells come in the order of the plan.
        """
        ...

    def tell(self, number: int, config: Config, outcome: Outcome) -> None:
        """An outcome of the race round with this number, in the order of rounds.

        Those of an interrupted run are told before the first ask, failures among them last, as of round -1.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a proposer works on: one problem, its legal configs, and what may be known of it.

    Args:
        candidates: the legal configs, the default's and the neighbours' included.
        own: that enter in any case: the default, and what won next door.
        entrants: the most configs that may enter, or an eighth where that is more; None for all.
        few_entrants: the most where there are fewer than 25 configs.
    """

    problem: Problem
    candidates: tuple[Config, ...]
    own: tuple[Config, ...]
    entrants: int | None
    few_entrants: int | None
    knowledge: Knowledge
    seed: int

    @property
    def places(self) -> int:
        """How many may enter, those that do so in any case included."""
        every = len(self.candidates)
        most = self.entrants if self.has_many else self.few_entrants
        return every if most is None else min(every, max(most, every // _SHARE, len(self.own)))

    @property
    def has_many(self) -> bool:
        """Whether there are so many configs that trying each once would cost more than deciding."""
        return len(self.candidates) >= _MANY


ProposerFor = Callable[[Scope], Proposer]
"""Makes the proposer of a problem."""


@dataclass(slots=True)
class Told:
    """The outcomes so far: log times by config and round."""

    times: dict[Config, dict[int, float]] = field(default_factory=dict)
    failed: set[Config] = field(default_factory=set)

    def add(self, number: int, config: Config, outcome: Outcome) -> None:
        if isinstance(outcome, Timing):
            self.times.setdefault(config, {})[number] = math.log(outcome.time_us)
        else:
            self.failed.add(config)

    @property
    def entered(self) -> set[Config]:
        return self.failed | self.times.keys()

    def over(self, base: Config, usual_noise: float = USUAL_NOISE) -> dict[Config, Ratio]:
        """The log of every config's time over the base's; empty where the base has none."""
        return ratios_to(self.times, base, usual_noise=usual_noise)


class ListProposer:
    """A list that is fixed before anything is measured, all at once."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self._waiting = tuple(configs)

    def ask(self) -> tuple[Config, ...]:
        entering, self._waiting = self._waiting, ()
        return entering

    def hopes(self, running: Sequence[Config]) -> None:
        return None

    def worth(self, of: Sequence[Config] | None) -> None:
        return None

    def tell(self, number: int, config: Config, outcome: Outcome) -> None:
        return


def grid(scope: Scope) -> Proposer:
    """Every candidate."""
    return ListProposer(scope.candidates)


def random_search(scope: Scope) -> Proposer:
    """What enters in any case, and others by lot (Bergstra and Bengio, JMLR 13, 2012)."""
    luck = random.Random(f"{scope.seed} {scope.problem}")
    others = [config for config in scope.candidates if config not in scope.own]
    luck.shuffle(others)
    return ListProposer((*scope.own, *others)[: scope.places])


def coarse_grid(scope: Scope) -> Proposer:
    """What people sweep by hand: every algorithm without further knobs, with the middle one of its segments."""
    plain: dict[str, list[Config]] = {}
    for config in scope.candidates:
        if not config.knobs and config.codec == "none":
            plain.setdefault(config.algorithm, []).append(config)
    middle = [sorted(configs, key=lambda c: c.segment_bytes or 0)[len(configs) // 2] for configs in plain.values()]
    return ListProposer(tuple(dict.fromkeys((*scope.own, *middle)))[: scope.places])


class ModelProposer:
    """The cost model first, then the race: what is forecast to be fast enters, and forecasts follow what is measured.

    A config enters while its forecast leaves it an expected improvement over the leader (Mockus 1978; Jones, Schonlau
    and Welch, Journal of Global Optimization 13, 1998) of at least `WORTH`: what it may save, times how likely that is.
    Those that enter in one round are chosen together, so that they are not all off by the same. Who leads is a
    forecast, too, so that one lucky sample does not keep others out. With them enters an algorithm that was not tried
    with these ranks yet.
    """

    FIRST, FURTHER = 3, 2
    WORTH, WORTH_OF_MANY = 0.015, 0.04  # of the leader's time, by whoever enters, and where there are many
    HOLD = 0.02  # the same, by whoever stays
    CHOICE = 0.01  # of the default's, by whoever takes its place

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._told = Told()

    def ask(self) -> tuple[Config, ...]:
        scope, entered = self._scope, self._told.entered
        left = scope.places - len(entered)
        waiting = [config for config in scope.candidates if config not in entered]
        if left < 1 or not waiting:
            return ()
        own = [config for config in scope.own if config in waiting]
        others = [config for config in waiting if config not in own]
        measured = self._measured()
        known = dict.fromkeys((scope.own[0], *measured, *waiting))
        forecasts = scope.knowledge.forecasts(scope.problem, tuple(known), measured)
        if entered and not measured:  # the default failed, so nothing compares: go on down the list
            return tuple(_fastest(others, forecasts)[: self.FURTHER])
        best = forecasts.best_of(measured or [scope.own[0]])
        if entered:
            first, count, untried = [], self.FURTHER, self._untried(others, forecasts)
        else:
            first, untried = _fastest(others, forecasts)[:1], []
            count = min(self.FIRST, left - len(own)) - len(first)
        given = [config for config in (*own, *first) if config != best]
        added = forecasts.together(others, count, over=best, given=given)
        worth = self.WORTH_OF_MANY if scope.has_many else self.WORTH
        hopeful = [config for config, share in added if share >= worth]
        return tuple(dict.fromkeys((*own, *first, *hopeful, *untried)))[:left]

    def hopes(self, running: Sequence[Config]) -> tuple[Config, ...] | None:
        measured = self._measured()
        known = [config for config in running if config in measured]
        if not known:
            return None
        default = self._scope.own[0]
        forecasts = self._scope.knowledge.forecasts(self._scope.problem, list(measured), measured)
        best = forecasts.best_of(known)
        if default in known and forecasts.improvement(best, default) < self.CHOICE:
            best = default
        return (best, *(c for c in known if c != best and forecasts.improvement(c, best) >= self.HOLD))

    def worth(self, of: Sequence[Config] | None) -> float:
        default, measured = self._scope.own[0], self._measured()
        lost = {default, *self._told.failed}
        others = [config for config in (self._scope.candidates if of is None else of) if config not in lost]
        known = tuple(dict.fromkeys((default, *measured, *others)))
        forecasts = self._scope.knowledge.forecasts(self._scope.problem, known, measured)
        return -math.expm1(-max((forecasts.improvement(config, default) for config in others), default=0.0))

    def tell(self, number: int, config: Config, outcome: Outcome) -> None:
        self._told.add(number, config, outcome)

    def _measured(self) -> dict[Config, Ratio]:
        return self._told.over(self._scope.own[0], self._scope.knowledge.noise(self._scope.problem))

    def _untried(self, others: Sequence[Config], forecasts: Forecasts) -> list[Config]:
        """The best of an algorithm that nobody has measured with these ranks: a model may be wrong about all of it."""
        tried = self._scope.knowledge.algorithms_tried(self._scope.problem)
        tried |= {config.tuned_algorithm for config in self._told.entered}
        return _fastest([config for config in others if config.tuned_algorithm not in tried], forecasts)[:1]


def _fastest(configs: Sequence[Config], forecasts: Forecasts) -> list[Config]:
    """By their forecasts, the fastest first."""
    return sorted(configs, key=lambda config: (forecasts[config].mean, coarse_first(config)))
