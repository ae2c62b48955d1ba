"""The tree that sets of CPUs make, and what cannot stand in one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.topology.devices import Cache, Core, Cpu, Device, Host, NumaNode, Socket
from autotune.topology.graph import Topology
from autotune.topology.probes.nesting import Grouping, nest


def grouping(device: Device, *cpus: int) -> Grouping:
    return Grouping(device=device, cpus=frozenset(cpus))


def cache(level: int, *cpus: int) -> Grouping:
    return grouping(Cache(id=f"l{level}-{cpus}", parent="h", level=level, size_bytes=1024), *cpus)


CORES = [
    *(grouping(Cpu(id=f"cpu{cpu}", parent="h", number=cpu, allowed=True), cpu) for cpu in range(4)),
    grouping(Core(id="core0", parent="h"), 0, 2),
    grouping(Core(id="core1", parent="h"), 1, 3),
]


def test_equal_sets_stand_as_people_name_them() -> None:
    parts = [
        cache(1, 0, 2),
        cache(2, 0, 2),
        cache(3, 0, 1, 2, 3),
        grouping(NumaNode(id="n", parent="h", number=0), 0, 1, 2, 3),
    ]
    devices, left_out = nest([*parts, grouping(Socket(id="s", parent="h", number=0), 0, 1, 2, 3), *CORES], "h")
    parents = {device.id: device.parent for device in devices}
    chain = ["cpu0"]
    while chain[-1] != "h":
        chain.append(parents[chain[-1]] or "")
    assert chain == ["cpu0", "core0", "l1-(0, 2)", "l2-(0, 2)", "l3-(0, 1, 2, 3)", "n", "s", "h"]
    assert left_out == []


def test_what_overlaps_is_left_out_and_said() -> None:
    _, left_out = nest([cache(2, 0, 1, 2), cache(2, 2, 3), *CORES], "h")
    assert left_out == [
        "l2-(0, 1, 2) (CPUs 0-2) does not fit core1 (CPUs 1,3) and is left out",
        "l2-(2, 3) (CPUs 2-3) does not fit core0 (CPUs 0,2) and is left out",
    ]


def test_nothing_but_threads_stands_in_a_core() -> None:
    _, left_out = nest([cache(1, 0), *CORES], "h")
    assert left_out == ["l1-(0,) (CPUs 0) does not fit core0 (CPUs 0,2) and is left out"]


def test_a_node_without_cpus_stands_in_the_host() -> None:
    (device,), _ = nest([grouping(NumaNode(id="n", parent="x", number=2))], "h")
    assert device.parent == "h"


@given(sets=st.lists(st.frozensets(st.integers(0, 3), min_size=1), max_size=6, unique=True))
def test_whatever_the_caches_share_there_is_a_topology(sets: list[frozenset[int]]) -> None:
    caches = [cache(2, *sorted(cpus)) for cpus in sets]
    devices, left_out = nest([*caches, *CORES], "h")
    assert len(devices) + len(left_out) == len(caches) + len(CORES)
    assert Topology(devices=(Host(id="h", parent=None), *devices)).n_cores == 2
