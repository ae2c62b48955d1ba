"""The cost model's prices for a search: of the probed topology, for the backend that measures.

In:  a topology, a backend's name. Out: a `Pricing`, None where the model knows nothing. May not touch: trials, clocks.

The price of a config leaves out its codec and knobs, which no model prices: they start as equals of the plain config,
and what is measured tells them apart.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from ..cost import CostModel, NetworkModel, NetworkParameters, crossbar, joined_model, model_of
from ..errors import UsageError
from ..topology.devices import Cpu
from ..topology.graph import Topology
from ..types import Config, Layout, Problem
from .knowledge import Pricing

_SOCKET_GB_PER_S, _SOCKET_LATENCY_US, _SOCKET_CALL_US = 2.0, 30.0, 20.0
"""Of torch's gloo between processes of one host, roughly; what is measured corrects it."""


def pricing_of(topology: Topology, backend: str, *, cluster: Topology | None = None, staging_bytes: int) -> Pricing:
    """Prices on this machine; all None where nothing tells the bandwidth between its devices.

    Args:
        cluster: this host among others, for ranks that several hosts hold.
    """

    @functools.lru_cache(maxsize=64)
    def model(placement: tuple[int, ...]) -> CostModel | None:
        place = cluster if len(placement) > 1 else topology
        if place is None:
            return None
        devices = place.rank_devices()
        on_cpus = bool(devices) and isinstance(devices[0], Cpu)
        try:
            if on_cpus and len(placement) > 1:
                return joined_model(place, placement)
            if on_cpus and backend != "native":
                return _over_sockets(placement[0])
            return model_of(place, sum(placement), staging_bytes=staging_bytes, placement=placement)
        except UsageError:
            return None

    @functools.lru_cache(maxsize=1 << 16)
    def price(problem: Problem, config: Config) -> float | None:
        found = model(problem.key.placement)
        if found is None or config.algorithm not in found.algorithms(problem.key.collective):
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


def _over_sockets(n_ranks: int) -> NetworkModel:
    return NetworkModel(
        fabric=crossbar(n_ranks, gb_per_s=_SOCKET_GB_PER_S, latency_us=_SOCKET_LATENCY_US),
        layout=Layout(order=tuple(range(n_ranks))),
        parameters=NetworkParameters(call_us=_SOCKET_CALL_US, message_us=0.1 * _SOCKET_LATENCY_US),
    )
