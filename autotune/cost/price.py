"""What a cost model promises: a config for a problem in, a price out.

In:  problems and configs. Out: ``Price`` values from a ``CostModel``. May not touch: how a model comes to its prices.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from ..errors import UsageError
from ..types import Collective, Config, Problem
from .fabric import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one call takes, in microseconds of its slowest rank.

    Args:
        fill_us: the first slice through all steps, with what a call costs in any case.
        slice_us: each further slice.
    """

    fill_us: float
    slice_us: float
    slices: int

    @property
    def time_us(self) -> float:
        return self.fill_us + (self.slices - 1) * self.slice_us


class CostModel(Protocol):
    """Prices the collectives of a fixed group of ranks. Pure: the same answer for the same question."""

    @property
    def n_ranks(self) -> int: ...

    def algorithms(self, collective: Collective) -> tuple[str, ...]:
        """The legal ones, in the order of the registry."""
        ...

    def slices(self, problem: Problem, config: Config) -> int:
        """Into how many slices the message is cut."""
        ...

    def price(self, problem: Problem, config: Config) -> Price:
        """What one call takes.

        Raises:
            UsageError: the algorithm is not legal here, or the config asks for what nothing is known of.
        """
        ...

    def terms(self, problem: Problem, config: Config, values: FloatArray) -> FloatArray:
        """How often each parameter is paid, on the path that is critical if the parameters have these values."""
        ...


def check_config(config: Config, codecs: Collection[str] = ()) -> None:
    """Refuse what no price is known for.

    Raises:
        UsageError: a knob, or a codec that is neither ``"none"`` nor one of these.
    """
    if config.codec != "none" and config.codec not in codecs:
        raise UsageError(
            f"config {config}: codec {config.codec!r} has no price", remedy=f"use one of {', '.join(['none', *codecs])}"
        )
    if config.knobs:
        raise UsageError(f"config {config}: knob {config.knobs[0][0]!r} has no price", remedy="leave the knobs out")
