"""Pruning: what a kept table needs stays, what is young stays, and nothing goes without being asked for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy
from store_contract import LARGE, RING, SMALL, TREE, opened, table_naming, timed

from autotune.db import CellState, Pruned, TrialStore, open_store, prune
from autotune.errors import StoreError
from autotune.table import parse_table

YEARS_AGO = "2020-01-01T00:00:00+00:00"


@pytest.fixture
def url(shared_url: str) -> str:
    """A store with an old session that a kept table needs half of, one that none needs, and a young one."""
    with closing(open_store(shared_url)) as store:
        needed, forgotten, young = (opened(store).session_id for _ in range(3))
        for session_id in (needed, forgotten, young):
            store.add_round(session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0)])
            store.add_round(session_id, [timed(LARGE, RING, 0)])
            store.mark_cell(session_id, SMALL, CellState.DONE)
            store.mark_cell(session_id, LARGE, CellState.DONE)
        store.add_table(forgotten, table_naming(4), "f1", "d0", backend="native", host_fingerprints=["h1"])
        store.add_table(needed, table_naming(1), "f1", "d1", backend="native")
        store.add_table(needed, table_naming(2, backend="torch"), "f1", "d2", backend="torch")
    execute(shared_url, f"UPDATE sessions SET created_at = '{YEARS_AGO}' WHERE session_id < 3")
    execute(shared_url, f"UPDATE tables SET created_at = '{YEARS_AGO}'")
    return shared_url


def execute(url: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(url if "://" in url else f"sqlite:///{url}")
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def everything(store: TrialStore) -> tuple[object, ...]:
    sessions = store.sessions()
    return sessions, store.trials(), store.tables(), [store.done_cells(session.session_id) for session in sessions]


WOULD_GO = Pruned(sessions=1, cells=3, trials=4, samples=4, tables=1)


def test_without_being_asked_for_nothing_goes(url: str) -> None:
    with closing(open_store(url)) as store:
        before = everything(store)
    assert prune(url, older_than_days=90, keep_tables=1, really=False) == WOULD_GO
    with closing(open_store(url)) as store:
        assert everything(store) == before


def test_what_a_kept_table_needs_and_what_is_young_stays(url: str) -> None:
    assert prune(url, older_than_days=90, keep_tables=1, really=True) == WOULD_GO
    with closing(open_store(url)) as store:
        assert [session.session_id for session in store.sessions()] == [1, 3]
        # The rival of the cell too, which explain shows; the other cell of the session is gone.
        assert [(trial.problem, trial.config) for trial in store.trials(session_id=1)] == [(SMALL, RING), (SMALL, TREE)]
        assert store.done_cells(1) == {SMALL: CellState.DONE}
        assert len(store.trials(session_id=3)) == 3
        # The newest of each backend; and every trial that they name.
        assert [table.version for table in store.tables()] == [2, 3]
        for table in store.tables():
            for rules in parse_table(table.table_json, "kept").rules.values():
                assert all(len(store.trial(trial).samples) == 1 for rule in rules for trial in rule.trial_ids)
        store.add_round(opened(store).session_id, [timed(SMALL, RING, 0)])
        assert store.trials()[-1].trial_id == 10, "ids are never given out again"
    assert prune(url, older_than_days=90, keep_tables=1, really=True) == Pruned()


def test_more_tables_may_be_kept_and_keep_what_they_need(url: str) -> None:
    assert prune(url, older_than_days=90, keep_tables=2, really=True) == Pruned(cells=2, trials=2, samples=2)
    with closing(open_store(url)) as store:
        assert len(store.tables()) == 3
        assert [trial.problem for trial in store.trials(session_id=2)] == [SMALL, SMALL]


def test_a_table_that_cannot_be_read_keeps_everything(url: str) -> None:
    with closing(open_store(url)) as store:
        store.add_table(None, '{"schema_version": 99}', "f1", "d9", backend="native")
        before = everything(store)
        with pytest.raises(StoreError, match="what table 4 needs is not known"):
            prune(url, older_than_days=1, keep_tables=1, really=True)
        assert everything(store) == before


@pytest.mark.parametrize(("days", "tables"), [(0, 1), (1, 0)])
def test_the_newest_is_never_up_for_pruning(url: str, days: int, tables: int) -> None:
    with pytest.raises(ValueError, match="always stay"):
        prune(url, older_than_days=days, keep_tables=tables, really=True)


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        prune(str(tmp_path / "missing.sqlite"), older_than_days=1, keep_tables=1, really=True)
    assert list(tmp_path.iterdir()) == []
