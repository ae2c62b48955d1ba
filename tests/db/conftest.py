"""The engines that every store test of this folder runs on. A further engine is one more entry in ENGINES."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy

from autotune.db import TrialStore, open_store

SERVER = os.environ.get("AUTOTUNE_TEST_POSTGRES")

pytest.register_assert_rewrite("store_contract")


@contextmanager
def sqlite_file(directory: Path) -> Iterator[str]:
    yield str(directory / "trials.sqlite")


@contextmanager
def sqlite_memory(_directory: Path) -> Iterator[str]:
    yield "sqlite://"


@contextmanager
def postgresql(_directory: Path) -> Iterator[str]:
    """A new database on the server that AUTOTUNE_TEST_POSTGRES names (postgresql+psycopg://...)."""
    if not SERVER:
        pytest.skip("needs a PostgreSQL server: AUTOTUNE_TEST_POSTGRES is not set")
    url = sqlalchemy.make_url(SERVER).set(drivername="postgresql+psycopg")
    name = f"autotune_test_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
            try:
                yield url.set(database=name).render_as_string(hide_password=False)
            finally:
                connection.execute(sqlalchemy.text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        engine.dispose()


ENGINES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "sqlite-file": sqlite_file,
    "sqlite-memory": sqlite_memory,
    "postgresql": postgresql,
}


@pytest.fixture(params=[name for name in ENGINES if name != "sqlite-memory"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where processes can make a store together, on each engine that can; skips the server when it is missing."""
    with ENGINES[request.param](tmp_path) as found:
        yield found


@pytest.fixture(params=[name for name in ENGINES if SERVER or name != "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TrialStore]:
    """An empty store on each engine that is here; one test of test_processes says when the server is missing."""
    with ENGINES[request.param](tmp_path) as url, closing(open_store(url)) as opened:
        yield opened
