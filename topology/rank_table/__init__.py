"""Rank tables: the files that tell HCCL which NPU of which server is which rank, and the topology file beside them.

In: texts of rank tables (1.0, 1.2 with super pods and mind-cluster's additions, 2.0, the older group list, global
tables) and of topology files. Out: a ``RankTable`` or ``TopologyFile``, checked as a whole: all faults of a file stand
in one error, each with its JSON path. Pure; standard library only; ``cluster`` makes hosts and links of it.
"""

from .load import is_rank_table, is_topology_file, read_rank_table, read_topology_file
from .values import Network, RankAddress, RankDevice, RankHost, RankTable, SuperPodHosts, TopologyEdge, TopologyFile

__all__ = [
    "Network",
    "RankAddress",
    "RankDevice",
    "RankHost",
    "RankTable",
    "SuperPodHosts",
    "TopologyEdge",
    "TopologyFile",
    "is_rank_table",
    "is_topology_file",
    "read_rank_table",
    "read_topology_file",
]
