"""How rules for rank counts and sizes are merged into a selection tree of MPICH's, whichever of its trees it is. Pure.

In:  lines of one call by rank count, what decides otherwise, what a line becomes. Out: the tree.
May not touch: what a leaf says (mpich.py, mpich_device.py).

Source: pmodels/mpich v5.0, src/mpi/coll/src/csel.c. A node's children are tried in order; within a child there is no
way back, so each chain of ours ends in ``=any``. Sizes are read by atoi, so there are none above 2 GiB - 1. Rank counts
stand outermost, where MPICH decides them once for a communicator; everything else costs each call some of its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .decisions import Line, merged

Tree = dict[str, Any]  # Any: objects within objects, down to empty ones
Leaf = Callable[[Line], Tree]

MAX_SIZE = (1 << 31) - 1
_GUARDS = {"is_op_built_in": ("no", "yes"), "is_commutative": ("no", "yes"), "is_sendbuf_inplace": ("yes", "no")}
"""Which answer leaves the call to the base, and which one takes our rules."""


def merged_by_ranks(by_ranks: Mapping[int, Sequence[Line]], base: Tree, leaf: Leaf) -> Tree:
    """The tree of one call: outside the lines' rank counts, sizes and operations the base decides."""
    tree: Tree = {}
    for n_ranks, lines in sorted(by_ranks.items()):
        if f"comm_size<={n_ranks - 1}" not in tree:
            tree[f"comm_size<={n_ranks - 1}"] = base
        tree[f"comm_size<={n_ranks}"] = _by_size(lines, base, leaf)
    return {**tree, "comm_size=any": base}


def _by_size(lines: Sequence[Line], base: Tree, leaf: Leaf) -> Tree:
    test = lines[0].call.facts["test"]
    tree: Tree = {}
    at = 0
    for line in merged(lines):
        if line.low > at:
            tree[f"{test}<={line.low - 1}"] = base
        tree[f"{test}<={min(line.high, MAX_SIZE)}"] = _guarded(line, base, leaf)
        at = line.high + 1
    return {**tree, f"{test}=any": base}


def _guarded(line: Line, base: Tree, leaf: Leaf) -> Tree:
    """Inside a size: where the base decides, no other test is made."""
    tree = leaf(line)
    if line.facts.get("at_least_pow2_elements"):
        tree = {"count<pow2": base, "count=any": tree}
    if guard := line.call.facts.get("guard"):
        away, ours = _GUARDS[guard]
        tree = {f"{guard}={away}": base, f"{guard}={ours}": tree}
    return tree
