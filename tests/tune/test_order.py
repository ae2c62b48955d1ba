"""Which cell gets the next step."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend
from autotune.measure import ALPHA, MIN_GAIN, NORMAL, Comparison
from autotune.measure.sequential import level
from autotune.plan import quick_plan
from autotune.tune import Knowledge, Sampler, proposer_for
from autotune.tune.forecasts import next_look_saves
from autotune.tune.order import OTHER_RANKS, Queue, Step
from autotune.types import Collective, Config, Phase, Problem

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


FAST = Config(algorithm="bruck", segment_bytes=64 << 10)


class Two(SimulatedBackend):
    """Two configs."""

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return (DEFAULT, FAST)

    def reference(self, problem: Problem) -> Config | None:
        return None


def last(problem: Problem, config: Config) -> float:
    """Only in the last cell the second one is faster, by a quarter."""
    return 100.0 if config == DEFAULT else 75.0 if problem == CELLS[-1] else 130.0


@pytest.mark.parametrize(("sampler", "reached"), [(Sampler.MODEL, True), (Sampler.GRID, False)])
def test_a_short_budget_goes_first_where_something_is_to_be_gained(run: Run, sampler: Sampler, reached: bool) -> None:
    """Prices say where, roughly; a search that has no opinion takes cells in order, and does not come so far."""
    whole, backend = (Two(Machine(noise=0.05), time_us=last) for _ in range(2))
    begin(run.store).tune(CELLS, whole, effort=NORMAL, clock=whole.clock)
    told = Knowledge(lambda problem, config: last(problem, config) ** 0.9, lambda problem: DEFAULT)
    report = run.tune(
        CELLS,
        backend,
        effort=NORMAL,
        budget_s=0.5 * whole.clock(),
        clock=backend.clock,
        proposer_for=proposer_for(sampler),
        knowledge=told,
    )
    assert report.not_measured
    assert (CELLS[-1] in report.measured) is reached
    if reached:
        assert run.seen[0].problem == CELLS[-1]
        assert run.table().rules[CELLS[-1].key][-1].config == FAST


def comparison(median: float, low: float, high: float, n_rounds: int = 9) -> Comparison:
    return Comparison(n_rounds=n_rounds, median=median, low=low, high=high, p_value=0.1)


def test_a_look_is_worth_what_the_rounds_so_far_leave_open() -> None:
    """Of a gain of 1.1 about half where its interval leaves as much open; hardly anything of one that is none."""
    promising, even, worse = ((1.1, 0.98, 1.25), (1.0, 0.9, 1.1), (0.98, 0.95, 1.01))
    assert 0.03 < next_look_saves(comparison(*promising), 15) < 0.09
    assert 0.0 < next_look_saves(comparison(*even), 15) < 0.01
    assert next_look_saves(comparison(*worse), 15) < 0.001
    assert next_look_saves(comparison(*promising), 14) == 0.0, "no look is left"
    assert next_look_saves(comparison(*even, n_rounds=15), 116) > next_look_saves(comparison(*even, n_rounds=15), 25)


def test_the_next_look_saves_what_it_does_in_the_long_run() -> None:
    """By draws of what nine rounds and six more show, where noise is normal and any gain was as likely before."""
    found, spread, rng = 0.09, 0.06, random.Random(3)
    needed = max(math.log(MIN_GAIN), NormalDist().inv_cdf(1 - ALPHA * level(1)) * spread * math.sqrt(9 / 15))
    saved = 0.0
    for _ in range(20_000):
        more = rng.gauss(rng.gauss(found, spread), spread * math.sqrt(9 / 6))
        after = (9 * found + 6 * more) / 15
        saved += after if after > needed else 0.0
    ends = [math.exp(found + side * NormalDist().inv_cdf(1 - 0.05 / 4) * spread) for side in (-1, 1)]
    expected = next_look_saves(comparison(math.exp(found), ends[0], ends[1]), 15)
    assert expected == pytest.approx(-math.expm1(-saved / 20_000), rel=0.05)


def test_a_look_that_can_hardly_save_anything_is_not_taken_unless_the_run_is_to_converge(run: Run) -> None:
    """Two configs as good as equal: the interval after nine rounds still reaches beyond what is worth a change."""

    counts = []
    for converge in (False, True):
        own = begin(run.store)
        own.tune(CELLS, Two(Machine(noise=0.05), time_us=lambda p, c: 100.0), effort=NORMAL, converge=converge)
        counts.append(sum(seen.n_configs for seen in own.seen if seen.phase is Phase.CONFIRM and seen.round >= 9))
    assert counts[0] < counts[1]
