"""Models of machines: the compact form prices as the whole graph does, and CPU hosts get the other model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cost.cases import problem_of

from autotune.cost import HostModel, HostParameters, NetworkModel, machine_model, model_of
from autotune.errors import UsageError
from autotune.topology.devices import Cache, Core, Cpu, Device, Host
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, Provenance
from autotune.topology.machines import description, machine, machine_names
from autotune.types import Collective, Config, Layout

STAGING = 8 << 20
ACCELERATORS = [name for name in machine_names() if description(name).host.accelerators()]
JOINED = [name for name in machine_names() if description(name).network is not None]


def prices(model: NetworkModel) -> dict[str, float]:
    found = {}
    for size in (1 << 10, 4 << 20):
        problem = problem_of(Collective.ALL_REDUCE, model.n_ranks, size)
        for name in model.algorithms(Collective.ALL_REDUCE):
            price = model.price(problem, Config(algorithm=name, segment_bytes=64 << 10))
            found[f"{name} {size}"] = price.time_us
    return found


@pytest.mark.parametrize("n_hosts", [2, 3])
@pytest.mark.parametrize("name", JOINED)
def test_the_compact_form_prices_as_the_whole_graph(name: str, n_hosts: int) -> None:
    compact = machine_model(description(name), n_hosts)
    whole = model_of(machine(name, n_hosts=n_hosts), staging_bytes=STAGING)
    assert isinstance(whole, NetworkModel)
    assert compact.n_ranks == whole.n_ranks
    same_order = replace(whole, layout=compact.layout)
    assert prices(same_order) == pytest.approx(prices(compact))


def test_more_hosts_than_a_leaf_has_share_its_uplinks() -> None:
    """One more exchange, of every rank with one below another leaf, at half the bandwidth."""
    inside, across = (machine_model(description("atlas-800t-a2"), n_hosts) for n_hosts in (32, 64))
    (network,) = across.fabric.networks
    (tier,) = network.tiers
    assert (tier.hosts, tier.uplink_gb_per_s, tier.hop_us) == (32, 32 * 8 * 20.0 / 2, 1.0)
    config = Config(algorithm="recursive_doubling", segment_bytes=1 << 30)
    times = [m.price(problem_of(Collective.ALL_REDUCE, m.n_ranks, 64 << 20), config) for m in (inside, across)]
    step_us, summing_us = (64 << 20) / 20e3, (64 << 20) / 483e3
    assert times[1].fill_us - times[0].fill_us == pytest.approx(2 * step_us + summing_us, rel=1e-3)


def test_a_super_pod_uses_its_plane_before_the_network() -> None:
    model = machine_model(description("atlas-900-a3-superpod"), 48)
    plane, network = model.fabric.networks
    assert (plane.hosts, network.hosts) == (24, 48)
    src, near, far = (np.array([rank], np.int32) for rank in (0, 16 * 23, 16 * 24))
    assert model.fabric.routes(src, near).latency_us.tolist() == [5.5]
    assert model.fabric.routes(src, far).latency_us.tolist() == [1.5]  # another pod, the same leaf
    capacity = np.append(model.fabric.capacities(), np.inf)
    assert [capacity[model.fabric.routes(src, dst).resources].min() for dst in (near, far)] == [196.0, 20.0]


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_machine_is_priced_with_its_own_orders(name: str) -> None:
    model = machine_model(description(name), 1)
    assert model.layout.order[0] == 0
    assert sorted(model.layout.order) == list(range(model.n_ranks))
    assert all(time_us > 0 for time_us in prices(model).values())


def test_groups_follow_the_machine() -> None:
    quads = machine_model(description("atlas-800-910a"), 1).layout
    assert quads.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    hosts = machine_model(description("atlas-800t-a2"), 2).layout
    assert hosts.groups == (tuple(range(8)), tuple(range(8, 16)))


def test_ranks_fill_hosts_evenly() -> None:
    a2 = description("atlas-800t-a2")
    assert machine_model(a2, 4, 6).fabric.n_hosts == 1
    assert machine_model(a2, 4, 16).fabric.n_hosts == 2
    for n_ranks in (12, 40):
        with pytest.raises(UsageError, match=f"{n_ranks} ranks do not fill hosts of 8"):
            machine_model(a2, 4, n_ranks)


def test_hosts_that_nothing_joins_are_refused() -> None:
    with pytest.raises(UsageError, match="2 hosts"):
        machine_model(description("atlas-300i-duo"), 2)


def cpus(n: int, *links: Link, caches: tuple[tuple[int, int], ...] = ()) -> Topology:
    devices: list[Device] = [Host(id="h", parent=None)]
    devices += [Cache(id=f"h/l{level}", parent="h", level=level, size_bytes=size) for level, size in caches]
    devices += [Core(id=f"h/core{number}", parent="h") for number in range(n)]
    devices += [Cpu(id=f"h/cpu{i}", parent=f"h/core{i}", number=i, allowed=True) for i in range(n)]
    return Topology(devices=tuple(devices), links={(link.src, link.dst): link for link in links})


def shm(latency_us: float | None, gb_per_s: float | None) -> Link:
    return Link(
        src="h/cpu0",
        dst="h/cpu1",
        kind=LinkKind.SHM,
        latency_us=latency_us,
        bandwidth_gb_per_s=gb_per_s,
        source=Provenance.PROBE,
    )


def test_cpus_of_one_host_get_the_model_of_shared_memory() -> None:
    model = model_of(cpus(3, caches=((2, 1 << 21), (3, 1 << 25))), 8, staging_bytes=STAGING)
    assert model == HostModel(n_ranks=8, n_cores=3, l2_bytes=1 << 21, l3_bytes=1 << 25, staging_bytes=STAGING)


def test_measured_pairs_scale_the_constants() -> None:
    usual, slow = (model_of(cpus(2, *links), staging_bytes=STAGING) for links in ((), (shm(0.138, 2.25),)))
    assert isinstance(usual, HostModel)
    assert isinstance(slow, HostModel)
    assert usual.parameters == HostParameters()
    assert slow.parameters.message_us == pytest.approx(2 * usual.parameters.message_us)
    assert slow.parameters.read_memory == pytest.approx(4 * usual.parameters.read_memory)
    assert slow.parameters.switch_us == usual.parameters.switch_us


def test_a_placement_decides_on_which_hosts_ranks_are() -> None:
    two = machine("atlas-800t-a2", n_hosts=2)
    spread = model_of(two, 2, staging_bytes=STAGING, placement=(1, 1))
    packed = model_of(two, 2, staging_bytes=STAGING)
    assert isinstance(spread, NetworkModel)
    assert isinstance(packed, NetworkModel)
    assert [len(group) for group in spread.layout.groups] == [1, 1]
    assert packed.layout.groups == ()
    uneven = model_of(two, 5, staging_bytes=STAGING, placement=(2, 3))
    assert isinstance(uneven, NetworkModel)
    assert sorted(map(len, uneven.layout.groups)) == [2, 3]
    with pytest.raises(UsageError, match=r"placed as 1\+9, and the hosts have 8, 8 devices"):
        model_of(two, 10, staging_bytes=STAGING, placement=(1, 9))


def test_what_cannot_be_priced_says_why() -> None:
    two = machine("atlas-800t-a2", n_hosts=1)
    with pytest.raises(UsageError, match="9 ranks on a topology of 8 devices"):
        model_of(two, 9, staging_bytes=STAGING)
    unknown = replace(two, links={})
    with pytest.raises(UsageError, match="bandwidth between some of host0/npu0") as caught:
        model_of(unknown, staging_bytes=STAGING)
    assert "autotune probe" in caught.value.remedy
    with pytest.raises(UsageError, match="nothing that a rank could sit on"):
        model_of(Topology(devices=(Host(id="h", parent=None),)), staging_bytes=STAGING)


def test_the_same_description_gives_the_same_model() -> None:
    first, second = (machine_model(description("atlas-800t-a3"), 1) for _ in range(2))
    assert first.layout == second.layout == Layout(order=first.layout.order, groups=first.layout.groups)
    assert prices(first) == prices(second)
