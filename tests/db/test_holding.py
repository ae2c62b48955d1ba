"""Rounds and marks that are held: what is in the database when, as another process would see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from sqlalchemy import Connection, orm
from store_contract import KEY, LARGE, NEW, RING, SMALL, TREE, failed, opened, timed

from autotune.db import CellState, TrialStore, open_store
from autotune.db.opening import opened as opened_transactions
from autotune.db.recorder import Recorder
from autotune.db.sql_store import SqlStore
from autotune.db.transactions import Transactions
from autotune.errors import StoreError
from autotune.types import TrialState

Result = TypeVar("Result")

HOLD_S = 0.25


@dataclass
class Held:
    """A store that holds rounds, the time by which it does, and a second store on the same database."""

    store: TrialStore
    other: TrialStore
    session_id: int
    now: list[float] = field(default_factory=lambda: [0.0])

    def stored(self) -> list[int]:
        """The numbers of the rounds in the database."""
        return [sample.round for trial in self.other.trials() for sample in trial.samples]


@pytest.fixture
def held(shared_url: str) -> Iterator[Held]:
    now = [0.0]
    with (
        closing(open_store(shared_url, hold_s=HOLD_S, clock=lambda: now[0])) as store,
        closing(open_store(shared_url)) as other,
    ):
        yield Held(store=store, other=other, session_id=opened(store).session_id, now=now)


def test_a_round_is_stored_by_the_first_that_comes_late_enough_after_the_last_storing(held: Held) -> None:
    for number, at_s in enumerate((0.1, 0.249, 0.25, 0.3, 0.499, 0.6)):
        held.now[0] = at_s
        held.store.add_round(held.session_id, [timed(SMALL, RING, number)])
        assert held.stored() == {0: [], 1: [], 2: [0, 1, 2], 3: [0, 1, 2], 4: [0, 1, 2], 5: [0, 1, 2, 3, 4, 5]}[number]


def test_a_round_that_took_long_is_stored_at_once(held: Held) -> None:
    held.now[0] = 60.0
    held.store.add_round(held.session_id, [timed(SMALL, RING, 0)])
    assert held.stored() == [0]


def test_a_failure_is_stored_at_once_with_all_that_is_held(held: Held) -> None:
    held.store.add_round(held.session_id, [timed(SMALL, RING, 0)])
    held.store.add_round(held.session_id, [failed(SMALL, TREE, TrialState.CRASHED, "rank 1 died")])
    assert [trial.state for trial in held.other.trials()] == [TrialState.OK, TrialState.CRASHED]


@pytest.mark.parametrize(
    "verb",
    [
        lambda store, number: store.flush(),
        lambda store, number: store.close(),
        lambda store, number: store.finish_session(number),
        lambda store, number: store.interrupt_session(number),
        lambda store, number: store.open_session(NEW),
        lambda store, number: store.add_topology("f2", "{}"),
        lambda store, number: store.add_table(None, "{}", "f1", "d", backend="native"),
        lambda store, number: store.done_cells(number),
        lambda store, number: store.trials(),
        lambda store, number: list(store.trials_by_problem([number])),
        lambda store, number: store.best(KEY),
        lambda store, number: store.sessions(),
        lambda store, number: store.n_sessions(),
        lambda store, number: store.machines(),
        lambda store, number: store.resumable("p1", "f1", "e"),
        lambda store, number: store.topology("f1"),
        lambda store, number: store.newest_table("f1"),
        lambda store, number: store.tables(),
    ],
)
def test_every_other_verb_stores_what_is_held(held: Held, verb: Callable[[TrialStore, int], object]) -> None:
    held.store.add_round(held.session_id, [timed(SMALL, RING, 0)])
    held.store.add_round(held.session_id, [timed(LARGE, TREE, 0)])
    assert held.stored() == []
    verb(held.store, held.session_id)
    assert held.stored() == [0, 0]


def test_a_verb_that_refuses_something_else_loses_nothing(held: Held) -> None:
    held.store.add_round(held.session_id, [timed(SMALL, RING, 0)])
    with pytest.raises(StoreError, match="no session 99"):
        held.store.done_cells(99)
    held.store.close()
    assert held.stored() == [0]


def test_marks_wait_with_the_rounds_and_the_last_of_a_cell_counts(held: Held) -> None:
    held.store.add_round(held.session_id, [timed(SMALL, RING, 0)])
    for problem, state in ((SMALL, CellState.FAILED), (LARGE, CellState.DONE), (SMALL, CellState.DONE)):
        held.store.mark_cell(held.session_id, problem, state)
    assert held.other.done_cells(held.session_id) == {}
    held.now[0] = HOLD_S
    held.store.mark_cell(held.session_id, LARGE, CellState.FAILED)
    assert held.other.done_cells(held.session_id) == {SMALL: CellState.DONE, LARGE: CellState.FAILED}
    assert held.stored() == [0]


def test_what_is_held_for_a_session_that_is_none_is_refused_as_a_whole_and_dropped(held: Held) -> None:
    held.store.add_round(held.session_id, [timed(SMALL, RING, 0)])
    held.store.mark_cell(99, SMALL, CellState.DONE)
    with pytest.raises(StoreError, match="no session 99"):
        held.store.flush()
    held.store.add_round(held.session_id, [timed(SMALL, RING, 1)])
    held.store.flush()
    assert held.stored() == [1]


def test_a_trial_that_another_store_made_meanwhile_is_gone_on_with(held: Held) -> None:
    """As where a run continues one that was killed: its trials are there, and this store has not asked for them."""
    held.other.add_round(held.session_id, [timed(SMALL, RING, 0)])
    held.store.add_round(held.session_id, [timed(SMALL, TREE, 1), timed(SMALL, RING, 1)])
    held.store.flush()
    found = {trial.config: [sample.round for sample in trial.samples] for trial in held.other.trials()}
    assert found == {RING: [0, 1], TREE: [1]}


def test_rounds_that_another_run_has_stored_are_refused_and_dropped(held: Held) -> None:
    held.other.add_round(held.session_id, [timed(SMALL, RING, 1, 99.0)])
    for number in (0, 1):
        held.store.add_round(held.session_id, [timed(SMALL, RING, number)])
    with pytest.raises(StoreError, match="another run is writing to it"):
        held.store.flush()
    held.store.add_round(held.session_id, [timed(SMALL, RING, 2)])
    held.store.flush()
    assert held.stored() == [1, 2]


class Unlucky:
    """Transactions whose COMMIT does not tell that it was done: the work is done again, or Ctrl-C comes."""

    def __init__(self, within: Transactions, *, again: bool) -> None:
        self.within, self.again, self.shown = within, again, within.shown
        self.armed = False

    def append(self, work: Callable[[Connection], Result]) -> Result:
        result = self.within.append(work)
        if not self.armed:
            return result
        self.armed = False
        if self.again:
            return self.within.append(work)
        raise KeyboardInterrupt

    def write(self, work: Callable[[orm.Session], Result]) -> Result:
        return self.within.write(work)

    def read(self, work: Callable[[orm.Session], Result]) -> Result:
        return self.within.read(work)

    def close(self) -> None:
        self.within.close()


@pytest.mark.parametrize("again", [True, False], ids=["connection-lost", "ctrl-c"])
def test_what_was_stored_unseen_is_not_stored_twice(shared_url: str, again: bool) -> None:
    unlucky = Unlucky(opened_transactions(shared_url, wait_s=1.0)[0], again=again)
    recorder = Recorder(unlucky, hold_s=HOLD_S, clock=lambda: 0.0)  # type: ignore[arg-type] # planted
    with closing(SqlStore(recorder)) as store:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0)])
        store.add_round(session_id, [timed(SMALL, RING, 1)])
        unlucky.armed = True
        with suppress(KeyboardInterrupt):
            store.flush()
        store.add_round(session_id, [timed(SMALL, RING, 2)])
        store.finish_session(session_id)
        assert [[sample.round for sample in trial.samples] for trial in store.trials()] == [[0, 1, 2], [0]]


def test_what_the_database_would_not_take_is_stored_by_a_later_verb(shared_url: str) -> None:
    class Full(Unlucky):
        def append(self, work: Callable[[Connection], Result]) -> Result:
            if self.armed:
                raise StoreError("planted: full", remedy="none")
            return self.within.append(work)

    full = Full(opened_transactions(shared_url, wait_s=1.0)[0], again=False)
    recorder = Recorder(full, hold_s=HOLD_S, clock=lambda: 0.0)  # type: ignore[arg-type] # planted
    with closing(SqlStore(recorder)) as store:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0)])
        full.armed = True
        with pytest.raises(StoreError, match="planted: full"):
            store.flush()
        full.armed = False
        assert len(store.trials()) == 1
