"""Parameters from measured times: those with which a model's prices come nearest to the trials.

In:  a model, problems with configs and measured times. Out: the model with other parameters. May not touch: clocks,
stores.

Prices are linear in the parameters as long as the critical path stays the same, so that a fit is a few rounds of: find
the critical paths with the present values; solve a non-negative least-squares problem (Lawson and Hanson 1974). The
error is that of the logarithm, so that twice as slow and twice as fast count alike; far-off trials count less. Values
that the trials say nothing of stay where they were.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..types import Config, Problem, SampleKind, Trial, TrialState
from .fabric import FloatArray
from .host import HostModel
from .network import NetworkModel
from .parameters import HostParameters, NetworkParameters
from .price import CostModel

_ROUNDS = 5
_SOLVES = 4
_OUTLIER = 0.05  # logarithm of the error below which a trial counts in full
_LEAST = 0.01  # of the former values: what few trials do not need still costs something, and no call takes no time
_PRIOR = 0.01  # weight of the former values: that of a hundredth of a trial each


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A config's measured time."""

    problem: Problem
    config: Config
    time_us: float


def timed(trials: Iterable[Trial]) -> list[Timed]:
    """The median of each sound trial's fresh samples."""
    found = []
    for trial in trials:
        times_us = [s.time_us for s in trial.samples if s.kind is SampleKind.FRESH]
        if trial.state is TrialState.OK and times_us:
            found.append(Timed(problem=trial.problem, config=trial.config, time_us=statistics.median(times_us)))
    return found


def fit_host(model: HostModel, measured: Sequence[Timed]) -> HostModel:
    """The model of the same host with the parameters that its times say; they may be of several rank counts."""
    models = {n: replace(model, n_ranks=n) for n in {one.problem.key.n_ranks for one in measured}}
    values = _fitted([models[one.problem.key.n_ranks] for one in measured], measured, model.parameters.vector())
    return replace(model, parameters=HostParameters.of(values))


def fit_network(model: NetworkModel, measured: Sequence[Timed]) -> NetworkModel:
    """The model of the same fabric with the parameters that its times say."""
    values = _fitted([model] * len(measured), measured, model.parameters.vector())
    return replace(model, parameters=NetworkParameters.of(values))


def _fitted(models: Sequence[CostModel], measured: Sequence[Timed], start: FloatArray) -> FloatArray:
    if not measured:
        return start
    from scipy.optimize import nnls

    time_us = np.array([one.time_us for one in measured])
    of_problem = Counter(one.problem for one in measured)
    share = np.sqrt([1 / of_problem[one.problem] for one in measured])  # every problem counts alike
    # A value that was 0 has no former size to stay near.
    prior = np.divide(_PRIOR, start, out=np.zeros_like(start), where=start > 0)
    least = _LEAST * start
    values = start
    for _ in range(_ROUNDS):
        terms = np.array(
            [model.terms(one.problem, one.config, values) for model, one in zip(models, measured, strict=True)]
        )
        for _ in range(_SOLVES):
            price_us = np.maximum(terms @ values, 1e-3)
            weight = share / (_logarithmic_mean(price_us, time_us) * _severity(np.log(price_us / time_us)))
            system = np.vstack([terms * weight[:, None], np.diag(prior)])
            wanted = np.concatenate([time_us * weight, prior * start])
            above, _ = nnls(system, wanted - system @ least, maxiter=100 * len(start))
            values = least + above
    return values


def _logarithmic_mean(a: FloatArray, b: FloatArray) -> FloatArray:
    """(a - b) / (log a - log b): dividing a - b by it gives the logarithm of the ratio."""
    ratio = np.log(a / b)
    near = np.abs(ratio) < 1e-6
    return np.where(near, b, (a - b) / np.where(near, 1.0, ratio))


def _severity(error: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(np.abs(error), _OUTLIER))
