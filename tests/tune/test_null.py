"""Where nothing differs, nothing is found: the stated error of the test, over whole runs."""

from __future__ import annotations

import math

from tune.rig import Run

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend
from autotune.measure import ALPHA, NORMAL
from autotune.plan import quick_plan
from autotune.tune import Knowledge, Sampler, proposer_for
from autotune.tune.order import MOST_CELLS
from autotune.types import Collective

SIZES = [4096 + 64 * at for at in range(150)]


def test_a_run_over_equal_configs_keeps_the_default(run: Run) -> None:
    """Many challengers, a race that picks the luckiest, more rounds where it stays open: one error rate for all."""
    plan = quick_plan(2).override(collectives=[Collective.ALL_REDUCE], sizes=SIZES, ranks=[4])
    cells = plan.problems("simulated")
    equal = SimulatedBackend(Machine(noise=0.1, slow_phase_rate=0.2), time_us=lambda problem, config: 100.0)
    run.tune(cells, equal, effort=NORMAL, proposer_for=proposer_for(Sampler.RANDOM))
    rules = run.table().rules[cells[0].key]
    assert len(rules) == len(cells)
    assert sum(not rule.is_default for rule in rules) / len(cells) <= ALPHA + 3 * math.sqrt(ALPHA / len(cells))


def test_a_short_budget_that_goes_where_luck_shows_leaves_it_no_more_often(run: Run) -> None:
    """The steps that look most worth taking are those of the luckiest challengers; the test is still the same."""
    plan = quick_plan(2).override(collectives=[Collective.ALL_REDUCE], sizes=SIZES[:MOST_CELLS], ranks=[4])
    cells = plan.problems("simulated")
    equal = SimulatedBackend(Machine(noise=0.1, slow_phase_rate=0.2), time_us=lambda problem, config: 100.0)
    told = Knowledge(lambda problem, config: 100.0, lambda problem: DEFAULT)
    report = run.tune(
        cells,
        equal,
        effort=NORMAL,
        budget_s=0.5,
        clock=equal.clock,
        proposer_for=proposer_for(Sampler.MODEL),
        knowledge=told,
    )
    rules = run.table().rules[cells[0].key]
    assert 10 < len(report.measured) < len(cells)
    assert sum(not rule.is_default for rule in rules) <= ALPHA * len(cells) + 3 * math.sqrt(ALPHA * len(cells))
