"""What a rank table and a topology file say, whatever their version. Frozen values; no behaviour beyond look-ups."""

from __future__ import annotations

from dataclasses import dataclass

from ..links import LinkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RankAddress:
    """An address of a device in version 2.0.

    Args:
        net_layer: 0 is inside a server.
        ports: ``"die/port"``, or the name of a host's port.
    """

    net_layer: int
    address: str
    ports: tuple[str, ...]
    plane_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankDevice:
    """An NPU and the rank that sits on it.

    Args:
        rank: counted from 0 over the whole table.
        device_id: the NPU's physical number in its server.
        local_id: its number in the topology file; of version 2.0 only.
        addresses: IP addresses of its RoCE interfaces, the first one in use; of versions 1.x.
        super_device_id: its number in the super pod (SDID), in decimal digits.
        path: where it stands in the file.
    """

    rank: int
    device_id: int
    local_id: int | None = None
    addresses: tuple[str, ...] = ()
    backup_address: str | None = None
    super_device_id: str | None = None
    levels: tuple[RankAddress, ...] = ()
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHost:
    """A server.

    Args:
        server_id: what the table calls it; in version 2.0 the name of its network of layer 0.
        address: of the host itself.
        hardware_type: mind-cluster's word, such as ``"800I-A3-64G"``.
        devices: in the order of their ranks.
        path: where it stands in the file, or where its first device does.
    """

    server_id: str
    address: str | None
    hardware_type: str | None
    devices: tuple[RankDevice, ...]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperPodHosts:
    """A super pod and the servers in it, in the order of the table."""

    super_pod_id: str
    server_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Devices of which each reaches each other.

    Args:
        net_layer: of version 2.0; None otherwise.
        ranks: ascending.
    """

    name: str
    net_layer: int | None
    kind: LinkKind
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTable:
    """A whole table.

    Args:
        version: ``"1.0"``, ``"1.2"``, ``"2.0"``, ``"group list"`` or ``"global"``.
        hosts: in the order of their first ranks.
        networks: what joins devices of different hosts, as far as the table says.
    """

    version: str
    hosts: tuple[RankHost, ...]
    super_pods: tuple[SuperPodHosts, ...] = ()
    networks: tuple[Network, ...] = ()

    @property
    def devices(self) -> tuple[RankDevice, ...]:
        """By rank."""
        return tuple(sorted((device for host in self.hosts for device in host.devices), key=lambda d: d.rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyEdge:
    """A connection of an NPU to another one of its server, or to a network.

    Args:
        local_b: None where the other end is a network.
        n_ports: of the first end, used together.
    """

    net_layer: int
    kind: LinkKind
    local_a: int
    local_b: int | None
    n_ports: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFile:
    """The connections of one kind of server, by the numbers that a rank table 2.0 calls local_id."""

    local_ids: tuple[int, ...]
    edges: tuple[TopologyEdge, ...]
