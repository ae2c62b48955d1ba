"""Status says what is there, on each engine, and changes nothing."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from store_contract import RING, SMALL, opened, timed

from autotune.db import SessionState, open_store, status
from autotune.db.models import SCHEMA_VERSION
from autotune.errors import StoreError

GOLDEN = Path(__file__).parents[1] / "golden" / "db"


def test_counts_what_is_there(shared_url: str) -> None:
    with closing(open_store(shared_url)) as store:
        first, _ = opened(store), opened(store)
        store.add_round(first.session_id, [timed(SMALL, RING, 0)])
        store.finish_session(first.session_id)
        store.add_table(None, "{}", "f1", "d1", backend="native")
        newest = store.sessions()[-1].created_at
        shown = store.shown
    found = status(shared_url)
    assert found.shown == shown
    assert found.engine.startswith("PostgreSQL " if "://" in shared_url else "SQLite ")
    assert found.engine.split(" ")[1][0].isdigit()
    assert (found.schema_version, found.is_current) == (SCHEMA_VERSION, True)
    assert found.rows == {
        "topologies": 1,
        "sessions": 2,
        "trials": 1,
        "samples": 1,
        "cells": 0,
        "tables": 1,
        "table_hosts": 0,
    }
    assert found.sessions == {SessionState.RUNNING: 1, SessionState.INTERRUPTED: 0, SessionState.FINISHED: 1}
    assert found.last_session_at == newest
    assert found.size_bytes >= 50_000


def test_the_size_of_a_file_is_that_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    open_store(str(path)).close()
    assert status(str(path)).size_bytes == path.stat().st_size


def test_an_empty_database_has_nothing_and_stays_empty(shared_url: str, tmp_path: Path) -> None:
    (tmp_path / "trials.sqlite").touch()
    for _ in range(2):
        found = status(shared_url)
        assert (found.schema_version, found.is_current, found.rows, found.last_session_at) == (0, False, {}, None)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_an_old_schema_is_named_and_left_as_it_is(tmp_path: Path, version: int) -> None:
    path = tmp_path / "trials.sqlite"
    shutil.copyfile(GOLDEN / f"v{version}.sqlite", path)
    content = path.read_bytes()
    found = status(str(path))
    assert (found.schema_version, found.is_current, found.rows["trials"]) == (version, False, 3)
    assert path.read_bytes() == content


def test_a_missing_file_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database") as caught:
        status(str(tmp_path / "trials.sqlite"))
    assert "autotune run" in caught.value.remedy
    assert list(tmp_path.iterdir()) == []
