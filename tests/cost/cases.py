"""What the tests price: fabrics, random and small fat trees; problems; models."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np

from autotune.cost import Fabric, HostPattern, Network, NetworkModel, NetworkParameters, Tier
from autotune.types import Collective, DType, Layout, OpClass, Problem, RuleKey, round_up_message

PARAMETERS = NetworkParameters(message_us=0.3, turn_us=0.7, latency_share=1.1, wire_share=1.2, reduce_us_per_kb=0.01)


def fat_tree(
    n_hosts: int, *, per_host: int = 8, hosts_per_leaf: int = 2, oversubscription: float = 2.0, nics: int | None = None
) -> Fabric:
    """Hosts with a wire for every pair of ranks, NICs that neighbouring ranks share, leaves below one spine."""
    nics = per_host if nics is None else nics
    pairs = [(i, j) for i in range(per_host) for j in range(per_host)]
    wire = {pair: number for number, pair in enumerate(p for p in pairs if p[0] != p[1])}
    capacity = [20.0] * len(wire) + [25.0] * (2 * nics)
    crosses = np.array([[[wire.get((i, j), -1)] for j in range(per_host)] for i in range(per_host)], np.int32)
    nic = np.arange(per_host, dtype=np.int32)[:, None] * nics // per_host + len(wire)
    tier = Tier(hosts=hosts_per_leaf, uplink_gb_per_s=25.0 * nics * hosts_per_leaf / oversubscription, hop_us=1.0)
    network = Network(hosts=n_hosts, leaves=nic, enters=(nic + nics).astype(np.int32), latency_us=1.5, tiers=(tier,))
    pattern = HostPattern(
        capacity_gb_per_s=np.array(capacity),
        crosses=crosses,
        latency_us=np.where(crosses[:, :, 0] >= 0, 0.5, 0.0),
    )
    return Fabric(host=pattern, n_hosts=n_hosts, networks=(network,) if n_hosts > 1 else ())


@st.composite
def sharings(draw: st.DrawFn) -> tuple[list[float], list[list[int]], list[float]]:
    """(sizes of flows, resources that each crosses, capacities)."""
    n_resources = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 3.0, 7.5]), min_size=n_resources, max_size=n_resources))
    flows = draw(st.lists(st.lists(st.integers(0, n_resources - 1), max_size=3, unique=True), min_size=1, max_size=10))
    sizes = draw(st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=len(flows), max_size=len(flows)))
    return sizes, flows, capacity


def padded(flows: list[list[int]]) -> np.ndarray[tuple[int, int], np.dtype[np.int32]]:
    width = max([1, *map(len, flows)])
    return np.array([[*flow, *[-1] * (width - len(flow))] for flow in flows], np.int32)


def problem_of(collective: Collective, n: int, size: int) -> Problem:
    key = RuleKey(
        backend="native",
        collective=collective,
        dtype=DType.FLOAT32 if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n,
        placement=(n,),
    )
    return Problem(key=key, message_bytes=round_up_message(collective, size, n, 4))


def model_of(fabric: Fabric, parameters: NetworkParameters = PARAMETERS) -> NetworkModel:
    n, g = fabric.n_ranks, fabric.host.n_ranks
    groups = tuple(tuple(range(first, first + g)) for first in range(0, n, g)) if n > g else ()
    return NetworkModel(fabric=fabric, layout=Layout(order=tuple(range(n)), groups=groups), parameters=parameters)
