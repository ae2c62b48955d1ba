"""Merging: everything comes over once, under new numbers; again, nothing does."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from store_contract import DIRECT, LARGE, NEW, RING, SMALL, TREE, failed, opened, table_naming, timed

from autotune.db import CellState, Merged, SessionState, TrialStore, merge, open_store
from autotune.errors import StoreError
from autotune.table import parse_table
from autotune.types import TrialState

GOLDEN = Path(__file__).parents[1] / "golden" / "db"


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A store of a finished session and one that is being run."""
    path = str(tmp_path / "other.sqlite")
    with closing(open_store(path)) as store:
        finished, running = opened(store), opened(store, replace(NEW, plan_digest="p2", fingerprint="f2"))
        store.add_round(finished.session_id, [timed(SMALL, RING, 0, 3.0000000000000004), timed(SMALL, TREE, 0)])
        store.add_round(finished.session_id, [timed(SMALL, RING, 1), failed(SMALL, TREE, TrialState.TIMEOUT, "5 s")])
        store.mark_cell(finished.session_id, SMALL, CellState.DONE)
        store.finish_session(finished.session_id)
        store.add_round(running.session_id, [timed(LARGE, DIRECT, 0)])
        store.add_table(
            finished.session_id, table_naming(1, 2), "f1", "d1", backend="native", host_fingerprints=["f1", "h1"]
        )
    return path


def content(store: TrialStore) -> set[tuple[object, ...]]:
    """What is in a store, without the numbers that it gave."""
    sessions = {session.session_id: replace(session, session_id=0) for session in store.sessions()}
    found: set[tuple[object, ...]] = set()
    for session_id, session in sessions.items():
        plan = (session.plan_digest, session.created_at, session.fingerprint)
        cells = sorted((str(problem), state.value) for problem, state in store.done_cells(session_id).items())
        found.add((*plan, *cells))
        for trial in store.trials(session_id=session_id):
            found.add((*plan, replace(trial, trial_id=None, session_id=0)))
    return found


def test_everything_comes_over_under_numbers_of_its_own(shared_url: str, other: str) -> None:
    with ExitStack() as stack:
        ours = stack.enter_context(closing(open_store(shared_url)))
        ours.add_round(opened(ours, replace(NEW, plan_digest="p0")).session_id, [timed(SMALL, DIRECT, 0)])
        mine = content(ours)
        assert merge(shared_url, other) == Merged(sessions=2, trials=3, samples=4, cells=1, tables=1)
        theirs = stack.enter_context(closing(open_store(other)))
        assert content(ours) == mine | content(theirs)
        _, finished, running = ours.sessions()
        assert (finished.state, running.state) == (SessionState.FINISHED, SessionState.INTERRUPTED)
        assert ours.topology("f2") == "{}"
        (table,) = ours.tables()
        (rule,) = next(iter(parse_table(table.table_json, "merged").rules.values()))
        assert [ours.trial(trial).config for trial in rule.trial_ids] == [RING, TREE]
        assert table.session_id == finished.session_id
        assert {trial.session_id for trial in map(ours.trial, rule.trial_ids)} == {finished.session_id}


def test_again_nothing_comes_over(shared_url: str, other: str) -> None:
    merge(shared_url, other)
    assert merge(shared_url, other) == Merged(known_sessions=2)


def test_what_a_known_session_went_on_to_measure_comes_over(shared_url: str, other: str) -> None:
    merge(shared_url, other)
    with closing(open_store(other)) as theirs:
        running = theirs.sessions()[1].session_id
        theirs.add_round(running, [timed(LARGE, DIRECT, 1), timed(LARGE, RING, 1)])
        theirs.add_round(running, [failed(LARGE, DIRECT, TrialState.CRASHED, "rank 1 died")])
        theirs.mark_cell(running, LARGE, CellState.DONE)
        theirs.finish_session(running)
        assert merge(shared_url, other) == Merged(known_sessions=2, trials=1, samples=2, cells=1)
        with closing(open_store(shared_url)) as ours:
            assert content(ours) == content(theirs)
            assert ours.sessions()[1].state is SessionState.FINISHED
            assert ours.trials(problem=LARGE)[0].state is TrialState.CRASHED


def test_runs_of_the_same_command_in_the_same_second_are_told_apart_by_their_samples(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a.sqlite", "b.sqlite")]
    for time_us, path in enumerate(paths, start=1):
        with closing(open_store(path)) as store:
            store.add_round(opened(store).session_id, [timed(SMALL, RING, 0, float(time_us))])
            created_at = store.sessions()[0].created_at
    target = str(tmp_path / "ours.sqlite")
    merged = [merge(target, path) for path in (*paths, *paths)]
    with closing(open_store(target)) as ours:
        assert [s.time_us for trial in ours.trials() for s in trial.samples] == [1.0, 2.0]
        assert {session.created_at for session in ours.sessions()} >= {created_at}
    assert merged == [Merged(sessions=1, trials=1, samples=1)] * 2 + [Merged(known_sessions=1)] * 2


def test_an_older_table_does_not_become_the_newest(shared_url: str, other: str) -> None:
    with closing(open_store(shared_url)) as ours:
        session_id = opened(ours).session_id
        ours.add_round(session_id, [timed(SMALL, RING, 0)])
        ours.add_table(session_id, table_naming(1), "f1", "d-ours", backend="native")
    assert merge(shared_url, other).tables == 0
    with closing(open_store(shared_url)) as ours:
        newest = ours.newest_table("f1")
        assert newest is not None
        assert newest.digest == "d-ours"


def test_a_table_whose_trials_do_not_come_along_is_left_and_counted(shared_url: str, other: str) -> None:
    with closing(open_store(other)) as theirs:
        theirs.add_table(None, table_naming(77), "f3", "d3", backend="native")
        theirs.add_table(None, '{"schema_version": 99}', "f4", "d4", backend="native")
    done = merge(shared_url, other)
    assert (done.tables, done.tables_left) == (1, 2)


def test_another_schema_is_refused_and_the_file_is_not_touched(tmp_path: Path, shared_url: str) -> None:
    old = tmp_path / "old.sqlite"
    shutil.copyfile(GOLDEN / "v1.sqlite", old)
    content = old.read_bytes()
    with pytest.raises(StoreError, match="has schema version 1") as caught:
        merge(shared_url, str(old))
    assert f"autotune db upgrade --db {old}" in caught.value.remedy
    assert old.read_bytes() == content


def test_a_database_is_not_merged_into_itself_and_a_missing_one_is_not_made(tmp_path: Path, other: str) -> None:
    with pytest.raises(StoreError, match="is the database itself"):
        merge(other, f"sqlite:///{other}")
    with pytest.raises(StoreError, match="there is no database"):
        merge(other, str(tmp_path / "missing.sqlite"))
    assert not (tmp_path / "missing.sqlite").exists()
