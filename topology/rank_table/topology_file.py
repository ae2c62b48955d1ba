"""The topology file that stands beside a rank table 2.0: which NPUs of a server are joined, by what.

In: the document that the driver installs below /usr/local/Ascend/driver/topo/. The rules are those of HCCL's document
for 950.
"""

from __future__ import annotations

from ..links import LinkKind
from .checks import check_count
from .faults import Faults, Form, Node
from .values import TopologyEdge, TopologyFile

_MOST_LOCAL_ID = 64
_MOST_LAYER = 7
_KINDS = {
    "UB_CTP": LinkKind.UB,
    "UB_TP": LinkKind.UB,
    "UB_RTP": LinkKind.UB,
    "UB_MEM": LinkKind.UB,
    "UBOE": LinkKind.UB,
    "HCCS": LinkKind.HCCS,
    "ROCE": LinkKind.RDMA,
    "TCP": LinkKind.NETWORK,
}  # the first protocol of an edge decides


def read_topology(root: Node, faults: Faults) -> TopologyFile:
    """The connections; not to be used where faults were added."""
    version = root.get("version")
    if version is not None:
        version.word(["2.0"])
    peers = root.get("peer_list")
    nodes = [] if peers is None else peers.items()
    check_count(root.get("peer_count"), len(nodes), "peers in peer_list", Form.NUMBER)
    ids = [(node.whole_at("local_id", 0, _MOST_LOCAL_ID, Form.NUMBER, needed=True), node.path) for node in nodes]
    faults.unique([(number, f"{path}.local_id") for number, path in ids], "local_id")
    known = frozenset(number for number, _ in ids if number is not None)
    edges = root.get("edge_list")
    listed = [] if edges is None or edges.value == [] else edges.items()
    check_count(root.get("edge_count"), len(listed), "edges in edge_list", Form.NUMBER)
    found = [edge for node in listed if (edge := _edge(node, known)) is not None]
    return TopologyFile(local_ids=tuple(sorted(known)), edges=tuple(found))


def _edge(node: Node, known: frozenset[int]) -> TopologyEdge | None:
    layer = node.whole_at("net_layer", 0, _MOST_LAYER, Form.NUMBER, needed=True)
    type_node, protocols = node.get("link_type"), node.get("protocols")
    link_type = None if type_node is None else type_node.word(["PEER2PEER", "PEER2NET"])
    kinds = [] if protocols is None else [protocol.word(_KINDS) for protocol in protocols.items()]
    a, n_ports = _end(node, "local_a", known)
    b: int | None = None
    if link_type == "PEER2PEER":
        b, _ = _end(node, "local_b", known)
        if a is not None and a == b:
            node.faults.add(f"{node.path}.local_b", f"{b} is local_a too; wanted is another one")
    for name, words in (("topo_type", ("CLOS", "1DMESH", "2DMESH")), ("position", ("HOST", "DEVICE"))):
        found = node.maybe(name)
        if found is not None:
            found.word(words)
    if layer is None or link_type is None or a is None or not kinds or kinds[0] is None:
        return None
    if link_type == "PEER2PEER" and b is None:
        return None
    return TopologyEdge(net_layer=layer, kind=_KINDS[kinds[0]], local_a=a, local_b=b, n_ports=n_ports)


def _end(edge: Node, name: str, known: frozenset[int]) -> tuple[int | None, int]:
    """(the NPU at an end of an edge, how many ports it uses there)."""
    number = edge.whole_at(name, 0, _MOST_LOCAL_ID, Form.NUMBER, needed=True)
    ports = edge.get(f"{name}_ports")
    texts = [port.text(most=32) for port in ports.items()] if ports is not None else []
    if number is not None and number not in known:
        edge.faults.add(f"{edge.path}.{name}", f"{number} is not in peer_list")
        return None, len(texts)
    return number, len(texts)
