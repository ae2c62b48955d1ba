"""Runs: opened, resumed, interrupted, finished; ids that are not there. Part of the store's contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.db import (
    CellState,
    NewSession,
    SessionState,
    TrialStore,
    environment_digest,
)
from autotune.errors import StoreError

from .values import NEW, RING, SMALL, is_recent, marked, opened, stored, timed


class Sessions:
    def test_a_session_comes_out_as_it_went_in(self, store: TrialStore) -> None:
        session = opened(store)
        assert store.sessions() == [session]
        assert session.state is SessionState.RUNNING
        assert session.finished_at is None
        assert is_recent(session.created_at)
        assert (
            NewSession(
                plan_digest=session.plan_digest,
                plan_text=session.plan_text,
                fingerprint=session.fingerprint,
                environment=session.environment,
                backend=session.backend,
                command=session.command,
            )
            == NEW
        )

    def test_a_session_needs_its_topology(self, store: TrialStore) -> None:
        with pytest.raises(StoreError, match="f1"):
            store.open_session(NEW)
        assert store.sessions() == []

    def test_a_finished_session_takes_nothing_more(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        store.finish_session(session_id)
        store.interrupt_session(session_id)
        (session,) = store.sessions()
        assert session.state is SessionState.FINISHED
        assert session.finished_at is not None
        assert is_recent(session.finished_at)
        with pytest.raises(StoreError, match="finished"):
            stored(store, session_id, [timed(SMALL, RING, 1)])
        with pytest.raises(StoreError, match="finished"):
            marked(store, session_id, SMALL, CellState.DONE)
        assert len(store.trials()[0].samples) == 1

    def test_the_newest_unfinished_session_of_the_same_plan_and_machine_is_resumed(self, store: TrialStore) -> None:
        wanted = (NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment))
        assert store.resumable(*wanted) is None
        first, second, third = opened(store), opened(store), opened(store)
        store.finish_session(third.session_id)
        assert store.resumable(*wanted) == second
        store.finish_session(second.session_id)
        assert store.resumable(*wanted) == first
        store.finish_session(first.session_id)
        assert store.resumable(*wanted) is None

    @pytest.mark.parametrize(
        "other",
        [
            replace(NEW, plan_digest="p2"),
            replace(NEW, fingerprint="f2"),
            replace(NEW, environment={**NEW.environment, "kernel": "6.2"}),
        ],
        ids=["plan", "machine", "environment"],
    )
    def test_a_session_of_another_kind_is_not_resumed(self, store: TrialStore, other: NewSession) -> None:
        opened(store, other)
        assert store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment)) is None

    def test_of_a_machines_sessions_the_newest_can_be_asked_for(self, store: TrialStore) -> None:
        other = replace(NEW, fingerprint="f2")
        ids = [opened(store, new).session_id for new in (NEW, other, NEW, NEW)]
        assert [session.session_id for session in store.sessions()] == ids
        assert [session.session_id for session in store.sessions(newest=3)] == ids[1:]
        assert [session.session_id for session in store.sessions(fingerprint="f1", newest=2)] == ids[2:]
        assert [session.session_id for session in store.sessions(fingerprint="f2")] == [ids[1]]
        assert store.sessions(fingerprint="f3") == []
        counts = [store.n_sessions(fingerprint=fingerprint) for fingerprint in (None, "f1", "f2", "f3")]
        assert counts == [4, 3, 1, 0]

    def test_an_interrupted_session_is_resumable_and_runs_again_with_its_next_round(self, store: TrialStore) -> None:
        session_id = opened(store).session_id
        store.interrupt_session(session_id)
        found = store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment))
        assert found is not None
        assert (found.session_id, found.state) == (session_id, SessionState.INTERRUPTED)
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        assert store.sessions()[0].state is SessionState.RUNNING

    @pytest.mark.parametrize(
        "verb",
        [
            lambda store: stored(store, 99, [timed(SMALL, RING, 0)]),
            lambda store: marked(store, 99, SMALL, CellState.DONE),
            lambda store: store.done_cells(99),
            lambda store: store.finish_session(99),
            lambda store: store.interrupt_session(99),
            lambda store: store.trials(session_id=99),
            lambda store: store.trial(99),
            lambda store: store.add_table(99, "{}", "f1", "d1", backend="native"),
        ],
        ids=["add_round", "mark_cell", "done_cells", "finish", "interrupt", "trials", "trial", "add_table"],
    )
    def test_an_unknown_id_is_named(self, store: TrialStore, verb: Callable[[TrialStore], object]) -> None:
        with pytest.raises(StoreError, match="99") as caught:
            verb(store)
        assert caught.value.remedy
        assert store.trials() == []
        assert store.tables() == []
