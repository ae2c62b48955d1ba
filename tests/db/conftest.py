"""The engines that every store test of this folder runs on. A further engine is one more entry in ENGINES.

PostgreSQL is a real server: the one that AUTOTUNE_TEST_POSTGRES names (postgresql+psycopg://...), else one that is
started here and ended with the tests. Where there is neither, its tests skip and say what is missing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy
from postgres_server import NoServer, running_server

from autotune.db import TrialStore, open_store

HELD_S = 3600.0
NAMED = os.environ.get("AUTOTUNE_TEST_POSTGRES")

pytest.register_assert_rewrite("store_contract")


@contextmanager
def sqlite_file(directory: Path, _server: str | None) -> Iterator[str]:
    yield str(directory / "trials.sqlite")


@contextmanager
def sqlite_memory(_directory: Path, _server: str | None) -> Iterator[str]:
    yield "sqlite://"


@contextmanager
def postgresql(_directory: Path, server: str | None) -> Iterator[str]:
    """A new database on the server."""
    assert server is not None, "the fixture `server` skips"
    url = sqlalchemy.make_url(server).set(drivername="postgresql+psycopg")
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


ENGINES: dict[str, Callable[[Path, str | None], AbstractContextManager[str]]] = {
    "sqlite-file": sqlite_file,
    "sqlite-memory": sqlite_memory,
    "postgresql": postgresql,
}


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a PostgreSQL server."""
    if NAMED:
        yield NAMED
        return
    try:
        with running_server() as started:
            yield started.url
    except NoServer as err:
        pytest.skip(f"needs a PostgreSQL server: {err}")


@pytest.fixture
def postgres_url(tmp_path: Path, server: str) -> Iterator[str]:
    """An empty database on the server."""
    with postgresql(tmp_path, server) as url:
        yield url


@contextmanager
def engine_url(request: pytest.FixtureRequest, directory: Path) -> Iterator[str]:
    server = request.getfixturevalue("server") if request.param == "postgresql" else None
    with ENGINES[request.param](directory, server) as url:
        yield url


@pytest.fixture(params=[name for name in ENGINES if name != "sqlite-memory"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where processes can make a store together, on each engine that can."""
    with engine_url(request, tmp_path) as url:
        yield url


@pytest.fixture(params=list(ENGINES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TrialStore]:
    """An empty store on each engine, which stores each round by itself."""
    with engine_url(request, tmp_path) as url, closing(open_store(url)) as opened:
        yield opened


@pytest.fixture(params=list(ENGINES))
def holding_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TrialStore]:
    """An empty store on each engine, which holds rounds until another verb comes."""
    with engine_url(request, tmp_path) as url, closing(open_store(url, hold_s=HELD_S)) as opened:
        yield opened
