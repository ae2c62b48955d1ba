"""The questions: trials by session and problem, the best of a scenario, cells. Part of the store's contract."""

from __future__ import annotations

from dataclasses import replace

from autotune.db import (
    CellState,
    TrialStore,
)
from autotune.types import (
    TrialState,
)

from .values import DIRECT, KEY, LARGE, RING, SMALL, TREE, failed, opened, timed


class Reading:
    def test_trials_are_chosen_by_session_and_problem(self, store: TrialStore) -> None:
        first, second = opened(store).session_id, opened(store).session_id
        for session_id in (first, second):
            store.add_round(session_id, [timed(SMALL, RING, 0), timed(LARGE, RING, 0)])
        everything = store.trials()
        assert len(everything) == 4
        assert store.trials(session_id=second) == [trial for trial in everything if trial.session_id == second]
        assert store.trials(problem=LARGE) == [trial for trial in everything if trial.problem == LARGE]
        assert [trial.session_id for trial in store.trials(session_id=first, problem=LARGE)] == [first]

    def test_trials_come_problem_by_problem_and_the_newest_session_first(self, store: TrialStore) -> None:
        first, second, other = (opened(store).session_id for _ in range(3))
        for session_id in (first, second, other):
            store.add_round(session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0)])
        store.add_round(first, [timed(LARGE, RING, 0)])
        found = {
            problem: [[(trial.session_id, trial.config) for trial in trials] for trials in lists]
            for problem, lists in store.trials_by_problem([first, second, 99])
        }
        assert found == {
            SMALL: [[(second, RING), (second, TREE)], [(first, RING), (first, TREE)]],
            LARGE: [[(first, RING)]],
        }
        assert list(store.trials_by_problem([])) == []

    def test_the_store_may_be_used_while_trials_are_read_problem_by_problem(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0), timed(LARGE, RING, 0)])
        for problem, lists in store.trials_by_problem([session_id]):
            store.add_round(session_id, [timed(problem, TREE, 1)])
            assert [[trial.config for trial in trials] for trials in lists] == [[RING]]
        assert len(store.trials()) == 4

    def test_the_best_of_a_scenario_is_the_newest_finished_cells_of_each_size(self, store: TrialStore) -> None:
        early, late, unfinished = (opened(store).session_id for _ in range(3))
        for session_id, times in ((early, (1.0, 2.0)), (late, (9.0, 5.0)), (unfinished, (0.1, 0.2))):
            rounds = ([timed(SMALL, RING, n, times[0]), timed(SMALL, TREE, n, times[1])] for n in range(9))
            for results in rounds:
                store.add_round(session_id, results)
        store.add_round(early, [timed(LARGE, RING, 0, 70.0)])
        store.add_round(late, [timed(SMALL, DIRECT, 0, 0.01)])  # one round of luck is no record
        store.add_round(late, [failed(SMALL, RING, TrialState.CRASHED, "rank 1 died")])
        for session_id, problem in ((early, SMALL), (late, SMALL), (early, LARGE)):
            store.mark_cell(session_id, problem, CellState.DONE)
        store.mark_cell(unfinished, SMALL, CellState.FAILED)
        small, large = store.best(KEY)
        assert (small.problem, small.config, small.session_id) == (SMALL, TREE, late)
        assert (small.median_us, small.n_samples) == (5.0, 9)
        assert store.trial(small.trial_id).config == TREE
        assert (large.problem, large.config, large.median_us, large.n_samples) == (LARGE, RING, 70.0, 1)
        assert store.best(KEY, fingerprint="f1") == [small, large]
        assert store.best(KEY, fingerprint="f2") == []
        assert store.best(replace(KEY, max_error=0.01)) == []
        assert store.best(replace(KEY, n_ranks=8, placement=(8,))) == []

    def test_the_last_word_on_a_cell_counts(self, store: TrialStore) -> None:
        first, second = opened(store).session_id, opened(store).session_id
        store.mark_cell(first, SMALL, CellState.FAILED)
        store.mark_cell(first, SMALL, CellState.DONE)
        store.mark_cell(first, LARGE, CellState.FAILED)
        assert store.done_cells(first) == {SMALL: CellState.DONE, LARGE: CellState.FAILED}
        assert store.done_cells(second) == {}
