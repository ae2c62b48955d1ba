"""What schedules move: added up for pairs, and NHR's closed form against its schedule."""

from __future__ import annotations

from collections import Counter

import pytest

from autotune.cost.moves import Move, Moves, legal_names, moved_by, moves_of, nhr
from autotune.errors import UsageError
from autotune.kernels.schedules import build, names
from autotune.types import Collective, Layout

NHR = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.REDUCE,
)


def pairs_of(move: Move) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for src, dst, blocks in zip(move.src.tolist(), move.dst.tolist(), move.blocks.tolist(), strict=True):
        found[src, dst] += blocks
    return found


def shape(moves: Moves) -> list[tuple[Counter[tuple[int, int]], bool, int]]:
    return [(pairs_of(move), move.reduce, move.times) for move in moves.steps]


@pytest.mark.parametrize("collective", NHR)
def test_nhr_without_blocks_moves_what_its_schedule_moves(collective: Collective) -> None:
    for n in range(2, 65):
        assert shape(nhr(collective, n)) == shape(moved_by(build(collective, "nhr", n))), n


@pytest.mark.parametrize("collective", list(Collective))
def test_moves_are_those_of_the_expanded_schedule(collective: Collective) -> None:
    n = 6
    for name in names(collective, n):
        schedule = build(collective, name, n)
        plain = []
        for step in schedule.expand():
            pairs: Counter[tuple[int, int]] = Counter()
            for transfer in step:
                pairs[transfer.src, transfer.dst] += len(transfer.blocks)
            plain.append(pairs)
        assert [pairs for pairs, _, times in shape(moved_by(schedule)) for _ in range(times)] == plain, name


def test_a_pair_has_one_entry_a_step() -> None:
    for move in moved_by(build(Collective.ALL_GATHER, "nhr", 11)).steps:
        assert max(Counter(zip(move.src.tolist(), move.dst.tolist(), strict=True)).values()) == 1


def test_the_order_puts_positions_on_ranks() -> None:
    (move,) = moves_of(Collective.BROADCAST, "flat", 3, Layout(order=(0, 2, 1))).steps
    assert (move.src.tolist(), move.dst.tolist()) == ([0, 0], [2, 1])


def test_nhr_is_legal_at_any_size_and_does_no_all_to_all() -> None:
    assert "nhr" in legal_names(Collective.ALL_REDUCE, 5000, None)
    assert "nhr" not in legal_names(Collective.ALL_TO_ALL, 5000, None)
    assert moves_of(Collective.ALL_REDUCE, "nhr", 5000, None).n_steps == 26
    with pytest.raises(UsageError, match="nhr"):
        nhr(Collective.ALL_TO_ALL, 4)


def test_a_ring_of_any_length_is_two_stored_steps() -> None:
    moves = moves_of(Collective.ALL_REDUCE, "ring", 16384, None)
    assert (len(moves.steps), moves.n_steps) == (2, 32766)
