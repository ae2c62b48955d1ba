"""Families of Ascend chips, and what HCCL calls our collectives. Standard library only."""

from __future__ import annotations

import enum

from ..types import Collective


class Soc(enum.Enum):
    """Families of Ascend chips that differ in what HCCL offers."""

    A2 = "A2"
    A3 = "A3"
    A910 = "910A"
    A950 = "950"
    A310P = "310P"


OPERATORS = {
    Collective.ALL_REDUCE: "allreduce",
    Collective.ALL_GATHER: "allgather",
    Collective.REDUCE_SCATTER: "reducescatter",
    Collective.BROADCAST: "broadcast",
    Collective.REDUCE: "reduce",
    Collective.SCATTER: "scatter",
    Collective.ALL_TO_ALL: "alltoall",
}
"""As HCCL_ALGO spells them (hicann/hccl, docs/zh/user_guide/hccl_env/HCCL_ALGO.md); HCCL has no gather."""
