"""Searches: what they know, what they ask for, and that all of them are rebuilt from what they were told."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend, model_us
from autotune.distil import Verdict, judge, verdicts
from autotune.measure import NORMAL, QUICK, Failure, Timing
from autotune.plan import quick_plan
from autotune.tune import Interrupted, Knowledge, Sampler, Scope, proposer_for
from autotune.tune.pricing import unpriced
from autotune.tune.sizes import FINEST, next_sizes
from autotune.types import Collective, Config, Problem, TrialState

MACHINE = Machine(noise=0.02)
PROBLEMS = (
    quick_plan(2)
    .override(collectives=[Collective.ALL_REDUCE], sizes=[4096, 1 << 18, 1 << 20], ranks=[4])
    .problems("simulated")
)
CELL = PROBLEMS[2]
FAST = Config(algorithm="ring", segment_bytes=256 << 10)


def prices(problem: Problem, config: Config) -> float | None:
    return model_us(MACHINE, problem, config)


def knowing() -> Knowledge:
    return Knowledge(prices, lambda problem: DEFAULT)


def scope(entrants: int | None = 8, knowledge: Knowledge | None = None) -> Scope:
    candidates = SimulatedBackend(MACHINE).candidates(CELL)
    return Scope(
        problem=CELL,
        candidates=tuple(dict.fromkeys((DEFAULT, *candidates))),
        own=(DEFAULT,),
        entrants=entrants,
        few_entrants=entrants,
        knowledge=knowledge or knowing(),
        seed=0,
    )


def searched(sampler: Sampler, given: Scope, *, stop_after: int | None = None) -> list[tuple[Config, ...]]:
    """What a search asks for, round by round, on a machine without noise; rebuilt once on the way if asked to."""
    proposer = proposer_for(sampler)(given)
    asked: list[tuple[Config, ...]] = []
    told: list[tuple[int, Config, Timing]] = []
    running: list[Config] = []
    for number in range(30):
        if number == stop_after:
            proposer = proposer_for(sampler)(given)
            for outcome in told:
                proposer.tell(*outcome)
        entering = proposer.ask()
        if not entering:
            break
        asked.append(entering)
        running += entering
        for config in running:
            outcome = (number, config, Timing(time_us=model_us(MACHINE, CELL, config), batch_calls=1))
            told.append(outcome)
            proposer.tell(*outcome)
    return asked


@pytest.mark.parametrize("sampler", [s for s in Sampler if s is not Sampler.GP], ids=lambda sampler: sampler.value)
def test_every_search_asks_for_legal_configs_once_and_goes_on_when_it_is_rebuilt(sampler: Sampler) -> None:
    given = scope()
    asked = searched(sampler, given)
    flat = [config for entering in asked for config in entering]
    assert flat[0] == DEFAULT
    assert len(set(flat)) == len(flat)
    assert set(flat) <= set(given.candidates)
    assert len(flat) <= (len(given.candidates) if sampler is Sampler.GRID else 8)
    if len(asked) > 1:
        assert searched(sampler, given, stop_after=1) == asked


@pytest.mark.parametrize(("n_configs", "places"), [(3, 3), (12, 8), (24, 8), (25, 5), (100, 12)])
def test_of_few_configs_more_may_enter(n_configs: int, places: int) -> None:
    candidates = (DEFAULT, *(Config(algorithm="ring", segment_bytes=1 << n) for n in range(n_configs - 1)))
    given = replace(scope(), candidates=candidates, entrants=5, few_entrants=8)
    assert (given.places, given.has_many) == (places, n_configs >= 25)


def test_the_gaussian_process_asks_too() -> None:
    pytest.importorskip("torch", reason="needs PyTorch, with which Optuna computes it")
    flat = [config for entering in searched(Sampler.GP, scope(entrants=7)) for config in entering]
    assert len(set(flat)) == len(flat) == 7


def test_the_model_asks_first_for_what_it_ranks_first() -> None:
    given = scope()
    best = min(given.candidates, key=lambda config: (model_us(MACHINE, CELL, config), str(config)))
    assert best in searched(Sampler.MODEL, given)[0]


def test_a_default_that_fails_does_not_stop_a_search() -> None:
    for sampler in (Sampler.MODEL, Sampler.MODEL_TPE):
        proposer = proposer_for(sampler)(scope())
        first = proposer.ask()
        for config in first:
            broken = Failure(state=TrialState.CRASHED, message="planted")
            proposer.tell(0, config, broken if config == DEFAULT else Timing(time_us=10.0, batch_calls=1))
        assert set(proposer.ask()).isdisjoint(first)
        assert proposer.ask()


def test_what_was_measured_next_door_corrects_the_forecast(run: Run) -> None:
    """The machine runs rings at half the model's price; a search that measured that at 256 KiB expects it at 1 MiB."""

    def slow_rings(problem: Problem, config: Config) -> float:
        return model_us(MACHINE, problem, config) * (0.5 if config.algorithm == "ring" else 1.0)

    backend = SimulatedBackend(MACHINE, time_us=slow_rings)
    run.tune([PROBLEMS[1]], backend)
    knowledge = knowing()
    blind = knowledge.forecasts(CELL, [FAST])[FAST]
    knowledge.learn(run.store.trials(problem=PROBLEMS[1]))
    taught = knowledge.forecasts(CELL, [FAST])[FAST]
    true = math.log(slow_rings(CELL, FAST) / slow_rings(CELL, DEFAULT))
    assert abs(taught.mean - true) < 0.5 * abs(blind.mean - true)
    assert taught.spread < 0.7 * blind.spread
    assert knowledge.winners_near(CELL) != ()


def test_without_a_model_everything_is_as_likely() -> None:
    found = Knowledge(unpriced, lambda problem: DEFAULT).forecasts(CELL, [FAST, replace(FAST, algorithm="tree")])
    assert len(set(found.values())) == 1


def test_the_search_finds_what_the_grid_finds_for_less(run: Run) -> None:
    wide, narrow = SimulatedBackend(MACHINE), SimulatedBackend(MACHINE)
    run.tune(PROBLEMS, wide, effort=NORMAL)
    other = begin(run.store)
    other.tune(PROBLEMS, narrow, effort=NORMAL, knowledge=knowing(), proposer_for=proposer_for(Sampler.MODEL))
    assert narrow.n_samples < 0.8 * wide.n_samples
    for problem in PROBLEMS:
        chosen = {rule.config for r in (run, other) for rule in r.table().rules[problem.key]}
        best = min(model_us(MACHINE, problem, config) for config in wide.candidates(problem))
        assert min(model_us(MACHINE, problem, config) for config in chosen) <= 1.05 * best


ENDS = (
    quick_plan(2)
    .override(collectives=[Collective.BROADCAST], sizes=[1 << 10, 1 << 20], ranks=[2])
    .problems("simulated")
)
BORDER_BYTES = 70_000
LARGE = Config(algorithm="chain", segment_bytes=64 << 10)


class TwoSided(SimulatedBackend):
    """The default is best below a border, another config above it, by 30 % each."""

    def __init__(self, *, stop_at: int | None = None) -> None:
        super().__init__(MACHINE, time_us=self.cost_us)
        self._left = stop_at

    @staticmethod
    def cost_us(problem: Problem, config: Config) -> float:
        wins = (config == DEFAULT) == (problem.message_bytes < BORDER_BYTES)
        return 100.0 if config in (DEFAULT, LARGE) and wins else 130.0

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return (DEFAULT, LARGE)

    def measure_round(self, *words: object, **more: object) -> list[Timing | Failure]:
        if self._left is not None:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
        return super().measure_round(*words, **more)  # type: ignore[arg-type] # handed on as it came


def decided(run: Run) -> dict[Problem, Verdict]:
    return verdicts(
        run.store.trials(session_id=run.session.session_id), default=lambda p: DEFAULT, reference=lambda p: None
    )


def test_a_crossover_is_found_to_a_quarter_of_an_octave(run: Run) -> None:
    report = run.tune(ENDS, TwoSided(), effort=QUICK, refine=True)
    rules = run.table().rules[ENDS[0].key]
    border = next(rule.from_bytes for rule in rules if rule.config == LARGE)
    assert BORDER_BYTES / FINEST < border < BORDER_BYTES * FINEST
    assert [rule.config == LARGE for rule in rules] == sorted(rule.config == LARGE for rule in rules)
    assert 5 <= len(report.between) <= 7
    assert set(report.measured) == set(ENDS)


def test_where_nothing_differs_nothing_is_refined(run: Run) -> None:
    noisy = SimulatedBackend(Machine(noise=0.1), time_us=lambda problem, config: 100.0)
    report = run.tune(ENDS, noisy, effort=QUICK, refine=True)
    assert report.between == ()


def test_a_cliff_is_refined_though_the_config_stays(run: Run) -> None:
    step = SimulatedBackend(MACHINE, time_us=lambda p, c: 10.0 if p.message_bytes < BORDER_BYTES else 1e5)
    report = run.tune(ENDS, step, effort=QUICK, refine=True)
    sizes = sorted(problem.message_bytes for problem in report.between)
    assert any(BORDER_BYTES / FINEST < size < BORDER_BYTES * FINEST for size in sizes)
    assert next_sizes(decided(run)) == []


def test_a_run_that_was_stopped_between_sizes_goes_on_there(run: Run) -> None:
    run.tune(ENDS, TwoSided(), effort=QUICK, refine=True)
    for stop_at in (40, 75, 110):
        again = begin(run.store)
        with pytest.raises(Interrupted):
            again.tune(ENDS, TwoSided(stop_at=stop_at), effort=QUICK, refine=True)
        again.tune(ENDS, TwoSided(), effort=QUICK, refine=True)
        assert again.table().digest == run.table().digest
        assert again.stored() == run.stored()


def test_equal_neighbours_get_one_config(run: Run) -> None:
    """Two configs beat the default everywhere and are equals: noise alone would let the choice flap."""
    pair = (Config(algorithm="chain"), Config(algorithm="tree"))

    class Twins(SimulatedBackend):
        def candidates(self, problem: Problem) -> tuple[Config, ...]:
            return (DEFAULT, *pair)

    sizes = quick_plan(2).override(
        collectives=[Collective.BROADCAST], sizes=[1 << at for at in range(8, 20)], ranks=[2]
    )
    backend = Twins(Machine(noise=0.03), time_us=lambda p, c: 70.0 if c in pair else 100.0)
    run.tune(sizes.problems("simulated"), backend, effort=replace(QUICK, keep=3))
    cells = sizes.problems("simulated")
    alone = [judge(run.store.trials(problem=p), default=DEFAULT, reference=None) for p in cells]
    before = [verdict.config for verdict in alone if verdict is not None]
    after = [rule.config for rule in run.table().rules[cells[0].key]]
    assert len(before) == len(after) == len(cells)
    changes = [sum(a != b for a, b in itertools.pairwise(configs)) for configs in (before, after)]
    assert changes[1] < changes[0]
    assert set(after) <= {*pair, DEFAULT}


def test_the_loop_loads_no_optuna_until_it_is_asked_for() -> None:
    program = "import sys, autotune.tune, autotune.run; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
