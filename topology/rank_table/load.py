"""Which kind of rank table a text is, and its value. In: a text. Out: a ``RankTable`` or a ``TopologyFile``."""

from __future__ import annotations

import json
from collections.abc import Callable

from .faults import Faults, Node, document
from .global_table import read_global_table
from .group_list import read_group_list
from .rank_list import read_rank_list
from .server_list import read_server_list
from .topology_file import read_topology
from .values import RankTable, TopologyFile

_REMEDY = "correct the file, or have its tool write it again; docs/topology.md says what each version holds"
_TABLES: dict[str, Callable[[Node, Faults], RankTable]] = {
    "server_group_list": read_global_table,
    "group_list": read_group_list,
    "rank_list": read_rank_list,
    "server_list": read_server_list,
}
_VERSIONS = {"1.0": "server_list", "1.2": "server_list", "2.0": "rank_list"}


def read_rank_table(text: str, where: str) -> RankTable:
    """The table in a text, of whatever version, checked as a whole.

    Args:
        where: the file, for errors.

    Raises:
        ProbeError: with every fault and its JSON path.
    """
    what = f"rank table {where}"
    root, faults = document(text, what, _REMEDY)
    table = _read(root, faults)
    faults.raise_all(what, _REMEDY)
    assert table is not None, "a table without faults"
    return table


def _read(root: Node, faults: Faults) -> RankTable | None:
    if not isinstance(root.value, dict):
        root.fault("an object")
        return None
    status = root.get("status") if "rank_list" not in root.value else root.maybe("status")
    if status is not None and status.value == "initializing":
        faults.add(status.path, '"initializing": the table is not complete yet; wanted is "completed"')
    elif status is not None:
        status.word(["completed"])
    named = [name for name in _TABLES if name in root.value]
    version = root.maybe("version")
    if version is not None and "group_list" not in named:
        known = version.word(["1.0", "1.2"] if "server_group_list" in named else _VERSIONS)
        if known is None:  # what else is wrong depends on the version
            return None
        named = named if "server_group_list" in named else [_VERSIONS[known]]
    elif "server_list" in named or "rank_list" in named:
        root.get("version")
    if not named:
        faults.add("$", f"has none of {', '.join(_TABLES)}")
        return None
    return _TABLES[named[0]](root, faults)


def read_topology_file(text: str, where: str) -> TopologyFile:
    """The topology file in a text, checked as a whole.

    Raises:
        ProbeError: with every fault and its JSON path.
    """
    what = f"topology file {where}"
    root, faults = document(text, what, _REMEDY)
    file = read_topology(root, faults)
    faults.raise_all(what, _REMEDY)
    return file


def is_rank_table(text: str) -> bool:
    """Whether a text means to be a rank table: by the names in it, so that a damaged one is one too."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and any(_names(text, name) for name in _TABLES)


def is_topology_file(text: str) -> bool:
    """Whether a text means to be a topology file."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and _names(text, "edge_list") and _names(text, "peer_list")


def _names(text: str, name: str) -> bool:
    return json.dumps(name) in text
