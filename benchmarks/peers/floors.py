"""What the hardware allows two ranks, measured in the same rounds as everybody.

In:  a cell, the sizes of a core's own cache and of the last one. Out: the ways that bound it (configs of
csrc/floors.c); how the program is built and started. May not touch: samples.

Every collective between private buffers: a loop that does nothing else, piece by piece through a ring in the caches.
An all_reduce has more ways. While a message fits the caches: S / copy(S) + S / read_add(S) + one flag, since each rank
must put its S where the other can read it, and read and add the other's. Beyond the caches: 4 S / dram, by stores past
the caches or through them, as if the exchange cost nothing. Between a core's own cache and what the last one says of
itself, which a virtual machine may have only a part of, all are measured. The fastest way is the floor. Symmetric
memory: half of S read and added, and two flags. csrc/floors.c does the parts of a way one after the other and times
them together.
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
OWN_CACHE_BYTES, LAST_CACHE_BYTES = 1 << 20, 32 << 20
"""Where the probe sees no caches."""
STAGE_BYTES = 64 << 20
"""The longest message that csrc/floors.c stages."""
WAYS = {Memory.PRIVATE: ("pieces", "private", "dram", "copy"), Memory.SYMMETRIC: ("symmetric",)}


def ways(cell: Cell, memory: Memory, own_bytes: int, last_bytes: int) -> tuple[str, ...]:
    """The configs that bound a cell, each for a machine that may be this one; none where no floor is known.

    Args:
        own_bytes: what a core's second-level cache holds.
        last_bytes: what the largest cache says that it holds.
    """
    if cell.n_ranks != N_RANKS:
        return ()
    if cell.collective is not Collective.ALL_REDUCE:
        return ("pieces",) if memory is Memory.PRIVATE else ()
    size = cell.message_bytes
    staged = size <= min(last_bytes, STAGE_BYTES)
    if memory is Memory.SYMMETRIC:
        return ("symmetric",) if staged else ()
    memory_ways = ("dram", "copy") if size > own_bytes else ()
    return ("pieces", *(("private",) if staged else ()), *memory_ways)


def cache_bytes(topology: Topology) -> tuple[int, int]:
    """The sizes of a core's second-level cache and of the largest one."""
    caches = list(topology.of(Cache))
    own = min((cache.size_bytes for cache in caches if cache.level == 2), default=OWN_CACHE_BYTES)
    return own, max((cache.size_bytes for cache in caches), default=LAST_CACHE_BYTES)


def build_command(program: Path) -> list[str]:
    """How the program is compiled."""
    return ["cc", "-std=c11", *FLAGS, str(SOURCES / "floors.c"), str(SAMPLER), "-o", str(program)]


def launch(program: Path, cores: Sequence[int]) -> Launch:
    """How its ranks are started."""
    return Launch(commands=lambda address, scratch: [[str(program), address, ",".join(map(str, cores))]], env={})
