"""MPICH's selection tree (JSON), which ``MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE`` puts in the place of its own.

In:  a table, MPICH's own tree. Out: the merged tree, and that of its shared memory where that one has a say.
May not touch: what shared memory carries out itself (mpich_device.py).

The file replaces the whole tree, so ours is merged into the one that MPICH would use otherwise, the request's base:
outside the table's rank counts and sizes, and for operations that an algorithm is not for, the base decides as before.

Source: pmodels/mpich v5.0, src/mpi/coll/src/csel.c. The file is read through mmap up to its end, without a NUL: one
whose length is a multiple of the page size would be read beyond it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ..errors import AutotuneError
from ..table import TuningTable
from ..table.reader import read_json
from .decisions import Line, lines_of
from .exporter import PLAIN, Exported, Request, nothing_left
from .mpich_device import device_tree
from .mpich_tree import MAX_SIZE, Tree, merged_by_ranks
from .words import library

_PAGE_BYTES = 4096  # larger pages are multiples of it
_USAGE = "export MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE={path}"
_DEVICE_USAGE = "export MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE={beside}"


@dataclass(frozen=True, slots=True)
class MpichExporter:
    """The merged tree."""

    name: str = "mpich"
    suffix: str = ".json"
    summary: str = "MPICH 4.2 and newer: selection of algorithms, merged into MPICH's own tree (`--base`)"
    library: str = "mpich"
    loses: tuple[str, ...] = (
        "element types and operations: one tree for each collective and rank count",
        "where ranks sit: rules hold for every communicator of that many ranks",
        "sizes from 2 GiB, and segments",
        "scatter and gather, whose elements MPICH counts instead of bytes",
    )
    checked: str = (
        "loaded by MPICH 5 on a CPU, whose sums then came out in the chosen order (tests/exchange/test_real_mpi.py)"
    )

    def render(self, table: TuningTable, request: Request = PLAIN) -> Exported:
        if request.base is None:
            raise AutotuneError(
                "the file replaces MPICH's whole selection tree, so that tree is needed to merge with",
                remedy="--base libmpi.so of your MPICH, or maint/tuning/coll/mpir/generic.json of its source",
            )
        base = base_tree(request.base)
        words = library(self.library)
        lines, notes = lines_of(table, request, words, sees=lambda key: None, check=_objection)
        if not lines:
            raise nothing_left(self.name, notes, table, request)
        if any(line.high > MAX_SIZE for line in lines):
            notes = (*notes, f"sizes above {MAX_SIZE} bytes are left to MPICH, which reads no larger number")
        by_call: dict[str, dict[int, list[Line]]] = {}
        for line in lines:
            by_call.setdefault(line.call.name, {}).setdefault(line.key.n_ranks, []).append(line)
        merged_tree = dict(base)
        for name, by_ranks in by_call.items():
            root = f"collective={name}"
            inner = base.get(root, {}).get("comm_type=intra")
            if not inner:
                raise AutotuneError(
                    f"the base tree has no {root} with comm_type=intra to merge into",
                    remedy="give --base the tree of the MPICH that will read the file",
                )
            merged_tree[root] = {**base[root], "comm_type=intra": merged_by_ranks(by_ranks, inner, _algorithm)}
        device = device_tree(by_call)
        return Exported(
            text=_written(merged_tree),
            beside=None if device is None else _written(device),
            notes=notes,
            usage=(_USAGE,) if device is None else (_USAGE, _DEVICE_USAGE),
        )


def _written(tree: Tree) -> str:
    text = json.dumps(tree, indent=1) + "\n"
    return text if len(text) % _PAGE_BYTES else text + "\n"


def linked(raw: bytes) -> str | None:
    """The library that a linker script stands for, as the libmpi.so of pip's MPICH is one; None where it is none."""
    script = re.fullmatch(rb"\s*INPUT\s*\(\s*([^\s()]+)\s*\)\s*", raw)
    return None if script is None else script[1].decode("utf-8", "replace")


def base_text(raw: bytes, source: str) -> str:
    """The JSON of MPICH's tree: a file of it, or the one that stands in a libmpi.so.

    Raises:
        AutotuneError: the file holds none.
    """
    if raw.lstrip().startswith(b"{"):
        return raw.decode("utf-8", "replace")
    # Three trees stand there; those of the devices speak of compositions, the one that is wanted does not.
    for match in re.finditer(rb"\{\"collective=[^\0]*\0", raw):
        text = match[0][:-1].decode("ascii", "replace")
        if "algorithm=MPIR_Allreduce" in text and "composition=" not in text:
            return text
    raise AutotuneError(
        f"{source}: holds no selection tree of MPICH", remedy="give the libmpi.so of MPICH 4.2 or newer"
    )


def base_tree(text: str) -> Tree:
    """MPICH's tree from its JSON.

    Raises:
        AutotuneError: not such a tree.
    """
    root = read_json(text, "--base")
    found = root.entries()
    if "collective=allreduce" not in found:
        raise AutotuneError(
            "--base holds JSON, but no 'collective=allreduce': it is no selection tree of MPICH",
            remedy="--base maint/tuning/coll/mpir/generic.json, or the libmpi.so that holds it",
        )
    tree: Tree = json.loads(text)
    return tree


def _objection(line: Line) -> str | None:
    n = line.key.n_ranks
    if line.facts.get("pow2_ranks") and n & (n - 1):
        return f"{line.word} is for powers of two, not for {n} ranks"
    if line.low > MAX_SIZE:
        return "MPICH reads no size from 2 GiB"
    return None


def _algorithm(line: Line) -> Tree:
    return {f"algorithm={line.word}": {child: {} for child in line.facts.get("children", ())}}
