"""What the hardware allows an all_reduce at two ranks, measured in the same rounds as everybody.

In:  a cell, the size of the last-level cache. Out: the way that bounds it (a config of csrc/floors.c), or None; how the
program is built and started. May not touch: samples.

Private buffers, while a message fits the caches: S / copy(S) + S / read_add(S) + one flag, since each rank must put its
S where the other can read it, and read and add the other's. Beyond the caches: 4 S / dram. Symmetric memory: half of S
read and added, and two flags. csrc/floors.c does these parts one after the other and times them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotune.backends.mpi_ranks import Launch
from autotune.topology.devices import Cache
from autotune.topology.graph import Topology
from autotune.types import Collective, Memory

from .cells import Cell
from .libraries import FLAGS, SAMPLER, SOURCES

N_RANKS = 2
FALLBACK_CACHE_BYTES = 32 << 20


def way(cell: Cell, memory: Memory, cache_bytes: int) -> str | None:
    """The config that bounds a cell; None where no floor is known."""
    if cell.collective is not Collective.ALL_REDUCE or cell.n_ranks != N_RANKS:
        return None
    fits = cell.message_bytes <= cache_bytes
    if memory is Memory.SYMMETRIC:
        return "symmetric" if fits else None
    return "private" if fits else "dram"


def last_cache_bytes(topology: Topology) -> int:
    """The size of the largest cache."""
    return max((cache.size_bytes for cache in topology.of(Cache)), default=FALLBACK_CACHE_BYTES)


def build_command(program: Path) -> list[str]:
    """How the program is compiled."""
    return ["cc", "-std=c11", *FLAGS, str(SOURCES / "floors.c"), str(SAMPLER), "-o", str(program)]


def launch(program: Path, cores: Sequence[int]) -> Launch:
    """How its ranks are started."""
    return Launch(commands=lambda address, scratch: [[str(program), address, ",".join(map(str, cores))]], env={})
