"""Random machines written in each format that tells of processors, interfaces and ranks, and read back whole.

Relation matrices and what npu-smi, nvidia-smi and rocm-smi list have round trips beside their parsers' tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import accelerator_texts as texts
import hypothesis.strategies as st
from hypothesis import given
from rank_table_trees import Tree, read

from autotune.topology.cpulist import format_cpu_list
from autotune.topology.devices import Cache, Core, Cpu, Nic, NumaNode, Socket
from autotune.topology.graph import Topology
from autotune.topology.links import LinkKind
from autotune.topology.probes import hccn, hwloc_xml, linux
from autotune.topology.rank_table import read_topology_file

SYSTEM = "/sys/devices/system"
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A host of sockets that are alike; CPUs are numbered core by core, or all first threads before the second ones.

    Args:
        l3_spans: how many NUMA nodes of a socket share an L3.
        far: the distance between nodes of two sockets.
    """

    sockets: int
    nodes: int
    cores: int
    threads: int
    threads_apart: bool
    l3_spans: int
    l2_kib: int
    l3_kib: int
    memory_gib: int
    far: int

    @property
    def n_nodes(self) -> int:
        return self.sockets * self.nodes

    def core(self, number: int) -> frozenset[int]:
        """The CPUs of a core, which is counted over the whole machine."""
        n_cores = self.n_nodes * self.cores
        thread = range(self.threads)
        return frozenset(number + n_cores * t if self.threads_apart else number * self.threads + t for t in thread)

    def span(self, first_node: int, n_nodes: int) -> frozenset[int]:
        """The CPUs of so many nodes."""
        cores = range(first_node * self.cores, (first_node + n_nodes) * self.cores)
        return frozenset().union(*(self.core(core) for core in cores))

    def distance(self, a: int, b: int) -> int:
        return 10 if a == b else 12 if a // self.nodes == b // self.nodes else self.far

    def all_cores(self) -> list[frozenset[int]]:
        return [self.core(core) for core in range(self.n_nodes * self.cores)]

    def all_l3(self) -> list[frozenset[int]]:
        return [self.span(node, self.l3_spans) for node in range(0, self.n_nodes, self.l3_spans)]


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    nodes = draw(st.integers(1, 3))
    return Machine(
        sockets=draw(st.integers(1, 2)),
        nodes=nodes,
        cores=draw(st.integers(2, 4)),  # of one core, its L2, L3, node and socket would be one set of CPUs
        threads=draw(st.integers(1, 2)),
        threads_apart=draw(st.booleans()),
        l3_spans=draw(st.sampled_from([1, nodes])),
        l2_kib=draw(st.integers(1, 4096)),
        l3_kib=draw(st.integers(4097, 1 << 20)),
        memory_gib=draw(st.integers(1, 1024)),
        far=draw(st.integers(13, 254)),
    )


def as_linux(machine: Machine) -> dict[str, str]:
    """What `collect` records of it."""
    cpus = machine.span(0, machine.n_nodes)
    entries = {f"{SYSTEM}/cpu/online": format_cpu_list(cpus)}
    entries["/proc/self/status"] = f"Cpus_allowed_list:\t{format_cpu_list(cpus)}"
    for number, core in enumerate(machine.all_cores()):
        for cpu in core:
            topology = f"{SYSTEM}/cpu/cpu{cpu}/topology"
            entries[f"{topology}/core_cpus_list"] = format_cpu_list(core)
            entries[f"{topology}/physical_package_id"] = str(number // (machine.cores * machine.nodes))
        entries |= _cache(min(core), 0, core, 1, "Instruction", 32)
        entries |= _cache(min(core), 1, core, 2, "Unified", machine.l2_kib)
    for shared in machine.all_l3():
        entries |= _cache(min(shared), 2, shared, 3, "Unified", machine.l3_kib)
    for node in range(machine.n_nodes):
        folder = f"{SYSTEM}/node/node{node}"
        entries[f"{folder}/cpulist"] = format_cpu_list(machine.span(node, 1))
        entries[f"{folder}/distance"] = " ".join(str(machine.distance(node, to)) for to in range(machine.n_nodes))
        entries[f"{folder}/meminfo"] = f"Node {node} MemTotal:       {machine.memory_gib << 20} kB"
    return entries


def _cache(cpu: int, index: int, shared: frozenset[int], level: int, kind: str, kib: int) -> dict[str, str]:
    facts = {"level": str(level), "type": kind, "size": f"{kib}K", "shared_cpu_list": format_cpu_list(shared)}
    return {f"{SYSTEM}/cpu/cpu{cpu}/cache/index{index}/{fact}": text for fact, text in facts.items()}


def as_hwloc(machine: Machine) -> str:
    """What `lstopo --of xml` of hwloc 2 writes of it: memory stands beside what it is local to."""
    body = "".join(_package(machine, socket) for socket in range(machine.sockets))
    n = machine.n_nodes
    values = " ".join(str(machine.distance(a, b)) for a in range(n) for b in range(n))
    indexes = " ".join(map(str, range(n)))
    whole = _set(machine.span(0, n))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n'
        f'<object type="Machine" os_index="0" cpuset="{whole}" allowed_cpuset="{whole}">{body}</object>\n'
        f'<distances2 type="NUMANode" nbobjs="{n}" kind="5" indexing="os"><indexes length="9">{indexes}</indexes>'
        f'<u64values length="9">{values}</u64values></distances2>\n</topology>\n'
    )


def _package(machine: Machine, socket: int) -> str:
    first = socket * machine.nodes
    caches = ""
    for node in range(first, first + machine.nodes, machine.l3_spans):
        cores = range(node * machine.cores, (node + machine.l3_spans) * machine.cores)
        inside = "".join(_core(machine, core) for core in cores)
        where = f'cpuset="{_set(machine.span(node, machine.l3_spans))}"'
        caches += f'<object type="L3Cache" {where} cache_size="{machine.l3_kib << 10}" depth="3">{inside}</object>\n'
    nodes = "".join(
        f'<object type="NUMANode" os_index="{node}" cpuset="{_set(machine.span(node, 1))}" '
        f'local_memory="{machine.memory_gib * GIB}"/>\n'
        for node in range(first, first + machine.nodes)
    )
    where = f'os_index="{socket}" cpuset="{_set(machine.span(first, machine.nodes))}"'
    return f'<object type="Package" {where}>\n{nodes}{caches}</object>\n'


def _core(machine: Machine, core: int) -> str:
    cpus = machine.core(core)
    where = f'cpuset="{_set(cpus)}"'
    units = "".join(f'<object type="PU" os_index="{cpu}" cpuset="{_set(frozenset({cpu}))}"/>' for cpu in sorted(cpus))
    inside = f'<object type="Core" os_index="{core}" {where}>{units}</object>'
    l1 = f'<object type="L1iCache" {where} cache_size="32768" depth="1" cache_type="2">{inside}</object>'
    return f'<object type="L2Cache" {where} cache_size="{machine.l2_kib << 10}" depth="2">{l1}</object>\n'


def _set(cpus: frozenset[int]) -> str:
    """``{0, 33}`` -> ``0x00000002,0x00000001``."""
    mask = sum(1 << cpu for cpu in cpus)
    words = [f"0x{mask >> 32 * word & 0xFFFFFFFF:08x}" for word in range((max(cpus) // 32) + 1)]
    return ",".join(reversed(words))


def cpus_in(topology: Topology, device: str) -> frozenset[int]:
    return frozenset(cpu.number for cpu in topology.within(device, Cpu))


def check(topology: Topology, machine: Machine) -> None:
    """That a topology says all of the machine, and nothing else."""
    assert sorted(cpus_in(topology, core.id) for core in topology.of(Core)) == sorted(machine.all_cores())
    spans = {socket: machine.span(socket * machine.nodes, machine.nodes) for socket in range(machine.sockets)}
    assert {socket.number: cpus_in(topology, socket.id) for socket in topology.of(Socket)} == spans
    nodes = {node.number: node for node in topology.of(NumaNode)}
    assert {number: cpus_in(topology, node.id) for number, node in nodes.items()} == {
        node: machine.span(node, 1) for node in range(machine.n_nodes)
    }
    for number, node in nodes.items():
        assert node.memory_bytes == machine.memory_gib * GIB
        others = [other for other in range(machine.n_nodes) if other != number]
        assert node.distances == tuple((nodes[other].id, machine.distance(number, other)) for other in others)
    told = {(cache.level, cpus_in(topology, cache.id)): cache.size_bytes for cache in topology.of(Cache)}
    l2 = {(2, core): machine.l2_kib << 10 for core in machine.all_cores()}
    assert told == l2 | {(3, shared): machine.l3_kib << 10 for shared in machine.all_l3()}


@given(machine=machines())
def test_linux(machine: Machine) -> None:
    check(linux.parse(as_linux(machine)), machine)


@given(machine=machines())
def test_hwloc(machine: Machine) -> None:
    check(hwloc_xml.parse(as_hwloc(machine)), machine)


@st.composite
def addresses(draw: st.DrawFn) -> Iterator[str]:
    """Addresses that differ, of one family."""
    prefix = draw(st.sampled_from(["192.0.2.", "2001:db8::"]))
    return (f"{prefix}{number}" for number in range(1, 250))


@given(data=st.data(), tls=st.integers(0, 1))
def test_interfaces_of_npus(data: st.DataObject, tls: int) -> None:
    numbers = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=8, unique=True))
    address = data.draw(addresses())
    links = st.sampled_from(["UP", "DOWN"])
    told = {
        number: (next(address), f"00:00:5e:00:53:{number:02x}/400GE1/0/{number}", data.draw(links))
        for number in numbers
    }
    recording: dict[str, str] = {}
    for number, (own, switch, link) in told.items():
        recording |= texts.hccn_port(number, own, "192.0.2.254", switch, tls=tls, link=link)
    if data.draw(st.booleans()):
        recording["/etc/hccn.conf"] = "\n".join(f"address_{number}={own}" for number, (own, _, _) in told.items())
    found = hccn.parse(recording, "host0", {}, {})
    nics = [device for device in found.devices if isinstance(device, Nic)]
    assert {nic.parent: (nic.address, nic.switch_port, (nic.state or "").upper()) for nic in nics} == {
        f"host0/npu{number}": facts for number, facts in told.items()
    }
    assert found.unseen == found.contradictions == ()


Placed = list[tuple[str, list[tuple[int, int, str]]]]  # servers: (rank, device, address) of each device


@st.composite
def placed(draw: st.DrawFn, *, in_order: bool = False) -> Placed:
    """Servers with as many devices each; ranks of a server are together, in any order inside it."""
    n_servers, n_devices = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    address = draw(addresses())
    servers = []
    for server in range(n_servers):
        ranks = list(range(server * n_devices, (server + 1) * n_devices))
        numbers = draw(st.lists(st.integers(0, 7), min_size=n_devices, max_size=n_devices, unique=True))
        order = ranks if in_order else draw(st.permutations(ranks))
        servers.append(
            (f"node_{server}", [(rank, own, next(address)) for rank, own in zip(order, numbers, strict=True)])
        )
    return servers if in_order else draw(st.permutations(servers))


def ranks_of(servers: Placed) -> list[tuple[int, str, int, str]]:
    return sorted((rank, name, own, address) for name, devices in servers for rank, own, address in devices)


def told_by(tree: Tree) -> list[tuple[int, str, int, str]]:
    table = read(tree)
    return sorted((d.rank, host.server_id, d.device_id, d.addresses[0]) for host in table.hosts for d in host.devices)


@given(servers=placed(), pods=st.booleans(), counted=st.booleans())
def test_rank_table_1(servers: Placed, pods: bool, counted: bool) -> None:
    listed = [
        {
            "server_id": name,
            "device": [
                {"device_id": str(own), "device_ip": address, "rank_id": str(rank)}
                | ({"super_device_id": str(rank + 100)} if pods else {})
                for rank, own, address in devices
            ],
        }
        for name, devices in servers
    ]
    tree: Tree = {"status": "completed", "version": "1.2" if pods else "1.0", "server_list": listed}
    if pods:
        named = [{"server_id": name} for name, _ in servers]
        tree["super_pod_list"] = [{"super_pod_id": "7", "server_list": named}]
    if counted:
        tree["server_count"] = str(len(servers))
    assert told_by(tree) == ranks_of(servers)
    table = read(tree)
    assert [device.super_device_id for device in table.devices] == [
        str(rank + 100) if pods else None for rank, *_ in ranks_of(servers)
    ]
    assert [pod.server_ids for pod in table.super_pods] == ([tuple(name for name, _ in servers)] if pods else [])


@given(servers=placed(in_order=True))
def test_group_list(servers: Placed) -> None:
    instances = [
        {
            "pod_name": f"pod-{name}",
            "server_id": name,
            "devices": [{"device_id": str(own), "device_ip": address} for _, own, address in devices],
        }
        for name, devices in servers
    ]
    count = str(sum(len(devices) for _, devices in servers))
    group = {"group_name": "", "instance_count": str(len(servers)), "device_count": count, "instance_list": instances}
    assert told_by({"status": "completed", "group_count": "1", "group_list": [group]}) == ranks_of(servers)


@given(servers=placed(in_order=True), quoted=st.booleans())
def test_global_table(servers: Placed, quoted: bool) -> None:
    def number(value: int) -> int | str:
        return str(value) if quoted else value

    groups = [
        {
            "group_id": name,
            "server_list": [
                {
                    "server_id": name,
                    "device": [
                        {"device_id": number(own), "device_ip": address, "rank_id": number(place)}
                        for place, (_, own, address) in enumerate(devices)
                    ],
                }
            ],
        }
        for name, devices in servers
    ]
    assert told_by({"status": "completed", "version": "1.0", "server_group_list": groups}) == ranks_of(servers)


@given(servers=placed())
def test_rank_table_2(servers: Placed) -> None:
    def levels(name: str, rank: int, address: str) -> list[dict[str, Any]]:
        own = {"addr_type": "IPV6" if ":" in address else "IPV4", "addr": address, "ports": ["0/4"], "plane_id": "p0"}
        inside = {"addr_type": "EID", "addr": f"{rank:032x}", "ports": ["0/1"], "plane_id": "p1"}
        return [
            {
                "net_layer": layer,
                "net_instance_id": instance,
                "net_type": "CLOS" if layer else "TOPO_FILE_DESC",
                "rank_addr_list": [told],
            }
            for layer, instance, told in ((0, name, inside), (1, "az0", own))
        ]

    ranks = [
        {"rank_id": rank, "local_id": own, "device_id": own, "level_list": levels(name, rank, address)}
        for name, devices in servers
        for rank, own, address in devices
    ]
    table = read({"status": "completed", "version": "2.0", "rank_count": len(ranks), "rank_list": ranks})
    told = [(d.rank, host.server_id, d.device_id, d.levels[-1].address) for host in table.hosts for d in host.devices]
    assert sorted(told) == ranks_of(servers)
    assert [network.ranks for network in table.networks] == [tuple(range(len(ranks)))]


@given(data=st.data())
def test_topology_file(data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, 64), min_size=2, max_size=6, unique=True))
    pairs = [(a, b) for a in ids for b in ids if a < b]
    kinds = {"UB_CTP": LinkKind.UB, "HCCS": LinkKind.HCCS, "ROCE": LinkKind.RDMA}
    drawn = [
        (a, b, data.draw(st.sampled_from(sorted(kinds))), data.draw(st.integers(1, 3)))
        for a, b in data.draw(st.lists(st.sampled_from(pairs), unique=True))
    ]
    ups = data.draw(st.lists(st.sampled_from(ids), unique=True))
    edges: list[Tree] = [
        _end("local_a", a, n)
        | _end("local_b", b, n)
        | {"net_layer": 0, "link_type": "PEER2PEER", "protocols": [protocol], "topo_type": "1DMESH"}
        for a, b, protocol, n in drawn
    ]
    edges += [
        _end("local_a", a, 1) | {"net_layer": 1, "link_type": "PEER2NET", "protocols": ["UB_CTP"], "topo_type": "CLOS"}
        for a in ups
    ]
    peers = [{"local_id": number} for number in ids]
    tree = {"version": "2.0", "peer_count": len(ids), "peer_list": peers, "edge_count": len(edges), "edge_list": edges}
    found = read_topology_file(json.dumps(tree), "topo.json")
    assert found.local_ids == tuple(sorted(ids))
    inside = [(edge.local_a, edge.local_b, edge.kind, edge.n_ports) for edge in found.edges if edge.net_layer == 0]
    assert inside == [(a, b, kinds[protocol], n) for a, b, protocol, n in drawn]
    assert [(edge.local_a, edge.local_b) for edge in found.edges if edge.net_layer == 1] == [(a, None) for a in ups]


def _end(name: str, number: int, n_ports: int) -> Tree:
    return {name: number, f"{name}_ports": [f"{port}/0" for port in range(n_ports)]}
