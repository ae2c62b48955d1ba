"""Optuna as a proposer: its samplers over the legal configs of one problem. The only optuna; imported where it is used.

In:  outcomes. Out: configs. May not touch: stores: a study lives in memory, for one ask, and is filled from what was
told, so that an interrupted search goes on as if it had not been.

TPE sees the space as it is, conditional: an algorithm, then the codecs and knobs that go with it, then the segments
that make a difference there; each choice is offered the legal words alone. The Gaussian process needs a fixed space: it
suggests an algorithm, a variant and a segment, and the nearest legal config that is not in the race yet is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import BackendUnavailable
from ..measure import Outcome
from ..types import Config
from .proposer import Proposer, Scope, Told

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

_STARTUP_TRIALS = (
    5  # that TPE spreads at random before it models: a tenth of what Optuna would take, as cells are small
)
_TRIES = 30  # to be suggested something new, before the next config in order is taken


class OptunaProposer:
    """A proposer that lets Optuna choose; two configs a round.

    Args:
        sampler: seed -> an Optuna sampler.
        seeded: begin with the best forecasts of the cost model, as `ModelProposer` does.
        fixed: use the space without conditions.
    """

    FIRST, FURTHER = 4, 2

    def __init__(self, scope: Scope, *, sampler: Callable[[int], BaseSampler], seeded: bool, fixed: bool) -> None:
        self._scope = scope
        self._sampler = sampler
        self._seeded = seeded
        self._space = FixedSpace(scope.candidates) if fixed else ConditionalSpace(scope.candidates)
        self._told = Told()

    def ask(self) -> tuple[Config, ...]:
        entered = self._told.entered
        left = self._scope.places - len(entered)
        if left < 1 or len(entered) >= len(self._scope.candidates):
            return ()
        if not entered:
            return self._first(left)
        return self._suggested(min(self.FURTHER, left))

    def hopes(self, running: Sequence[Config]) -> None:
        return None

    def worth(self, of: Sequence[Config] | None) -> None:
        return None

    def tell(self, number: int, config: Config, outcome: Outcome) -> None:
        self._told.add(number, config, outcome)

    def _first(self, left: int) -> tuple[Config, ...]:
        own = self._scope.own
        if not self._seeded:
            return own
        others = [config for config in self._scope.candidates if config not in own]
        forecasts = self._scope.knowledge.forecasts(self._scope.problem, others)
        others.sort(key=lambda config: (forecasts[config].mean, str(config)))
        return (*own, *others[: min(self.FIRST, left - len(own))])

    def _suggested(self, count: int) -> tuple[Config, ...]:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        losses = self._told.over(self._scope.own[0])
        seed = _number(f"{self._scope.seed} {self._scope.problem} {len(self._told.entered)}")
        study = optuna.create_study(sampler=self._sampler(seed))
        for config in sorted(losses, key=lambda config: (len(self._told.times[config]), str(config))):
            study.add_trial(self._space.done(config, losses[config].log))
        taken: list[Config] = []
        for _ in range(_TRIES * count):
            trial = study.ask(self._space.distributions)
            if (found := self._space.suggest(trial, {*self._told.entered, *taken})) is not None:
                taken.append(found)
            if len(taken) == count:
                return tuple(taken)
        fresh = [c for c in self._scope.candidates if c not in self._told.entered and c not in taken]
        return (*taken, *fresh[: count - len(taken)])


class ConditionalSpace:
    """algorithm -> variant (codec and knobs) -> segment, each offered the legal words that are left."""

    def __init__(self, candidates: Sequence[Config]) -> None:
        self._tree: dict[str, dict[str, dict[int, Config]]] = {}
        for config in candidates:
            of_algorithm = self._tree.setdefault(config.tuned_algorithm, {})
            of_algorithm.setdefault(_variant(config), {})[config.segment_bytes or 0] = config

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """What is suggested from the start: nothing, as all is conditional."""
        return {}

    def suggest(self, trial: Trial, without: set[Config]) -> Config | None:
        algorithm = str(trial.suggest_categorical("algorithm", sorted(self._tree)))
        variants = self._tree[algorithm]
        variant = str(trial.suggest_categorical(f"variant of {algorithm}", sorted(variants)))
        segments = variants[variant]
        chosen = trial.suggest_categorical(f"segment of {algorithm} {variant}", sorted(segments))
        config = segments[int(str(chosen))]
        return None if config in without else config

    def done(self, config: Config, loss: float) -> FrozenTrial:
        import optuna
        from optuna.distributions import CategoricalDistribution

        algorithm, variant = config.tuned_algorithm, _variant(config)
        segments = self._tree[algorithm][variant]
        space: dict[str, BaseDistribution] = {
            "algorithm": CategoricalDistribution(sorted(self._tree)),
            f"variant of {algorithm}": CategoricalDistribution(sorted(self._tree[algorithm])),
            f"segment of {algorithm} {variant}": CategoricalDistribution(sorted(segments)),
        }
        words = (algorithm, variant, config.segment_bytes or 0)
        return optuna.trial.create_trial(params=dict(zip(space, words, strict=True)), distributions=space, value=loss)


class FixedSpace:
    """algorithm, variant and the logarithm of the segment, whether they go together or not."""

    def __init__(self, candidates: Sequence[Config]) -> None:
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        self._candidates = tuple(candidates)
        segments = [_octave(config) for config in candidates]
        self.distributions: dict[str, BaseDistribution] = {
            "algorithm": CategoricalDistribution(sorted({config.tuned_algorithm for config in candidates})),
            "variant": CategoricalDistribution(sorted({_variant(config) for config in candidates})),
            "segment": FloatDistribution(min(segments), max(segments) + 1e-9),
        }

    def suggest(self, trial: Trial, without: set[Config]) -> Config | None:
        wanted = trial.params
        free = [config for config in self._candidates if config not in without]
        return min(free, key=lambda config: (self._apart(config, wanted), str(config)), default=None)

    def done(self, config: Config, loss: float) -> FrozenTrial:
        import optuna

        words = (config.tuned_algorithm, _variant(config), _octave(config))
        params = dict(zip(self.distributions, words, strict=True))
        return optuna.trial.create_trial(params=params, distributions=self.distributions, value=loss)

    @staticmethod
    def _apart(config: Config, wanted: dict[str, object]) -> tuple[bool, bool, float]:
        segment = wanted["segment"]
        assert isinstance(segment, float)
        return (
            config.tuned_algorithm != wanted["algorithm"],
            _variant(config) != wanted["variant"],
            abs(_octave(config) - segment),
        )


def tpe(scope: Scope) -> Proposer:
    """Tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), alone."""
    return OptunaProposer(scope, sampler=_tpe, seeded=False, fixed=False)


def seeded_tpe(scope: Scope) -> Proposer:
    """The same, after the best forecasts of the cost model."""
    return OptunaProposer(scope, sampler=_tpe, seeded=True, fixed=False)


def gp(scope: Scope) -> Proposer:
    """A Gaussian process with expected improvement, alone.

    Raises:
        BackendUnavailable: torch is not installed; Optuna's Gaussian process computes with it.
    """
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise BackendUnavailable(
            "Optuna's Gaussian process needs PyTorch, which is not installed", remedy="use --sampler tpe or model"
        )
    return OptunaProposer(scope, sampler=_gp, seeded=False, fixed=True)


def _tpe(seed: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=_STARTUP_TRIALS)


def _gp(seed: int) -> BaseSampler:
    import warnings

    from optuna.samplers import GPSampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is experimental, every time
        return GPSampler(seed=seed, n_startup_trials=_STARTUP_TRIALS, deterministic_objective=False)


def _variant(config: Config) -> str:
    return ",".join([config.codec, *(f"{name}={value}" for name, value in config.knobs)])


def _octave(config: Config) -> float:
    return math.log2(config.segment_bytes or 1)


def _number(text: str) -> int:
    """A seed that is the same in every process, unlike `hash`."""
    import zlib

    return zlib.crc32(text.encode())
