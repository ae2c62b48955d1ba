"""The second file that rules for MPICH need: what its shared memory carries out itself, and what it leaves to the tree.

In:  lines of the table by MPICH's call. Out: the selection tree of MPICH's shared memory (JSON), for
     ``MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE``. May not touch: the tree of algorithms (mpich.py).

On one host the device takes some collectives over after a few calls, at all sizes, and never looks into the tree of
algorithms. So the rules of these have to stand in the device's tree too: where the table keeps MPICH's own choice, and
outside its sizes and rank counts, the device does as before; where it names an algorithm, the device finds nothing,
and asks the tree.

Source: pmodels/mpich v4.2 to v5.0, maint/tuning/coll/ch4/posix_generic.json, src/mpid/ch4/shm/posix/posix_coll.h
(a search without result falls back), posix_init.c (the only algorithms that it takes), src/mpi/coll/src/csel.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .decisions import Line
from .mpich_tree import Tree, merged_by_ranks

_DEVICE = {
    "bcast": ("MPIDI_POSIX_mpi_bcast_release_gather", False),
    "barrier": ("MPIDI_POSIX_mpi_barrier_release_gather", False),
    "allreduce": ("MPIDI_POSIX_mpi_allreduce_release_gather", True),
    "reduce": ("MPIDI_POSIX_mpi_reduce_release_gather", True),
}
"""What the device carries out itself, by what, and whether the operation has to be commutative for it."""


def device_tree(by_call: Mapping[str, Mapping[int, Sequence[Line]]]) -> Tree | None:
    """The whole tree of the device; None where its own will do."""
    if not by_call.keys() & _DEVICE.keys():
        return None
    trees = {name: _decides(name, by_call.get(name, {})) for name in _DEVICE}
    return {f"collective={name}": {"comm_type=intra": tree} for name, tree in trees.items()}


def _decides(name: str, by_ranks: Mapping[int, Sequence[Line]]) -> Tree:
    algorithm, commutative = _DEVICE[name]
    leaf: Tree = {f"algorithm={algorithm}": {}}
    own: Tree = {"is_multi_threaded=no": {"is_commutative=yes": leaf} if commutative else leaf}
    return merged_by_ranks(by_ranks, own, lambda line: _nothing(leaf)) if by_ranks else own


def _nothing(leaf: Tree) -> Tree:
    """Never holds, so that the search ends without result. There is no word for that: chains of sizes have to be
    closed, and a leaf has to be an algorithm of the device's."""
    return {"is_multi_threaded=no": {"is_multi_threaded=yes": leaf}}
