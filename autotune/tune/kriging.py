"""Forecasts from what was measured near: a Gaussian process over configs and cells. Pure; numpy, imported where used.

In:  log ratios to the default, measured in some cells, over what the cost model said. Out: what to expect of others.
May not touch: trials, prices.

What the model is off by for a config in a cell is f(config, cell); a measured ratio shows the difference of two of
these, the config's and the default's, and noise. f is taken for a Gaussian process (Krige 1951; Rasmussen and Williams,
Gaussian Processes for Machine Learning, 2006, chapter 2): a part that all configs of an algorithm share and a part of
the config's own, both of which drift with size and ranks, so that what was measured near counts and what was measured
far does not. A third part is that of the cut, and of the knobs, in all algorithms: what a segment costs besides its
bytes, or an outbox saves. But for that, and for the default's part, which is in every ratio, algorithms tell nothing of
each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from ..types import Config, Problem
from .ratios import Ratio

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[np.float64]


LEAST = 1e-6
"""Variance: so that equations have a solution, and a spread can be divided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """How f varies: standard deviations of logs, and the octaves over which a correlation falls to 1/e.

    Args:
        algorithm: of the part that an algorithm's configs share; `unpriced` where the cost model does not know them.
        config: of a config's own part, which falls off with the distance between segments, and with other knobs.
        cut: of the part that all algorithms share, by segment and knobs.
    """

    algorithm: float = 0.2
    unpriced: float = 0.6
    config: float = 0.12
    cut: float = 0.2
    size_octaves: float = 6.0
    ranks_octaves: float = 2.0
    segment_octaves: float = 3.0
    knobs: float = 0.5
    dtype: float = 0.8

    def scaled(self, factor: float) -> Kernel:
        """The same where everything is off by so much more."""
        return replace(
            self,
            algorithm=factor * self.algorithm,
            unpriced=factor * self.unpriced,
            config=factor * self.config,
            cut=factor * self.cut,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one cell has shown: residuals, which are log ratios less those of the model, and what they can be trusted.

    Args:
        trust: 1 for this run's; what other runs measured is correlated with this one by no more than that.
    """

    problem: Problem
    default: Config
    residuals: Mapping[Config, Ratio]
    trust: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The residuals that configs are expected to show over the default in a cell, and what these are uncertain by.

    Args:
        means: one for each config.
        covariance: of each with each.
    """

    means: Array
    covariance: Array


def expected(
    problem: Problem,
    default: Config,
    configs: Sequence[Config],
    cells: Sequence[Measured],
    unpriced: frozenset[Config],
    kernel: Kernel,
) -> Expected:
    """What to expect of configs in a cell, in their order.

    The noise of a cell's default is in all of its ratios: half of what two of them, measured equally often, vary by.

    Args:
        unpriced: configs that the cost model does not know.
    """
    import numpy as np

    wanted = _Points([(problem, config, 1.0) for config in configs], unpriced, kernel)
    base = _Points([(problem, default, 1.0)] * len(configs), unpriced, kernel)
    prior = _between(wanted, base, wanted, base)
    own = [
        (number, config, ratio)
        for number, cell in enumerate(cells)
        for config, ratio in cell.residuals.items()
        if config != cell.default
    ]
    if not own:
        return Expected(means=np.zeros(len(configs)), covariance=prior)
    seen = _Points([(cells[at].problem, config, cells[at].trust) for at, config, _ in own], unpriced, kernel)
    seen_base = _Points([(cells[at].problem, cells[at].default, cells[at].trust) for at, _, _ in own], unpriced, kernel)
    noise = np.array([ratio.variance for _, _, ratio in own])
    cell = np.array([at for at, _, _ in own])
    shared_noise = np.where(cell[:, None] == cell[None, :], np.minimum(noise[:, None], noise[None, :]) / 2, 0.0)
    np.fill_diagonal(shared_noise, noise + LEAST)
    shared = _between(wanted, base, seen, seen_base)
    among = _between(seen, seen_base, seen, seen_base) + shared_noise
    solved = np.linalg.solve(among, np.column_stack([[ratio.log for _, _, ratio in own], shared.T]))
    return Expected(means=shared @ solved[:, 0], covariance=prior - shared @ solved[:, 1:])


def _between(one: _Points, one_base: _Points, other: _Points, other_base: _Points) -> Array:
    """Covariances of the differences to the defaults."""
    return (
        one.covariance(other)
        - one.covariance(other_base)
        - one_base.covariance(other)
        + one_base.covariance(other_base)
    )


class _Points:
    """Configs in cells, as arrays."""

    def __init__(
        self, points: Sequence[tuple[Problem, Config, float]], unpriced: frozenset[Config], kernel: Kernel
    ) -> None:
        import numpy as np

        self._kernel = kernel
        self._algorithm = np.array([config.tuned_algorithm for _, config, _ in points])
        self._variant = np.array([f"{config.codec} {config.knobs}" for _, config, _ in points])
        self._segment = np.array([math.log2(config.segment_bytes or 1) for _, config, _ in points])
        self._size = np.array([math.log2(max(1, problem.message_bytes)) for problem, _, _ in points])
        self._ranks = np.array([math.log2(problem.key.n_ranks) for problem, _, _ in points])
        self._dtype = np.array([str(problem.key.dtype) for problem, _, _ in points])
        self._trust = np.array([trust for _, _, trust in points])
        self._spread = np.array(
            [kernel.unpriced if config in unpriced else kernel.algorithm for _, config, _ in points]
        )

    def covariance(self, other: _Points) -> Array:
        """Of each with each of the others."""
        import numpy as np

        kernel = self._kernel

        def apart(one: Array, two: Array, octaves: float) -> Array:
            return np.exp(-np.abs(one[:, None] - two[None, :]) / octaves)

        near = apart(self._size, other._size, kernel.size_octaves)
        near *= apart(self._ranks, other._ranks, kernel.ranks_octaves)
        near *= np.where(self._dtype[:, None] == other._dtype[None, :], 1.0, kernel.dtype)
        near *= np.minimum(self._trust[:, None], other._trust[None, :])
        alike = apart(self._segment, other._segment, kernel.segment_octaves)
        alike *= np.where(self._variant[:, None] == other._variant[None, :], 1.0, kernel.knobs)
        same = self._algorithm[:, None] == other._algorithm[None, :]
        shared = self._spread[:, None] * other._spread[None, :] + kernel.config**2 * alike
        return near * (np.where(same, shared, 0.0) + kernel.cut**2 * alike)
