"""Pairs to measure: every class of distance, on CPUs that may be used, the same each time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from autotune.topology.cluster import build
from autotune.topology.graph import Topology
from autotune.topology.pairs import representative_pairs, seat_pairs
from autotune.topology.probes.linux import parse
from autotune.topology.recordings import Found, RecordedHost, load

Recorded = Callable[[str], dict[str, str]]
MACHINES = Path(__file__).parents[1] / "golden" / "machines"


def numbers(topology: Topology) -> list[tuple[int, int, str]]:
    return [(pair.a.number, pair.b.number, str(pair.distance)) for pair in representative_pairs(topology)]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ("virtual-machine", [(0, 1, "same L3")]),
        ("container-cpuset-quota", [(4, 5, "same L3")]),
        (
            "two-sockets-smt-roce",
            [
                (0, 16, "same core"),
                (15, 31, "same core"),
                (0, 2, "same L3"),
                (13, 15, "same L3"),
                (0, 1, "other socket, NUMA distance 20"),
                (14, 15, "other socket, NUMA distance 20"),
            ],
        ),
        (
            "hybrid-cores",
            [
                (0, 1, "same core"),
                (2, 3, "same core"),
                (4, 5, "same L2"),
                (6, 7, "same L2"),
                (0, 2, "same L3"),
                (2, 7, "same L3"),
            ],
        ),
    ],
)
def test_near_to_far(recorded: Recorded, machine: str, expected: list[tuple[int, int, str]]) -> None:
    assert numbers(parse(recorded(machine))) == expected


@pytest.mark.parametrize(
    "machine", ["kunpeng-4-numa", "overlapping-numa", "two-sockets-smt-roce", "board-without-numa"]
)
def test_every_class_is_there(recorded: Recorded, machine: str) -> None:
    topology = parse(recorded(machine))
    classes = {str(topology.distance(a, b)) for a, b in combinations(topology.allowed_cpus, 2)}
    assert {words for _, _, words in numbers(topology)} == classes


def test_one_cpu_has_no_pair(recorded: Recorded) -> None:
    recording = recorded("virtual-machine") | {"/proc/self/status": "Cpus_allowed_list:\t1"}
    assert representative_pairs(parse(recording)) == []


def test_threads_of_one_core_are_a_pair_where_only_they_may_be_used(recorded: Recorded) -> None:
    recording = recorded("two-sockets-smt-roce") | {"/proc/self/status": "Cpus_allowed_list:\t3,19"}
    assert numbers(parse(recording)) == [(3, 19, "same core")]


def test_seats_of_a_super_pod_show_every_class_of_link_and_every_host_with_the_next() -> None:
    topology = build(load([MACHINES / "cluster-a3-super-pod" / "recording"]))
    seats = topology.rank_devices()
    assert [(pair.words, pair.a, pair.b) for pair in seat_pairs(topology, seats)] == [
        ("same host, sio", 0, 1),
        ("same host, sio", 2, 3),
        ("same host, hccs_sw", 0, 2),
        ("same host, hccs_sw", 1, 3),
        ("other host, hccs_sw hccs_sw", 0, 4),
        ("other host, hccs_sw hccs_sw", 8, 12),
        ("other host, hccs_sw hccs_sw", 8, 15),
        ("same host, hccs_sw hccs_sw", 4, 5),
        ("same host, hccs_sw hccs_sw", 14, 15),
        ("other host, rdma rdma", 4, 8),
        ("other host, rdma rdma", 0, 12),
        ("other host, rdma rdma", 0, 15),
    ]


def test_cpus_of_two_hosts_are_near_first(recorded: Recorded) -> None:
    found = Found(hosts=tuple(RecordedHost(name=name, recording=recorded("virtual-machine")) for name in "ab"))
    topology = build(found)
    pairs = seat_pairs(topology, topology.rank_devices())
    assert [(pair.words, pair.a, pair.b) for pair in pairs] == [
        ("same L3", 0, 1),
        ("same L3", 2, 3),
        ("other host, way unknown", 0, 2),
        ("other host, way unknown", 0, 3),
    ]


def test_one_seat_has_no_pair(recorded: Recorded) -> None:
    topology = parse(recorded("virtual-machine"))
    assert seat_pairs(topology, topology.rank_devices()[:1]) == []
