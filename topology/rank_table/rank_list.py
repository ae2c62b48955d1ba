"""Rank table 2.0, of Ascend 950: ``rank_list``, each rank with its addresses by network layer. Numbers have no quotes.

The rules are those of HCCL's document for 950. What joins the devices of one server is in the topology file.
"""

from __future__ import annotations

import re

from ..links import LinkKind
from .checks import by_first_rank, check_count, check_devices, check_ranks
from .faults import Faults, Form, Node, canonical_address
from .values import Network, RankAddress, RankDevice, RankHost, RankTable

_MOST_RANK = (1 << 16) - 1
_MOST_LOCAL_ID = 64
_MOST_LAYER = 7
_NET_TYPES = ("TOPO_FILE_DESC", "CLOS", "1DMESH", "2DMESH", "A3_SERVER", "A2_AX_SERVER")
_ADDRESS_TYPES = ("EID", "IPV4", "IPV6")
_MOST_LEVELS, _MOST_ADDRESSES, _MOST_PORTS = 8, 24, 16

_Level = tuple[int, str, str, tuple[RankAddress, ...]]  # layer, name of the network, type of addresses, addresses


def read_rank_list(root: Node, faults: Faults) -> RankTable:
    """Servers are told apart by their network of layer 0; not to be used where faults were added."""
    listed = root.get("rank_list")
    nodes = [] if listed is None else listed.items()
    check_count(root.get("rank_count"), len(nodes), "ranks in rank_list", Form.NUMBER)
    devices: dict[str, list[RankDevice]] = {}
    members: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for node in nodes:
        levels = _levels(node)
        device = _device(node, levels)
        if device is None or not levels:
            continue
        devices.setdefault(levels[0][1], []).append(device)
        for layer, name, address_type, _ in levels[1:]:
            members.setdefault((layer, name), []).append((device.rank, address_type))
    hosts = [
        RankHost(
            server_id=name,
            address=None,
            hardware_type=None,
            devices=tuple(sorted(found, key=lambda device: device.rank)),
            path=found[0].path,
        )
        for name, found in devices.items()
    ]
    check_ranks(hosts, len(nodes), faults)
    for host in hosts:
        check_devices(host, faults)
        faults.unique([(device.local_id, f"{device.path}.local_id") for device in host.devices], "local_id")
    _check_addresses(hosts, faults)
    networks = [
        Network(
            name=name,
            net_layer=layer,
            kind=LinkKind.UB if all(kind == "EID" for _, kind in found) else LinkKind.NETWORK,
            ranks=tuple(sorted(rank for rank, _ in found)),
        )
        for (layer, name), found in sorted(members.items())
    ]
    return RankTable(version="2.0", hosts=by_first_rank(hosts), networks=tuple(networks))


def _device(node: Node, levels: list[_Level]) -> RankDevice | None:
    rank, device, local = (node.get(name) for name in ("rank_id", "device_id", "local_id"))
    rank_id = None if rank is None else rank.whole(0, _MOST_RANK, Form.NUMBER)
    device_id = None if device is None else device.whole(0, _MOST_LOCAL_ID, Form.NUMBER)
    local_id = None if local is None else local.whole(0, _MOST_LOCAL_ID, Form.NUMBER)
    for port in ("device_port", "host_port"):
        node.whole_at(port, 1, 65535, Form.NUMBER)
    if rank_id is None or device_id is None or local_id is None:
        return None
    addresses = tuple(address for _, _, _, found in levels for address in found)
    return RankDevice(rank=rank_id, device_id=device_id, local_id=local_id, levels=addresses, path=node.path)


def _levels(rank: Node) -> list[_Level]:
    """The networks of a rank, those that could be read, from layer 0 up."""
    listed = rank.get("level_list")
    nodes = [] if listed is None else listed.items()
    if listed is not None and len(nodes) > _MOST_LEVELS:
        rank.faults.add(listed.path, f"{len(nodes)} levels; wanted are at most {_MOST_LEVELS}")
    found: list[_Level] = []
    for index, node in enumerate(nodes):
        layer_node, name_node, type_node = (node.get(name) for name in ("net_layer", "net_instance_id", "net_type"))
        layer = None if layer_node is None else layer_node.whole(0, _MOST_LAYER, Form.NUMBER)
        name = None if name_node is None else name_node.text()
        if type_node is not None:
            type_node.word(_NET_TYPES)
        if layer_node is not None and layer is not None:
            if index == 0 and layer != 0:
                layer_node.fault("0 in the first level")
            elif found and layer <= found[-1][0]:
                layer_node.fault(f"a layer above {found[-1][0]}, since levels ascend")
        address_type, addresses = _addresses(node, layer or 0)
        if layer is not None and name is not None:
            found.append((layer, name, address_type, addresses))
    return found


def _addresses(level: Node, layer: int) -> tuple[str, tuple[RankAddress, ...]]:
    listed = level.get("rank_addr_list")
    nodes = [] if listed is None else listed.items()
    if listed is not None and len(nodes) > _MOST_ADDRESSES:
        level.faults.add(listed.path, f"{len(nodes)} addresses; wanted are at most {_MOST_ADDRESSES}")
    found: list[RankAddress] = []
    ports_seen: list[tuple[object, str]] = []
    types: set[str] = set()
    for node in nodes:
        kind_node, address_node, ports_node = (node.get(name) for name in ("addr_type", "addr", "ports"))
        kind = None if kind_node is None else kind_node.word(_ADDRESS_TYPES)
        address = None if address_node is None else _address(address_node, kind)
        ports = [] if ports_node is None else ports_node.items()
        if ports_node is not None and len(ports) > _MOST_PORTS:
            level.faults.add(ports_node.path, f"{len(ports)} ports; wanted are at most {_MOST_PORTS}")
        texts = [(port.text(most=32), port.path) for port in ports]
        ports_seen += texts
        plane = node.maybe("plane_id")
        plane_id = None if plane is None else plane.text()
        types.add(kind or "")
        if address is not None:
            named = tuple(text for text, _ in texts if text is not None)
            found.append(RankAddress(net_layer=layer, address=address, ports=named, plane_id=plane_id))
    level.faults.unique(ports_seen, "port")
    return types.pop() if len(types) == 1 else "", tuple(found)


def _address(node: Node, kind: str | None) -> str | None:
    text = node.text(most=256)
    if text is None or kind is None:
        return None
    if kind == "EID":
        if re.fullmatch(r"[0-9a-fA-F]{32}", text):
            return text.lower()
        node.fault("an EID of 32 hexadecimal digits")
        return None
    address = canonical_address(text)
    if address is None or (":" in address) != (kind == "IPV6"):
        node.fault(f"an {'IPv6' if kind == 'IPV6' else 'IPv4'} address, as addr_type says")
        return None
    return address


def _check_addresses(hosts: list[RankHost], faults: Faults) -> None:
    """Within a network layer, an address belongs to one rank."""
    owners: list[tuple[object, str]] = []
    for host in hosts:
        for device in host.devices:
            layers = {(level.net_layer, level.address): None for level in device.levels}
            owners += [(f"{address} of layer {layer}", f"{device.path}.level_list") for layer, address in layers]
    faults.unique(owners, "address")
