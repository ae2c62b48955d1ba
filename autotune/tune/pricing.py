"""The cost model's prices for a search: of the probed topology, for the backend that measures.

In:  a topology, a backend's name. Out: a `Pricing`, None where the model knows nothing. May not touch: trials, clocks.

The price of a config leaves out its codec and knobs, which no model prices: they start as equals of the plain config,
and what is measured tells them apart. Algorithms for ranks that share cores have no price.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from ..cost import CostModel, NetworkModel, NetworkParameters, crossbar, joined_model, model_of
from ..cost.moves import moves_of
from ..cost.price import Price
from ..errors import UsageError
from ..topology.devices import Cpu
from ..topology.graph import Topology
from ..types import Collective, Config, Layout, Problem
from .knowledge import Pricing

_SOCKET_GB_PER_S, _SOCKET_LATENCY_US, _SOCKET_CALL_US = 2.0, 30.0, 300.0
_SOCKET_MESSAGE_US, _SOCKET_US_PER_KB = 500.0, 0.8
"""Of torch's gloo between processes of one host, roughly; what is measured corrects it. A message and its bytes keep a
core busy on both of its ends: its threads wake each other, and the kernel copies twice."""


def pricing_of(topology: Topology, backend: str, *, cluster: Topology | None = None, staging_bytes: int) -> Pricing:
    """Prices on this machine; all None where nothing tells the bandwidth between its devices.

    Args:
        cluster: this host among others, for ranks that several hosts hold.
    """

    @functools.lru_cache(maxsize=64)
    def model(placement: tuple[int, ...]) -> CostModel | _SharedCores | None:
        place = cluster if len(placement) > 1 else topology
        if place is None:
            return None
        devices = place.rank_devices()
        on_cpus = bool(devices) and isinstance(devices[0], Cpu)
        try:
            if on_cpus and len(placement) > 1:
                return joined_model(place, placement)
            if on_cpus and backend != "native":
                return _over_sockets(placement[0], max(1, len(place.allowed_cpus)))
            return model_of(place, sum(placement), staging_bytes=staging_bytes, placement=placement)
        except UsageError:
            return None

    @functools.lru_cache(maxsize=1 << 16)
    def price(problem: Problem, config: Config) -> float | None:
        placement = problem.key.placement
        found = model(placement)
        crowded = len(placement) == 1 and placement[0] > len(topology.allowed_cpus)
        algorithm = config.tuned_algorithm if crowded else config.algorithm
        if found is None or algorithm not in found.algorithms(problem.key.collective):
            return None
        try:
            return found.price(problem, _plain(problem, config)).time_us
        except UsageError:
            return None

    return price


def unpriced(problem: Problem, config: Config) -> float | None:
    """The pricing of a machine that no model knows."""
    return None


def _plain(problem: Problem, config: Config) -> Config:
    segment = config.segment_bytes or max(1, problem.message_bytes)
    return replace(config, codec="none", knobs=(), segment_bytes=segment)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedCores:
    """Ranks that exchange messages over sockets of one host: no call takes less than all of its work, on all cores."""

    network: NetworkModel
    n_cores: int

    def algorithms(self, collective: Collective) -> tuple[str, ...]:
        return self.network.algorithms(collective)

    def price(self, problem: Problem, config: Config) -> Price:
        """See `CostModel`."""
        alone_us = self.network.price(problem, config).time_us
        moves = moves_of(problem.key.collective, config.algorithm, problem.key.n_ranks, None)
        messages = sum(step.times * len(step.src) for step in moves.steps) * self.network.slices(problem, config)
        buffers = problem.key.n_ranks if problem.key.collective is Collective.ALL_TO_ALL else 1
        carried = sum(step.times * int(step.blocks.sum()) for step in moves.steps) * buffers / moves.blocks
        work_us = messages * _SOCKET_MESSAGE_US + carried * problem.message_bytes / 1e3 * _SOCKET_US_PER_KB
        shared_us = _SOCKET_CALL_US + work_us / min(self.n_cores, problem.key.n_ranks)
        return Price(fill_us=max(alone_us, shared_us), slice_us=0.0, slices=1)


def _over_sockets(n_ranks: int, n_cores: int) -> _SharedCores:
    network = NetworkModel(
        fabric=crossbar(n_ranks, gb_per_s=_SOCKET_GB_PER_S, latency_us=_SOCKET_LATENCY_US),
        layout=Layout(order=tuple(range(n_ranks))),
        parameters=NetworkParameters(call_us=_SOCKET_CALL_US, message_us=0.1 * _SOCKET_LATENCY_US),
    )
    return _SharedCores(network=network, n_cores=n_cores)
