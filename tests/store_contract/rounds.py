"""Rounds: what becomes a trial, what a failure changes, whole or not at all. Part of the store's contract."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from autotune.db import (
    RoundResult,
    TrialStore,
)
from autotune.errors import StoreError
from autotune.types import (
    Fidelity,
    TrialState,
    WrongElement,
)

from .values import DIRECT, KEY, LARGE, NEW, RING, SMALL, TREE, failed, opened, stored, timed


class Rounds:
    def test_a_config_is_one_trial_that_collects_the_samples_of_its_rounds(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0, 11.0), timed(SMALL, TREE, 0, 21.0)])
        store.add_round(session_id, [timed(SMALL, TREE, 1, 22.0), timed(SMALL, RING, 1, 12.0)])
        store.add_round(session_id, [timed(LARGE, RING, 0, 90.0)])
        times = {
            (trial.problem.message_bytes, trial.config.algorithm): [sample.time_us for sample in trial.samples]
            for trial in store.trials()
        }
        assert times == {(1024, "ring"): [11.0, 12.0], (1024, "tree"): [21.0, 22.0], (1 << 20, "ring"): [90.0]}

    def test_configs_that_differ_in_one_knob_are_different_trials(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        other = replace(DIRECT, knobs=(("outbox_store", "tile"), ("slices", 2)))
        store.add_round(session_id, [timed(SMALL, DIRECT, 0), timed(SMALL, other, 0)])
        assert [trial.config for trial in store.trials()] == [DIRECT, other]

    def test_problems_that_differ_in_the_error_budget_are_different(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        lossy = replace(SMALL, key=replace(KEY, max_error=0.01))
        store.add_round(session_id, [timed(SMALL, RING, 0), timed(lossy, RING, 0)])
        assert [trial.problem for trial in store.trials(problem=lossy)] == [lossy]

    def test_a_failure_is_recorded_once_and_samples_stay(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        wrong = WrongElement(rank=3, index=1 << 40, got="nan", expected="6.0")
        store.add_round(session_id, [timed(SMALL, RING, 0), failed(SMALL, TREE, TrialState.TIMEOUT, "no answer")])
        store.add_round(
            session_id,
            [
                RoundResult(
                    problem=SMALL, config=RING, state=TrialState.WRONG_RESULT, message="1 element is wrong", wrong=wrong
                ),
                failed(SMALL, TREE, TrialState.CRASHED, "rank 2 died"),
            ],
        )
        store.add_round(session_id, [timed(SMALL, RING, 2)])
        ring, tree = store.trials()
        assert (ring.state, ring.message, ring.wrong) == (TrialState.WRONG_RESULT, "1 element is wrong", wrong)
        assert [sample.round for sample in ring.samples] == [0, 2]
        assert (tree.state, tree.message, tree.samples) == (TrialState.TIMEOUT, "no answer", ())

    def test_a_round_is_stored_whole_or_not_at_all(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        before = store.trials()
        with pytest.raises(StoreError, match="another run") as caught:
            stored(store, session_id, [timed(SMALL, TREE, 0), timed(SMALL, RING, 0, 99.0)])
        assert caught.value.remedy
        assert store.trials() == before
        store.add_round(session_id, [timed(SMALL, TREE, 1), timed(SMALL, RING, 1)])
        assert len(store.trials()) == 2

    def test_what_a_lossy_config_was_off_by_is_kept_from_its_first_round(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        coded = replace(RING, codec="int8")
        fidelity = Fidelity(error=0.007, density=0.99)
        store.add_round(session_id, [timed(SMALL, RING, 0), replace(timed(SMALL, coded, 0), fidelity=fidelity)])
        store.add_round(session_id, [replace(timed(SMALL, coded, 1), fidelity=fidelity)])
        assert [trial.fidelity for trial in store.trials()] == [None, fidelity]

    def test_an_empty_round_changes_nothing(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [])
        assert store.trials() == []

    def test_undecodable_bytes_in_messages_are_replaced(self, store: TrialStore) -> None:
        session_id = opened(store, replace(NEW, command="run \udcff.yaml")).session_id
        store.add_round(session_id, [failed(SMALL, RING, TrialState.CRASHED, "rank 1: \0\udcff \U0001f642")])
        assert store.trials()[0].message == "rank 1: \ufffd\ufffd \U0001f642"
        assert store.sessions()[0].command == "run \ufffd.yaml"

    def test_threads_share_a_store(self, store: TrialStore) -> None:
        n_threads, n_rounds = 4, 10
        sessions = [opened(store).session_id for _ in range(n_threads)]
        start = threading.Barrier(n_threads)
        errors: list[BaseException] = []

        def write(session_id: int) -> None:
            try:
                start.wait(timeout=30)
                for round_ in range(n_rounds):
                    store.add_round(session_id, [timed(SMALL, RING, round_), timed(SMALL, TREE, round_)])
                    assert len(store.trials(session_id=session_id)[0].samples) == round_ + 1
            except BaseException as err:
                errors.append(err)

        threads = [threading.Thread(target=write, args=(session_id,)) for session_id in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert not errors
        assert [len(trial.samples) for trial in store.trials()] == [n_rounds] * 2 * n_threads
