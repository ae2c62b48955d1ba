"""What goes in comes out, whatever it is. Part of the store's contract."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import strategies
from hypothesis import HealthCheck, given, settings

from autotune.db import (
    CellState,
    RoundResult,
    TrialStore,
    environment_digest,
)
from autotune.types import (
    Problem,
    Trial,
    TrialState,
)

from .values import NEW, opened

# The store only grows, so examples may share it; each one opens a session of its own.
on_one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


class RoundTrips:
    @given(trial=strategies.trials())
    @on_one_store
    def test_a_trial_comes_out_as_it_went_in(self, store: TrialStore, trial: Trial) -> None:
        session_id = opened(store).session_id
        for sample in reversed(trial.samples):
            store.add_round(session_id, [RoundResult(problem=trial.problem, config=trial.config, sample=sample)])
        if trial.state is not TrialState.OK or not trial.samples:
            state = TrialState.INVALID if trial.state is TrialState.OK else trial.state
            trial = replace(trial, state=state, message=trial.message or "not run")
            store.add_round(
                session_id,
                [
                    RoundResult(
                        problem=trial.problem,
                        config=trial.config,
                        state=trial.state,
                        message=trial.message,
                        wrong=trial.wrong,
                    )
                ],
            )
        (stored,) = store.trials(session_id=session_id)
        assert stored == replace(trial, trial_id=stored.trial_id, session_id=session_id)
        assert stored.trial_id is not None
        assert store.trial(stored.trial_id) == stored

    @given(plan_text=strategies.texts, environment=st.dictionaries(strategies.names, strategies.texts, max_size=4))
    @on_one_store
    def test_a_session_keeps_any_text(self, store: TrialStore, plan_text: str, environment: dict[str, str]) -> None:
        session = opened(store, replace(NEW, plan_text=plan_text, environment=environment))
        assert (session.plan_text, session.environment) == (plan_text, environment)
        assert store.sessions()[-1] == session
        assert store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(environment)) == session

    @given(problem=strategies.problems(), state=st.sampled_from(CellState))
    @on_one_store
    def test_a_cell_comes_out_as_it_went_in(self, store: TrialStore, problem: Problem, state: CellState) -> None:
        session_id = opened(store).session_id
        store.mark_cell(session_id, problem, state)
        assert store.done_cells(session_id) == {problem: state}

    @given(description=strategies.texts, table=strategies.texts, fingerprint=strategies.names)
    @on_one_store
    def test_descriptions_and_tables_keep_their_text(
        self, store: TrialStore, description: str, table: str, fingerprint: str
    ) -> None:
        if store.topology(fingerprint) is None:
            store.add_topology(fingerprint, description)
            assert store.topology(fingerprint) == description
        version = store.add_table(None, table, fingerprint, "d", backend="native")
        newest = store.newest_table(fingerprint)
        assert newest is not None
        assert (newest.version, newest.table_json) == (version, table)
