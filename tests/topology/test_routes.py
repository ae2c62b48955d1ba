"""The way of a message: the nearest, and never through what a rank sits on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.topology.graph import Topology
from autotune.topology.machines import machine
from autotune.topology.routes import Routes

CASES = [
    ("atlas-800t-a2", 1, "host0/npu0", "host0/npu5", "", 18.3, 0.5),
    ("atlas-800t-a2", 2, "host0/npu0", "host1/npu5", "host0/net-roce0 leaf0 host1/net-roce5", 20.0, 1.5),
    (
        "atlas-800t-a2",
        33,
        "host0/npu0",
        "host32/npu0",
        "host0/net-roce0 leaf0 spine leaf1 host32/net-roce0",
        20.0,
        2.5,
    ),
    ("atlas-900-a3-superpod", 2, "host0/npu0", "host1/npu0", "pod0/plane", 196.0, 5.5),
    ("atlas-900-a3-superpod", 25, "host0/npu0", "host24/npu0", "host0/net-roce0 leaf0 host24/net-roce0", 20.0, 1.5),
    ("dgx-h100", 2, "host0/gpu3", "host1/gpu3", "host0/rdma-mlx5_3-1 leaf0 host1/rdma-mlx5_3-1", 50.0, 4.7),
    (
        "two-socket-host",
        2,
        "host0/cpu9",
        "host1/cpu0",
        "host0/core9 host0/numa1 host0/socket1 host0 host0/socket0 host0/numa0 host0/net-eth0 leaf0 host1/net-eth0 "
        "host1/numa0 host1/core0",
        3.125,
        6.1,
    ),
]


@pytest.mark.parametrize(("name", "n_hosts", "src", "dst", "between", "gb_per_s", "latency_us"), CASES)
def test_goes_the_nearest_way(
    name: str, n_hosts: int, src: str, dst: str, between: str, gb_per_s: float, latency_us: float
) -> None:
    route = Routes(machine(name, n_hosts=n_hosts)).between(src, dst)
    assert route is not None
    assert route.devices == (src, *between.split(), dst)
    assert route.bandwidth_gb_per_s == gb_per_s
    assert route.latency_us == pytest.approx(latency_us)


def without(topology: Topology, *ends: str) -> Topology:
    return replace(topology, links={key: link for key, link in topology.links.items() if not set(ends) >= set(key)})


def test_does_not_go_through_another_accelerator() -> None:
    topology = without(machine("atlas-800t-a2"), "host0/npu0", "host0/npu1")
    route = Routes(topology).between("host0/npu0", "host0/npu1")
    assert route is not None
    assert route.devices == ("host0/npu0", "host0/numa6", "host0/npu1")
    assert route.links == ()
    assert route.bandwidth_gb_per_s is None
    assert route.latency_us is None


def test_says_where_there_is_no_way() -> None:
    topology = machine("atlas-800t-a2", n_hosts=2)
    apart = replace(topology, links={key: link for key, link in topology.links.items() if "leaf0" not in key})
    assert Routes(apart).between("host0/npu0", "host1/npu0") is None


def test_an_unknown_latency_leaves_the_whole_unknown() -> None:
    topology = machine("atlas-800t-a2", n_hosts=2)
    hop = topology.links["leaf0", "host1/net-roce5"]
    route = Routes(topology.with_links([replace(hop, latency_us=None)])).between("host0/npu0", "host1/npu5")
    assert route is not None
    assert route.latency_us is None
    assert route.bandwidth_gb_per_s == 20.0
