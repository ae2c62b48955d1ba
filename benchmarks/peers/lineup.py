"""Who takes part at one number of ranks: ours, the peers, the floor, each ready to be started.

In:  the options, the machine's cores, installed peers. Out: `Contender`s; their ranks start with their first sample.
May not touch: samples, judgement.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autotune.backends.mpi_ranks import Launch, RankSet
from autotune.measure import Timing
from autotune.settings import Settings
from autotune.types import Collective, Memory

from . import floors, libraries, ours
from .cells import Cell
from .prototypes import Prototype
from .rounds import Contender


def our_name(memory: Memory) -> str:
    """The contender's name."""
    return f"ours {memory.value}"


def our_contender(n_ranks: int, cores: Sequence[int], settings: Settings, memory: Memory) -> Contender:
    """Ours, with buffers in that memory."""

    def start() -> RankSet:
        launch, fd = ours.launch(n_ranks=n_ranks, cores=cores, settings=settings, memory=memory)
        try:
            return RankSet(our_name(memory), n_ranks, launch)
        finally:
            os.close(fd)

    staging = f"AUTOTUNE_STAGING={settings.staging_bytes}"
    return Contender(name=our_name(memory), role="ours", memory=memory, settings=staging, start=start)


def peer_contender(library: libraries.Library, home: Path, n_ranks: int, cores: Sequence[int]) -> Contender:
    """A peer, with its settings for this number of ranks."""
    launch = libraries.launch(library, home, n_ranks=n_ranks, cores=cores)
    settings = library.settings(n_ranks > len(cores))
    return Contender(
        name=library.name,
        role="peer",
        memory=Memory.PRIVATE,
        settings=words_of(settings),
        start=lambda: RankSet(library.name, n_ranks, launch, remedy=_remedy(library.name)),
    )


def _remedy(name: str) -> str:
    return f"leave it out with --peers, or rebuild it with --peers {name} --refresh"


def prototype_contender(prototype: Prototype, n_ranks: int, cores: Sequence[int]) -> Contender:
    """A prototype."""
    launch = prototype.launch(n_ranks, cores)
    return Contender(
        name=prototype.name,
        role="prototype",
        memory=Memory.PRIVATE,
        settings="",
        start=lambda: RankSet(prototype.name, n_ranks, launch),
    )


def floor_contenders(program: Path, cores: Sequence[int], memories: Sequence[Memory]) -> list[Contender]:
    """The floors under ours, at two ranks on two cores: one for each way of each memory."""
    launch: Launch = floors.launch(program, cores)
    return [
        Contender(
            name=f"floor {way}",
            role="floor",
            memory=memory,
            settings=way,
            start=lambda: RankSet("floors", floors.N_RANKS, launch),
        )
        for memory in memories
        for way in floors.WAYS[memory]
    ]


FLAG = Cell(collective=Collective.ALL_REDUCE, n_ranks=floors.N_RANKS, size_bytes=8)
"""What the flag is sampled as; only its time counts."""


def flag_contender(program: Path, cores: Sequence[int]) -> Contender:
    """A word between the first two cores, at any number of ranks."""
    launch = floors.launch(program, cores)
    return Contender(
        name="flag",
        role="flag",
        memory=Memory.SYMMETRIC,
        settings="",
        start=lambda: RankSet("flag", floors.N_RANKS, launch),
        configs={FLAG: "flag"},
    )


def flag_of(contender: Contender, *, enough_cores: bool) -> Callable[[], float | None]:
    """Samples of it; None where there is one core only."""
    numbers = itertools.count()

    def sample() -> float | None:
        outcome = contender.sample(FLAG, next(numbers)) if enough_cores else None
        return outcome.time_us if isinstance(outcome, Timing) else None

    return sample


def words_of(settings: Mapping[str, str]) -> str:
    """Settings in one line."""
    return " ".join(f"{key}={value}" for key, value in settings.items())
