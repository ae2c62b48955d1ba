"""Orders: the best of all where all can be tried, the same for every listing, and what each kind of machine needs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.topology.accelerators import Gpu, Npu
from autotune.topology.devices import Cpu, Device, Host
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, Provenance, SharedResource
from autotune.topology.machines import description, machine, machine_names
from autotune.topology.orders import groups, ring_order, tree_order
from autotune.topology.probes.linux import parse

Recorded = Callable[[str], dict[str, str]]
AS_GOOD = 0.9
KINDS = {LinkKind.SIO: 0, LinkKind.HCCS: 1, LinkKind.HCCS_SW: 2}  # near to far


def link(src: str, dst: str, kind: LinkKind, gb_per_s: float | None) -> Link:
    return Link(src=src, dst=dst, kind=kind, latency_us=1.0, bandwidth_gb_per_s=gb_per_s, source=Provenance.USER)


@st.composite
def meshes(draw: st.DrawFn, least: int = 2, most: int = 7) -> Topology:
    """Dies with a link of any kind and speed between all, each way its own, and limits that some of them share."""
    ids = [f"h/npu{number}" for number in range(draw(st.integers(least, most)))]
    speeds = st.sampled_from((1.0, 2.0, 2.1, 4.0, 8.0))
    links = [link(a, b, draw(st.sampled_from(tuple(KINDS))), draw(speeds)) for a in ids for b in ids if a != b]
    shared = [
        SharedResource(
            name=f"limit {index}",
            senders=tuple(draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))),
            receivers=tuple(draw(st.lists(st.sampled_from(ids), min_size=1, unique=True))),
            bandwidth_gb_per_s=draw(speeds),
            source=Provenance.USER,
        )
        for index in range(draw(st.integers(0, 3)))
    ]
    dies = [Npu(id=name, parent="h", number=number) for number, name in enumerate(ids)]
    return Topology(
        devices=(Host(id="h", parent=None), *dies),
        links={(each.src, each.dst): each for each in links},
        shared=tuple(shared),
    )


def judged(topology: Topology, ring: Sequence[Device]) -> tuple[float, list[int]]:
    """Bottleneck in GB/s when all send at once, and how far the steps are, written without what is tested."""
    steps = [(a.id, b.id) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)]
    rates = []
    for resource in topology.constraints():
        users = [step for step in steps if step[0] in resource.senders and step[1] in resource.receivers]
        rates += [resource.bandwidth_gb_per_s / len(users)] if users else []
    far = sorted((KINDS[topology.links[step].kind] for step in steps), reverse=True)
    return min(rates), far


@settings(max_examples=40, deadline=None)
@given(topology=meshes())
def test_no_ring_is_better(topology: Topology) -> None:
    devices = topology.rank_devices()
    all_rings = [judged(topology, [devices[0], *others]) for others in permutations(devices[1:])]
    fastest = max(rate for rate, _ in all_rings)
    nearest = min(far for rate, far in all_rings if rate >= AS_GOOD * fastest)
    rate, far = judged(topology, [devices[index] for index in ring_order(topology, devices)])
    assert rate >= AS_GOOD * fastest
    assert far == nearest


@settings(max_examples=15, deadline=None)
@given(topology=meshes(least=2, most=11), seed=st.integers(0, 99))
def test_does_not_depend_on_how_devices_are_listed(topology: Topology, seed: int) -> None:
    devices = list(topology.rank_devices())
    mixed = list(devices)
    random.Random(seed).shuffle(mixed)
    relisted = replace(
        topology,
        links=dict(reversed(topology.links.items())),
        shared=topology.shared[::-1],
        devices=(topology.devices[0], *mixed),
    )
    for order in (ring_order, tree_order):
        assert [devices[index] for index in order(topology, devices)] == [
            mixed[index] for index in order(relisted, mixed)
        ]
    members = [{devices[index].id for index in group} for group in groups(topology, devices)]
    assert members == [{mixed[index].id for index in group} for group in groups(relisted, mixed)]


@settings(max_examples=15, deadline=None)
@given(topology=meshes(least=9, most=12))
def test_larger_rings_are_no_worse_than_the_numbers(topology: Topology) -> None:
    devices = topology.rank_devices()
    order = ring_order(topology, devices)
    assert sorted(order) == list(range(len(devices)))
    rate, _ = judged(topology, [devices[index] for index in order])
    assert rate >= AS_GOOD * judged(topology, devices)[0]


@pytest.mark.parametrize("n_hosts", [1, 3])
@pytest.mark.parametrize("name", [name for name in machine_names() if description(name).network is not None])
def test_every_machine_has_orders_that_are_permutations(name: str, n_hosts: int) -> None:
    topology = machine(name, n_hosts=n_hosts)
    devices = topology.rank_devices()
    everyone = list(range(len(devices)))
    assert sorted(ring_order(topology, devices)) == everyone
    assert sorted(tree_order(topology, devices)) == everyone
    assert sorted(index for group in groups(topology, devices) for index in group) == everyone


def crossings(order: Sequence[int], place: Callable[[int], object]) -> int:
    return sum(place(a) != place(b) for a, b in zip(order, [*order[1:], order[0]], strict=True))


def shuffled(topology: Topology, seed: int = 1) -> list[Device]:
    devices = list(topology.rank_devices())
    random.Random(seed).shuffle(devices)
    return devices


def test_the_quads_of_910a_are_left_once() -> None:
    topology = machine("atlas-800-910a")
    devices = shuffled(topology)
    order = ring_order(topology, devices)
    assert crossings(order, lambda index: devices[index].number // 4) == 2
    assert [{devices[index].number for index in group} for group in groups(topology, devices)] == [
        {0, 1, 2, 3},
        {4, 5, 6, 7},
    ]


def test_the_modules_of_a3_stay_together() -> None:
    topology = machine("atlas-800t-a3")
    devices = shuffled(topology)
    for order in (ring_order(topology, devices), tree_order(topology, devices)):
        assert crossings(order, lambda index: devices[index].number // 2) == 8
    assert {frozenset(devices[index].number for index in group) for group in groups(topology, devices)} == {
        frozenset((first, first + 1)) for first in range(0, 16, 2)
    }


def test_a_slow_link_in_a_mesh_is_not_used() -> None:
    topology = machine("atlas-800t-a2")
    slow = [
        replace(topology.links[ends], bandwidth_gb_per_s=2.0)
        for ends in (("host0/npu2", "host0/npu3"), ("host0/npu3", "host0/npu2"))
    ]
    devices = topology.rank_devices()
    order = ring_order(topology.with_links(slow), devices)
    steps = {frozenset(step) for step in zip(order, (*order[1:], *order[:1]), strict=True)}
    assert frozenset((2, 3)) not in steps
    assert ring_order(topology, devices) == tuple(range(8))


def test_without_figures_more_bonded_links_are_preferred() -> None:
    """The cube of eight V100: each GPU has two neighbours over two NVLinks, two over one, and PCIe to three."""
    double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
    single = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]
    bonds = {frozenset(pair): 2 for pair in double} | {frozenset(pair): 1 for pair in single}
    links = [
        replace(link(f"h/gpu{a}", f"h/gpu{b}", LinkKind.NVLINK, None), n_bonded=bonds[frozenset((a, b))])
        for a in range(8)
        for b in range(8)
        if frozenset((a, b)) in bonds
    ]
    gpus = [Gpu(id=f"h/gpu{number}", parent="h", number=number) for number in range(8)]
    topology = Topology(devices=(Host(id="h", parent=None), *gpus), links={(x.src, x.dst): x for x in links})
    order = ring_order(topology, gpus)
    used = [bonds.get(frozenset(step), 0) for step in zip(order, (*order[1:], *order[:1]), strict=True)]
    assert used == [2] * 8


def test_hosts_are_left_once_although_their_interfaces_are_a_little_faster() -> None:
    """RoCE of an A2 host is told 20 GB/s, a HCCS link 18.3: no reason to leave the host at every step."""
    topology = machine("atlas-800t-a2", n_hosts=4)
    devices = shuffled(topology)
    order = ring_order(topology, devices)
    assert crossings(order, lambda index: topology.host_of(devices[index].id)) == 4
    assert {len(group) for group in groups(topology, devices)} == {8}


def test_hosts_under_one_leaf_stay_together() -> None:
    topology = machine("dgx-h100", n_hosts=8)
    devices = shuffled(topology)

    def leaf(index: int) -> int:
        return int(topology.host_of(devices[index].id).id.removeprefix("host")) // 4

    for order in (ring_order(topology, devices), tree_order(topology, devices)):
        assert crossings(order, leaf) == 2
        assert crossings(order, lambda index: topology.host_of(devices[index].id)) == 8


@pytest.mark.parametrize("known", [False, True])
def test_numa_nodes_with_interleaved_cpus_are_left_once(recorded: Recorded, known: bool) -> None:
    """CPUs 0, 2, 4 ... are of one socket and 1, 3, 5 ... of the other."""
    topology = parse(recorded("two-sockets-smt-roce"))
    if known:
        figures = [
            ("host0/cpu0", "host0/cpu2", 8.0),
            ("host0/cpu0", "host0/cpu16", 9.0),
            ("host0/cpu0", "host0/cpu1", 4.0),
        ]
        topology = topology.with_links([link(src, dst, LinkKind.SHM, speed) for src, dst, speed in figures])
    for devices in (topology.pinning_order[:8], topology.pinning_order):
        order = ring_order(topology, devices)
        assert crossings(order, lambda index, devices=devices: devices[index].number % 2) == 2
        assert [{devices[index].number % 2 for index in group} for group in groups(topology, devices)] == [{0}, {1}]


def test_tree_halves_are_sockets(recorded: Recorded) -> None:
    topology = parse(recorded("kunpeng-4-numa"))
    cpus = topology.pinning_order
    order = tree_order(topology, cpus)
    assert [cpus[index].number // 4 for index in order] == [node for node in range(4) for _ in range(4)]


def test_two_ranks_may_sit_on_one_device(recorded: Recorded) -> None:
    topology = parse(recorded("virtual-machine"))
    cpus: list[Cpu] = [*topology.pinning_order, *topology.pinning_order]
    order = ring_order(topology, cpus)
    assert sorted(order) == list(range(len(cpus)))
    assert crossings(order, lambda index: cpus[index].id) == len(topology.pinning_order)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_devices(n: int) -> None:
    topology = machine("atlas-800t-a2")
    devices = topology.rank_devices()[:n]
    assert ring_order(topology, devices) == tree_order(topology, devices) == tuple(range(n))
    assert groups(topology, devices) == ((tuple(range(n)),) if n else ())
