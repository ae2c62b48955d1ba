"""The proof on accesses written by hand: which waits it adds, what is announced, and what it says where nothing helps.

That its rules suffice for whole programs, the machine of test_zero_copy.py checks.
"""

from __future__ import annotations

import pytest

from autotune.kernels.happens_before import Access, PlaceName, Proof, prove

MINE: PlaceName = (0, "output", 0)
THEIRS: PlaceName = (1, "output", 0)


def access(
    rank: int,
    level: int,
    *,
    reads: tuple[PlaceName, ...] = (),
    writes: tuple[PlaceName, ...] = (),
    before_post: bool = False,
    waits: tuple[int, ...] = (),
) -> Access:
    return Access(rank, level, before_post, reads, writes, set(waits))


def posts(proof: Proof) -> set[tuple[int, int]]:
    return {(rank, level) for rank, levels in enumerate(proof.posts) for level, posted in enumerate(levels) if posted}


def test_nothing_is_safe_and_synchronises_nobody() -> None:
    proof = prove(2, 1, [])
    assert (proof.conflict, posts(proof), proof.waiters, proof.final_waits) == (
        None,
        set(),
        [set(), set()],
        [set(), set()],
    )
    assert not proof.synchronising
    assert prove(1, 1, []).synchronising


def test_a_reader_of_a_peers_buffer_waits_for_it_and_is_awaited_in_the_end() -> None:
    read = access(0, 1, reads=(THEIRS,))
    proof = prove(2, 2, [read])
    assert proof.conflict is None
    assert read.waits == {1}
    assert posts(proof) == {(1, 0)}
    assert proof.waiters == [set(), {0}]
    assert proof.final_waits == [set(), {0}]
    assert proof.synchronising, "rank 0 has a message of rank 1, which awaits the end of rank 0"


def test_a_message_that_comes_after_the_last_use_spares_the_wait_at_the_end() -> None:
    read = access(0, 1, reads=(THEIRS,), before_post=True)
    told = access(1, 2, waits=(0,))
    proof = prove(2, 3, [read, told])
    assert proof.conflict is None
    assert proof.final_waits == [set(), set()]
    assert posts(proof) == {(1, 0), (0, 1)}


def test_a_message_that_does_not_wait_for_the_use_tells_nothing_of_it() -> None:
    proof = prove(2, 3, [access(0, 1, reads=(THEIRS,)), access(1, 2, waits=(0,))])
    assert proof.final_waits == [set(), {0}]


def test_what_was_written_two_levels_ago_is_known_through_others() -> None:
    """Rank 1 writes, rank 2 hears of it, rank 0 hears of rank 2 and reads at rank 1."""
    chain = [
        access(1, 0, writes=(THEIRS,), before_post=True),
        access(2, 1, waits=(1,), before_post=True),
        access(0, 2, reads=(THEIRS,), waits=(2,)),
    ]
    assert prove(3, 3, chain).conflict is None
    assert chain[-1].waits == {1, 2}


def test_a_writer_waits_for_those_who_still_read() -> None:
    read = access(1, 1, reads=(MINE,), before_post=True)
    write = access(0, 2, writes=(MINE,))
    proof = prove(2, 3, [read, write])
    assert proof.conflict is None
    assert write.waits == {1}


def test_a_store_into_a_peers_buffer_waits_for_its_start() -> None:
    store = access(0, 1, writes=(THEIRS,))
    proof = prove(2, 2, [store])
    assert proof.conflict is None
    assert store.waits == {1}
    assert proof.final_waits == [set(), {0}]


@pytest.mark.parametrize(
    ("accesses", "conflict"),
    [
        (
            [access(1, 1, writes=(THEIRS,)), access(0, 2, reads=(THEIRS,))],
            "rank 0 may read block 0 of rank 1's output at step 2 before rank 1 wrote it",
        ),
        (
            [access(0, 0, writes=(THEIRS,))],
            "rank 0 may write block 0 of rank 1's output at step 0 before rank 1 has started",
        ),
        (
            [access(0, 1, writes=(MINE,)), access(0, 1, reads=(MINE,))],
            "rank 0 uses block 0 of rank 0's output twice at step 1",
        ),
        (
            [access(1, 1, reads=(MINE,)), access(0, 1, writes=(MINE,))],
            "rank 0 overwrites block 0 of rank 0's output at step 1 while rank 1 may use it",
        ),
        (
            [access(1, 1, reads=(MINE,)), access(0, 2, writes=(MINE,))],
            "rank 0 overwrites block 0 of rank 0's output at step 2 while rank 1 may use it",
        ),
        (
            [access(0, 1, writes=((2, "output", 3),)), access(1, 1, writes=((2, "output", 3),))],
            "rank 0 overwrites block 3 of rank 2's output at step 1 while rank 1 may use it",
        ),
    ],
    ids=["unfinished", "not started", "twice", "at once", "not announced", "two writers"],
)
def test_what_no_wait_can_save_is_said_in_words(accesses: list[Access], conflict: str) -> None:
    assert prove(3, 4, accesses).conflict == conflict
