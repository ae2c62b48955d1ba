"""Proof that a program over symmetric memory is free of races, and the waits that make it so: vector clocks.

In:  what every instruction of every rank reads, writes and waits for. Out: waits added in place, which messages are
announced, who is awaited at the end; or the first conflict in words. May not touch: anything else. Numbers only.

Time of a rank counts in half supersteps (Lamport, "Time, Clocks, and the Ordering of Events", 1978; Fidge, Mattern 1988
for the vectors): 2l + 1 once what its message of level l waits for is done, 2l + 2 once all of level l is. A message
carries what its sender knew of every rank when it was announced, its own 2l + 1 included. An instruction of level l may
wait for messages of level l - 1 only. The rules:

* a read at level l sees what was written up to level l - 1: the reader must know each such write of another rank;
* a write at level l comes after every access of level l or earlier by another rank: the writer must know them, or waits
  for a message that tells; where even that is too early to tell, the program is refused;
* a rank is entered, and its buffers may be written, once any message of it is known;
* at its end a rank awaits the ranks that may still be using its buffers.

Slices of a message touch disjoint bytes, so one slice's proof holds for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

PlaceName = tuple[int, Hashable, int]  # the first says whose buffer it is


@dataclass(frozen=True, slots=True)
class Access:
    """An instruction as the proof sees it. `waits`, beyond those for what is read from peers, is added to."""

    rank: int
    level: int
    before_post: bool
    reads: tuple[PlaceName, ...]
    writes: tuple[PlaceName, ...]
    waits: set[int]

    @property
    def done(self) -> int:
        """The time of its rank at which it is surely done."""
        return 2 * self.level + (1 if self.before_post else 2)


@dataclass(slots=True)
class Proof:
    """What the program needs; `conflict` says what is wrong where no program is safe.

    Args:
        posts: [rank][level], whether the message of that level is awaited by anybody.
        waiters: [rank], who awaits messages of that rank.
        final_waits: [rank], whom it awaits before it returns.
        synchronising: whether every rank's end depends on every rank's start.
    """

    posts: list[list[bool]]
    waiters: list[set[int]]
    final_waits: list[set[int]]
    synchronising: bool = False
    conflict: str | None = None


def prove(n: int, levels: int, accesses: Sequence[Access]) -> Proof:
    """Check the accesses of n ranks over so many levels, add the waits that are missing, derive the rest."""
    proof = Proof([[False] * levels for _ in range(n)], [set() for _ in range(n)], [set() for _ in range(n)])
    at_place = _by_place(accesses)
    know = np.zeros((n, n), np.int64)  # [rank][of whom]
    posted = np.zeros((n, n), np.int64)  # what the messages of the level before carry
    by_level: list[list[Access]] = [[] for _ in range(levels)]
    for access in accesses:
        by_level[access.level].append(access)
    for level in range(levels):
        after, told = know.copy(), know.copy()
        for access in by_level[level]:
            rank = access.rank
            access.waits.update(owner for owner, _, _ in access.reads if owner != rank)
            known = _known(know[rank], posted, access.waits)
            conflict = _make_safe(access, known, posted, at_place)
            if conflict is not None:
                proof.conflict = conflict
                return proof
            np.maximum(after[rank], known, out=after[rank])
            if access.before_post:
                np.maximum(told[rank], known, out=told[rank])
            for other in access.waits:
                proof.posts[other][level - 1] = True
                proof.waiters[other].add(rank)
        np.fill_diagonal(told, 2 * level + 1)
        np.fill_diagonal(after, 2 * level + 2)
        know, posted = after, told
    for place, used in at_place.items():
        owner = place[0]
        proof.final_waits[owner].update(a.rank for a in used if a.rank != owner and know[owner, a.rank] < a.done)
    heard = know > 0
    for rank, awaited in enumerate(proof.final_waits):
        heard[rank, list(awaited)] = True
    proof.synchronising = bool(heard.all())
    return proof


def _by_place(accesses: Sequence[Access]) -> dict[PlaceName, list[Access]]:
    at_place: dict[PlaceName, list[Access]] = defaultdict(list)
    for access in accesses:
        for place in dict.fromkeys((*access.reads, *access.writes)):
            at_place[place].append(access)
    return at_place


def _known(base: np.ndarray, posted: np.ndarray, waits: set[int]) -> np.ndarray:
    """What a rank knows once it has waited for these ranks' messages."""
    return np.maximum(base, posted[sorted(waits)].max(axis=0)) if waits else base.copy()


def _make_safe(
    access: Access, known: np.ndarray, posted: np.ndarray, at_place: dict[PlaceName, list[Access]]
) -> str | None:
    """Check one instruction against all others, waiting where that helps; the conflict in words if it does not.

    `known` grows with what is waited for.
    """
    rank, level = access.rank, access.level
    for place in access.reads:
        for other in at_place[place]:
            if place in other.writes and other.rank != rank and other.level < level and known[other.rank] < other.done:
                return f"rank {rank} may read {_words(place)} at step {level} before rank {other.rank} wrote it"
    for place in access.writes:
        owner = place[0]
        if owner != rank and known[owner] == 0 and not _wait(access, known, posted, owner, 1):
            return f"rank {rank} may write {_words(place)} at step {level} before rank {owner} has started"
        for other in at_place[place]:
            if other is access or other.level > level:
                continue
            if other.rank == rank:
                if other.level == level:
                    return f"rank {rank} uses {_words(place)} twice at step {level}"
            elif known[other.rank] < other.done and not _wait(access, known, posted, other.rank, other.done):
                return f"rank {rank} overwrites {_words(place)} at step {level} while rank {other.rank} may use it"
    return None


def _wait(access: Access, known: np.ndarray, posted: np.ndarray, rank: int, needed: int) -> bool:
    """Wait for a rank's message of the level before, if it tells enough."""
    if access.level == 0 or posted[rank, rank] < needed:
        return False
    access.waits.add(rank)
    np.maximum(known, posted[rank], out=known)
    return True


def _words(place: PlaceName) -> str:
    rank, space, index = place
    return f"block {index} of rank {rank}'s {str(getattr(space, 'name', space)).lower()}"
