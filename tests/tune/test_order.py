"""Which cell gets the next step."""

from __future__ import annotations

import pytest

from autotune.plan import quick_plan
from autotune.tune.order import OTHER_RANKS, Queue, Step
from autotune.types import Collective, Problem

PLAN = quick_plan(4).override(collectives=[Collective.ALL_REDUCE])
CELLS = PLAN.override(ranks=[4]).problems("simulated")[:4]
OTHERS = PLAN.override(ranks=[2]).problems("simulated")[:2]


def test_without_worths_the_plan_is_the_order_and_a_cell_goes_on_at_once() -> None:
    queue, seen = Queue(CELLS, Step.RACE, None), []
    for cell, step in queue:
        seen.append((cell, step))
        if step is Step.RACE:
            queue.add(cell, Step.CONFIRM)
    assert seen == [(cell, step) for cell in CELLS for step in (Step.RACE, Step.CONFIRM)]


def test_what_is_worth_most_comes_first_and_what_is_worth_nothing_not_at_all() -> None:
    worth = dict(zip(CELLS, (0.1, 0.3, None, 0.2), strict=True))
    queue = Queue(CELLS, Step.OPEN, lambda cell, step: worth[cell])
    assert [cell for cell, _ in queue] == [CELLS[1], CELLS[3], CELLS[0]]


def test_a_worth_that_fell_meanwhile_counts_as_it_is() -> None:
    worth: dict[Problem, float | None] = dict(zip(CELLS, (0.4, 0.3, 0.2, 0.1), strict=True))
    queue, seen = Queue(CELLS, Step.RACE, lambda cell, step: worth[cell]), []
    for cell, _ in queue:
        seen.append(cell)
        worth[CELLS[1]], worth[CELLS[2]] = 0.05, None
    assert seen == [CELLS[0], CELLS[3], CELLS[1]]


@pytest.mark.parametrize(("gain", "expected"), [(1.1, CELLS[1]), (1.1 / OTHER_RANKS, OTHERS[0])])
def test_other_ranks_have_to_be_worth_their_start(gain: float, expected: Problem) -> None:
    worth = {CELLS[0]: 1.0, CELLS[1]: 0.2, OTHERS[0]: 0.2 * gain}
    queue = iter(Queue(tuple(worth), Step.CONFIRM, lambda cell, step: worth[cell]))
    assert [cell for cell, _ in (next(queue), next(queue))] == [CELLS[0], expected]


def test_who_waits_for_more_than_another_look_still_has_a_share_of_the_time() -> None:
    queue = Queue(CELLS, Step.RACE, lambda cell, step: 1.0)
    cell, _ = next(iter(queue))
    queue.add(cell, Step.OPEN)
    assert set(queue.waiting) == set(CELLS) - {cell}
