"""Steps and schedules: closed forms, their enumeration, their algebra, their invariants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from schedules.cases import cases

from autotune.kernels.schedules import (
    Schedule,
    Step,
    Transfer,
    bruck,
    build,
    chain,
    check,
    direct,
    flat,
    names,
    ring,
    trees,
)
from autotune.types import Collective

SMALL = tuple(cases((2, 3, 4, 5, 6, 8)))


def plain(schedule: Schedule) -> list[list[Transfer]]:
    return [sorted(step) for step in schedule.expand()]


def same_arrays(a: Schedule, b: Schedule) -> bool:
    return len(a.steps) == len(b.steps) and all(
        (s.reduce, s.times, s.shift, s.window) == (t.reduce, t.times, t.shift, t.window)
        and all(np.array_equal(getattr(s, name), getattr(t, name)) for name in ("src", "dst", "lo", "count"))
        for s, t in zip(a.steps, b.steps, strict=True)
    )


def test_a_repeated_step_shifts_its_blocks_around() -> None:
    assert plain(ring.all_gather(3)) == [
        [(0, 1, (0,), False), (1, 2, (1,), False), (2, 0, (2,), False)],
        [(0, 1, (2,), False), (1, 2, (0,), False), (2, 0, (1,), False)],
    ]


def test_ranges_are_cyclic_inside_their_window() -> None:
    step = replace(Step.of([0, 1], [1, 0], [3, 5], 2, times=2, shift=1), window=4)
    assert plain(Schedule(n=2, blocks=8, steps=(step,))) == [
        [(0, 1, (3, 0), False), (1, 0, (5, 6), False)],
        [(0, 1, (0, 1), False), (1, 0, (6, 7), False)],
    ]


def test_steps_that_move_nothing_are_left_out() -> None:
    empty = Step.of([], [])
    never = Step.of(0, 1, times=0)
    assert Schedule(n=2, blocks=1, steps=(empty, never)).steps == ()
    assert ring.all_gather(1).n_steps == 0


def test_a_ring_over_16384_positions_is_one_stored_step_a_half() -> None:
    for collective, halves in ((Collective.ALL_GATHER, 1), (Collective.ALL_REDUCE, 2)):
        schedule = build(collective, "ring", 16384)
        assert schedule.n_steps == halves * 16383
        assert len(schedule.steps) == halves
        stored = sum(a.nbytes for s in schedule.steps for a in (s.src, s.dst, s.lo, s.count))
        assert stored == halves * 4 * 16384 * 4


def test_reversed_twice_is_the_same() -> None:
    for case in SMALL:
        schedule = case.build()
        assert same_arrays(schedule.reversed().reversed(), schedule), case


def test_reversed_turns_every_transfer_and_its_kind() -> None:
    for case in SMALL:
        turned = [
            sorted(Transfer(dst, src, blocks, not reduce) for src, dst, blocks, reduce in step)
            for step in case.build().expand()
        ]
        assert plain(case.build().reversed()) == turned[::-1], case


def test_mirrored_keeps_copying() -> None:
    gathered = trees.scatter(5).mirrored()
    assert not any(transfer.reduce for step in gathered.expand() for transfer in step)
    check(Collective.GATHER, gathered)
    assert same_arrays(gathered.mirrored(), trees.scatter(5))
    with pytest.raises(ValueError, match="reduces has no mirror image"):
        flat.all_reduce(3).mirrored()


@pytest.mark.parametrize("k", [2, 3])
def test_refined_schedules_stay_right(k: int) -> None:
    for case in SMALL:
        refined = case.build().refine(k)
        assert refined.blocks == k * case.build().blocks
        check(case.collective, refined)


@pytest.mark.parametrize("name", names(Collective.ALL_REDUCE, 6))
def test_placed_schedules_stay_right(name: str) -> None:
    n, mixed = 6, [3, 0, 5, 1, 4, 2]
    once = build(Collective.ALL_REDUCE, name, n)
    check(Collective.ALL_REDUCE, once.place(mixed, n))
    # Two copies in two orders, each on its own half of the blocks; the windows keep the rings apart.
    check(Collective.ALL_REDUCE, once.place([mixed, mixed[::-1]], n, [0, once.blocks], 2 * once.blocks))


def test_placed_copies_run_in_the_same_steps() -> None:
    placed = chain.broadcast(3).place([[0, 1, 2], [5, 4, 3]], 6)
    assert plain(placed) == [
        [(0, 1, (0,), False), (5, 4, (0,), False)],
        [(1, 2, (0,), False), (4, 3, (0,), False)],
    ]


def test_side_by_side_and_one_after_the_other() -> None:
    left, right = flat.broadcast(2).place([0, 1], 3), chain.broadcast(3).place([0, 2, 1], 3)
    assert plain(left + right) == [[(0, 1, (0,), False)], [(0, 2, (0,), False)], [(2, 1, (0,), False)]]
    assert plain(left | right) == [[(0, 1, (0,), False), (0, 2, (0,), False)], [(2, 1, (0,), False)]]
    assert plain(right | left) == plain(left | right)


def test_renaming_blocks_moves_the_same_data_under_new_names() -> None:
    for case in SMALL:
        schedule = case.build()
        new = np.random.default_rng(0).permutation(schedule.blocks).tolist()
        by_hand = [
            sorted((src, dst, new[b], reduce) for src, dst, blocks, reduce in step for b in blocks)
            for step in schedule.expand()
        ]
        renamed = [
            sorted((src, dst, b, reduce) for src, dst, blocks, reduce in step for b in blocks)
            for step in schedule.renamed(new).expand()
        ]
        assert renamed == by_hand, case


def test_renaming_joins_neighbouring_ranges() -> None:
    scattered = Schedule(n=2, blocks=4, steps=(Step.of(0, 1, [0, 2]),))
    assert plain(scattered.renamed([1, 0, 2, 3])) == [[(0, 1, (1, 2), False)]]


def test_arrays_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ring.all_gather(3).steps[0].src[0] = 2


def int32(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_steps_refuse_what_is_not_a_step() -> None:
    with pytest.raises(ValueError, match="dst has int64"):
        Step(src=int32(0), dst=np.array([1]), lo=int32(0), count=int32(1))
    with pytest.raises(ValueError, match=r"count has int32 \(2,\), not int32 \(1,\)"):
        Step(src=int32(0), dst=int32(1), lo=int32(0), count=int32(1, 1))
    with pytest.raises(ValueError, match="times -1"):
        Step.of(0, 1, times=-1)


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        (Step.of(0, 3), "a position is outside 0 .. 2"),
        (Step.of(-1, 1), "a position is outside"),
        (Step.of(0, 1, 4), "a block is outside 0 .. 3"),
        (Step.of(0, 1, -1), "a block is outside"),
        (Step.of(0, 1, 0, 0), "moves no block"),
        (Step.of(0, 1, 0, 5), "more than its window has"),
        (replace(Step.of(0, 1, 0, 3), window=2), "more than its window has"),
        (replace(Step.of(0, 1), window=3), "do not all divide 4 blocks"),
    ],
)
def test_schedules_refuse_what_is_out_of_range(step: Step, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Schedule(n=3, blocks=4, steps=(Step.of(0, 1), step))


def test_schedules_that_do_not_join_are_refused() -> None:
    with pytest.raises(ValueError, match="not a schedule"):
        Schedule(n=0, blocks=1)
    with pytest.raises(ValueError, match="do not join"):
        _ = direct.all_gather(3) + direct.all_gather(4)
    with pytest.raises(ValueError, match="do not join"):
        _ = flat.broadcast(3) | flat.scatter(3)
    with pytest.raises(ValueError, match="cannot run as one step"):
        _ = flat.broadcast(3) | flat.all_reduce(3)
    with pytest.raises(ValueError, match="cannot run as one step"):
        _ = ring.all_gather(3) | bruck.all_gather(3)
    with pytest.raises(ValueError, match="do not fit 3 positions"):
        ring.all_gather(3).place([0, 1], 3)
    with pytest.raises(ValueError, match="do not fit 3 positions"):
        ring.all_gather(3).place([0, 1, 2], 3, base=1, blocks=6)
