"""The price of a collective on a fabric of links: latencies, shared bandwidth, reductions, slices behind each other.

In:  a fabric, a layout, parameters; problems and configs. Out: prices. May not touch: shared memory and caches (that is
``host.py``), files. numpy only.

One slice takes the sum of its steps; a step ends with its slowest flow. More slices follow in waves, of which every
rank keeps a few under way: each further slice costs as much as what limits them, be it the busiest link, the busiest
rank's work, or the spacing of the waves, of which none is shorter than a message.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..types import Collective, Config, Layout, Problem
from .cut import SLICES_IN_FLIGHT
from .fabric import Fabric, FloatArray
from .moves import legal_names, moves_of
from .parameters import NetworkParameters
from .price import Price, check_config
from .profile import Profile, profile


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecCost:
    """A codec: every message is encoded by its sender and decoded by its reader.

    Args:
        wire_share: bytes on the wire for a byte of the message.
        us_per_kb: to encode 1e3 bytes of the message, or to decode to so many.
    """

    wire_share: float
    us_per_kb: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkModel:
    """A ``CostModel`` of ranks that exchange messages over links.

    Args:
        layout: which rank plays which position, and the groups of hierarchical schedules.
        codecs: by name; ``"none"`` costs nothing.
    """

    fabric: Fabric
    layout: Layout
    parameters: NetworkParameters = field(default_factory=NetworkParameters)
    codecs: Mapping[str, CodecCost] = field(default_factory=dict)

    @property
    def n_ranks(self) -> int:
        return self.fabric.n_ranks

    def algorithms(self, collective: Collective) -> tuple[str, ...]:
        """The legal ones."""
        return legal_names(collective, self.n_ranks, self.layout)

    def slices(self, problem: Problem, config: Config) -> int:
        """Into how many slices the message is cut."""
        known = self._profile(problem.key.collective, config.algorithm)
        return _slices(known, _block_bytes(problem, known), config)

    def price(self, problem: Problem, config: Config) -> Price:
        """What one call takes.

        Raises:
            UsageError: the algorithm is not legal here, or the config asks for what nothing is known of.
        """
        values = self.parameters.vector()
        parts = self._parts(problem, config, values)
        return Price(
            fill_us=float(parts.fill @ values) + parts.fill_us,
            slice_us=float(parts.further @ values) + parts.further_us,
            slices=parts.slices,
        )

    def terms(self, problem: Problem, config: Config, values: FloatArray) -> FloatArray:
        """How often each parameter is paid on the critical path that is the critical one for these values."""
        parts = self._parts(problem, config, values)
        return parts.fill + (parts.slices - 1) * parts.further

    def _parts(self, problem: Problem, config: Config, values: FloatArray) -> _Parts:
        check_config(config, codecs=self.codecs)
        if problem.key.n_ranks != self.n_ranks:
            raise ValueError(f"a problem of {problem.key.n_ranks} ranks on a fabric of {self.n_ranks}")
        known = self._profile(problem.key.collective, config.algorithm)
        whole = _block_bytes(problem, known)
        slices = _slices(known, whole, config)
        if not known.n_steps:
            nothing = np.zeros(len(values))
            return _Parts(np.append(1.0, nothing[1:]), nothing, 0.0, 0.0, slices)
        return _priced(known, whole / slices, slices, self.codecs.get(config.codec, _NO_CODEC), values)

    def _profile(self, collective: Collective, algorithm: str) -> Profile:
        return _profiled(self.fabric, self.layout, collective, algorithm)


@dataclass(frozen=True, slots=True)
class _Parts:
    """How often parameters are paid for the first slice with its call, and for each further one; and what is fixed."""

    fill: FloatArray
    further: FloatArray
    fill_us: float
    further_us: float
    slices: int


_NAMES = NetworkParameters.names()
_NO_CODEC = CodecCost(wire_share=1.0, us_per_kb=0.0)


@functools.lru_cache(maxsize=256)
def _profiled(fabric: Fabric, layout: Layout, collective: Collective, algorithm: str) -> Profile:
    return profile(moves_of(collective, algorithm, fabric.n_ranks, layout), fabric)


def _block_bytes(problem: Problem, known: Profile) -> float:
    """Bytes of a block of the whole message."""
    buffers = problem.key.n_ranks if problem.key.collective is Collective.ALL_TO_ALL else 1
    return problem.message_bytes * buffers / known.blocks


def _slices(known: Profile, block_bytes: float, config: Config) -> int:
    if config.segment_bytes is None:
        return 1
    return max(1, math.ceil(known.most_blocks * block_bytes / config.segment_bytes - 1e-9))


def _priced(known: Profile, block_bytes: float, slices: int, codec: CodecCost, values: FloatArray) -> _Parts:
    parameters = NetworkParameters.of(values)
    wire_us = known.wire_us * block_bytes * codec.wire_share
    kilobytes = block_bytes / 1e3
    chosen = _slowest(known, known.latency_us * parameters.latency_share + wire_us * parameters.wire_share)
    times, turns = known.times, float(known.turns.sum())
    messages, latency_us = float(times @ known.messages), float(times @ known.latency_us[chosen])
    fill = _row(
        call_us=1.0,
        message_us=messages,
        turn_us=turns,
        latency_share=latency_us,
        wire_share=float(times @ wire_us[chosen]),
        reduce_us_per_kb=float(times @ known.reduced) * kilobytes,
    )
    coding_us = 2 * codec.us_per_kb * kilobytes
    # A wave is not shorter than its messages, and slices start so many waves after each other. A link rests while a
    # rank turns, since its other slices turn, too.
    levels = known.n_steps + 1
    waves = -(-levels // min(SLICES_IN_FLIGHT, levels)) / known.n_steps
    limits = np.array(
        [
            _row(wire_share=known.link_us * block_bytes * codec.wire_share, turn_us=turns),
            _row(message_us=known.rank_messages, reduce_us_per_kb=known.rank_reduced * kilobytes),
            _row(message_us=messages * waves, turn_us=turns * waves, latency_share=latency_us * waves),
        ]
    )
    constant_us = np.array([0.0, known.rank_carried * coding_us / 2, 0.0])
    worst = int(np.argmax(limits @ values + constant_us))
    fill_us = float(times @ known.carried) * coding_us
    return _Parts(fill, limits[worst], fill_us, float(constant_us[worst]), slices)


def _row(**counts: float) -> FloatArray:
    """How often each parameter is paid; those not named are not."""
    return np.array([counts.get(name, 0.0) for name in _NAMES])


def _slowest(known: Profile, ends: FloatArray) -> NDArray[np.intp]:
    """Of each step, the term that ends last; of equal ones the first."""
    last = np.maximum.reduceat(ends, known.first)
    of_step = np.repeat(np.arange(len(known.first)), np.diff(np.append(known.first, len(ends))))
    candidates = np.flatnonzero(ends == last[of_step])
    _, at = np.unique(of_step[candidates], return_index=True)
    return candidates[at]
