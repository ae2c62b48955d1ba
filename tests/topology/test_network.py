"""Interfaces and RDMA ports: rates in GB/s, virtual ones named and not counted, addresses never read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.errors import ProbeError
from autotune.topology.devices import Nic, RdmaPort
from autotune.topology.graph import Topology
from autotune.topology.probes.linux import collect, parse

Recorded = Callable[[str], dict[str, str]]
Plant = Callable[[dict[str, str], Path], None]

NIC = "/sys/class/net/ens3f0np0"
PORT = "/sys/class/infiniband/mlx5_0/ports/1"


def probed(recorded: Recorded, path: str, text: str) -> Topology:
    recording = recorded("two-sockets-smt-roce")
    assert path in recording
    return parse(recording | {path: text})


@pytest.mark.parametrize(
    ("text", "rate"), [("200000", 25.0), ("-1", None), ("0", None), ("4294967295", None), ("!EINVAL", None)]
)
def test_speed_is_megabits(recorded: Recorded, text: str, rate: float | None) -> None:
    topology = probed(recorded, f"{NIC}/speed", text)
    assert [nic.rate_gb_per_s for nic in topology.of(Nic) if nic.name == "ens3f0np0"] == [rate]


@pytest.mark.parametrize(
    ("text", "rate"), [("400 Gb/sec (4X NDR)", 50.0), ("2.5 Gb/sec (1X SDR)", 0.3125), ("!EINVAL", None)]
)
def test_rdma_rate_is_gigabits(recorded: Recorded, text: str, rate: float | None) -> None:
    assert [port.rate_gb_per_s for port in probed(recorded, f"{PORT}/rate", text).of(RdmaPort)] == [rate]


@pytest.mark.parametrize(
    ("name", "text"), [("rate", "100 GB/sec"), ("rate", "fast"), ("rate", "0 Gb/sec (4X)"), ("state", "ACTIVE")]
)
def test_refuses(recorded: Recorded, name: str, text: str) -> None:
    with pytest.raises(ProbeError, match=f"mlx5_0/ports/1/{name}"):
        probed(recorded, f"{PORT}/{name}", text)


def test_a_port_that_is_not_active_has_no_rate(recorded: Recorded) -> None:
    (port,) = probed(recorded, f"{PORT}/state", "1: DOWN").of(RdmaPort)
    assert (port.rate_gb_per_s, port.state) == (None, "down")


@pytest.mark.parametrize(("text", "parent"), [("0", "host0/numa0"), ("-1", "host0"), ("7", "host0")])
def test_stands_in_its_numa_node_or_in_the_host(recorded: Recorded, text: str, parent: str) -> None:
    assert probed(recorded, f"{NIC}/device/numa_node", text).device("host0/net-ens3f0np0").parent == parent


def test_many_virtual_interfaces_are_one_line(recorded: Recorded) -> None:
    recording = recorded("virtual-machine")
    recording |= {f"/sys/class/net/veth{i}": f"../../devices/virtual/net/veth{i}" for i in range(40)}
    (words,) = (words for words in parse(recording).unseen if "interfaces" in words)
    assert words == "virtual network interfaces, not counted: ifb0, ifb1, veth0, veth1, veth2, veth3 and 36 more"


def test_a_plain_file_among_the_interfaces_is_none(recorded: Recorded, plant: Plant, tmp_path: Path) -> None:
    recording = recorded("virtual-machine") | {"/sys/class/net/bonding_masters": "bond0"}
    plant(recording, tmp_path)
    assert "/sys/class/net/bonding_masters" not in collect(str(tmp_path))


def test_addresses_are_not_recorded(recorded: Recorded, plant: Plant, tmp_path: Path) -> None:
    plant(recorded("virtual-machine") | {"/sys/class/net/eth0/address": "00:00:5e:00:53:01"}, tmp_path)
    assert "00:00:5e:00:53:01" not in collect(str(tmp_path)).values()
