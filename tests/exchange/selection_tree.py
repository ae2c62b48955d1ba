"""A small selection tree in MPICH's form, of ours: the base that exports are merged into where no MPICH is at hand."""

from __future__ import annotations

import json

_TITLES = {
    "allreduce": "Allreduce_intra_recursive_doubling",
    "allgather": "Allgather_intra_ring",
    "reduce_scatter": "Reduce_scatter_intra_pairwise",
    "reduce_scatter_block": "Reduce_scatter_block_intra_pairwise",
    "bcast": "Bcast_intra_binomial",
    "reduce": "Reduce_intra_binomial",
    "alltoall": "Alltoall_intra_pairwise",
    "gather": "Gather_intra_binomial",
}
BASE = json.dumps(
    {
        f"collective={name}": {
            "comm_type=intra": {f"algorithm=MPIR_{title}": {}},
            "comm_type=inter": {"algorithm=MPIR_anything": {}},
        }
        for name, title in _TITLES.items()
    }
)
