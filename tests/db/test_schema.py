"""The schema: what the models say is what the migrations make, old databases are upgraded, newer ones refused.

tests/golden/db/v<N>.sqlite is a store as version N left it, v<N>.postgresql.sql one on a server. ``UPDATE_GOLDEN=1
pytest tests/db/test_schema.py`` writes the newest version's, by ``fill`` below; the others can no longer be made, and
are never changed.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy
from alembic.config import Config
from alembic.script import ScriptDirectory
from postgres_server import dump
from store_contract import DIRECT, KEY, LARGE, NEW, RING, SMALL, TREE, failed, opened, timed

from autotune.db import (
    CellState,
    RoundResult,
    SessionState,
    TrialStore,
    Upgrade,
    environment_digest,
    open_store,
    schema,
    status,
    upgrade_store,
)
from autotune.db.models import SCHEMA_VERSION, Base
from autotune.errors import StoreError
from autotune.types import Collective, Memory, Phase, Problem, RuleKey, Sample, SampleKind, TrialState, WrongElement

GOLDEN = Path(__file__).parents[1] / "golden" / "db"
LOSSY = Problem(
    key=RuleKey(
        backend="hccl",
        collective=Collective.ALL_TO_ALL,
        dtype=None,
        op_class=None,
        n_ranks=3,
        placement=(1, 2),
        memory=Memory.SYMMETRIC,
        max_error=0.01,
    ),
    message_bytes=3 << 30,
)
WRONG = WrongElement(rank=1, index=5_000_000_000, got="nan", expected="6.0")
STEADY = Sample(kind=SampleKind.STEADY, phase=Phase.CONFIRM, round=0, position=1, batch_calls=7, time_us=0.1)


def fill(store: TrialStore) -> None:
    """One of everything that a store can hold."""
    finished, running = opened(store), opened(store)
    store.add_round(finished.session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0, 3.0000000000000004)])
    store.add_round(finished.session_id, [timed(SMALL, RING, 1), failed(SMALL, TREE, TrialState.TIMEOUT, "5 s")])
    store.add_round(finished.session_id, [RoundResult(problem=SMALL, config=RING, sample=STEADY)])
    store.mark_cell(finished.session_id, SMALL, CellState.DONE)
    store.finish_session(finished.session_id)
    wrong = RoundResult(problem=LOSSY, config=DIRECT, state=TrialState.WRONG_RESULT, message="1 wrong", wrong=WRONG)
    store.add_round(running.session_id, [wrong])
    store.mark_cell(running.session_id, LOSSY, CellState.FAILED)
    text = '{"schema_version": 1}\n'
    store.add_table(finished.session_id, text, "f1", "d1", backend="native", host_fingerprints=["h1"])


def check(store: TrialStore) -> None:
    """What ``fill`` wrote is there, and work goes on from it."""
    assert store.topology("f1") == "{}"
    finished, running = store.sessions()
    assert (finished.state, running.state) == (SessionState.FINISHED, SessionState.RUNNING)
    assert (running.plan_text, running.environment, running.command) == (NEW.plan_text, NEW.environment, NEW.command)
    assert store.resumable(NEW.plan_digest, NEW.fingerprint, environment_digest(NEW.environment)) == running
    ring, tree, wrong = store.trials()
    assert (ring.problem, ring.config, ring.state, len(ring.samples)) == (SMALL, RING, TrialState.OK, 3)
    assert ring.samples[-1] == STEADY
    assert (tree.config, tree.state, tree.message) == (TREE, TrialState.TIMEOUT, "5 s")
    assert tree.samples[0].time_us == 3.0000000000000004
    assert (wrong.problem, wrong.config, wrong.wrong) == (LOSSY, DIRECT, WRONG)
    assert store.done_cells(finished.session_id) == {SMALL: CellState.DONE}
    assert store.done_cells(running.session_id) == {LOSSY: CellState.FAILED}
    (table,) = store.tables()
    assert (table.version, table.session_id, table.table_json) == (1, 1, '{"schema_version": 1}\n')
    # Since version 4; the text of the older ones does not say.
    assert (table.backend, store.newest_table("h1", "native")) in [(None, None), ("native", table)]
    # Digests are made as they were: the old trial is found again, and not opened twice.
    store.add_round(running.session_id, [RoundResult(problem=LOSSY, config=DIRECT, sample=STEADY)])
    assert [trial.trial_id for trial in store.trials(problem=LOSSY)] == [wrong.trial_id]
    store.add_round(running.session_id, [timed(LARGE, RING, 0)])
    assert len(store.trials()) == 4


def ddl(connection: sqlalchemy.Connection) -> dict[str, list[str]]:
    """Each table and index as SQLite keeps it, in lines without order: columns, constraints, options."""
    rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: parts(sql) for name, sql in rows if name not in ("sqlite_sequence", schema.VERSION_TABLE)}


def parts(sql: str) -> list[str]:
    # A column that was added later stands behind the last one, in its line.
    lines = (line.strip().rstrip(",").replace('"', "") for line in sql.replace(", ", ",\n").splitlines())
    return sorted(line for line in lines if line)


def test_the_migrations_make_what_the_models_say() -> None:
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        said = ddl(connection)
        Base.metadata.drop_all(connection)
        schema.upgrade(connection)
        assert ddl(connection) == said
    engine.dispose()


def test_the_newest_migration_has_the_schemas_version() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [f"{SCHEMA_VERSION:04}"]


def test_a_newer_schema_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    open_store(str(path)).close()
    set_version(path, "0037")
    content = path.read_bytes()
    with pytest.raises(StoreError, match=rf"version 37.* up to {SCHEMA_VERSION}") as caught:
        open_store(str(path))
    assert "pip install --upgrade" in caught.value.remedy
    assert path.read_bytes() == content


@pytest.mark.parametrize("number", ["", "abc", "-1", "1.5"])
def test_a_schema_version_that_is_no_number_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "trials.sqlite"
    open_store(str(path)).close()
    set_version(path, number)
    with pytest.raises(StoreError, match="is not one number"):
        open_store(str(path))


def set_version(path: Path, number: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {schema.VERSION_TABLE} SET version_num = ?", (number,))


def update_golden() -> None:
    path = GOLDEN / f"v{SCHEMA_VERSION}.sqlite"
    path.unlink(missing_ok=True)
    with closing(open_store(str(path))) as store:
        fill(store)
    path.chmod(0o644)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_store_of_each_version_is_upgraded_and_read(tmp_path: Path, version: int) -> None:
    if version == SCHEMA_VERSION and os.environ.get("UPDATE_GOLDEN") == "1":
        update_golden()
    path = tmp_path / "trials.sqlite"
    shutil.copyfile(GOLDEN / f"v{version}.sqlite", path)
    with closing(open_store(str(path))) as store:
        check(store)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    kept = path.with_name(f"trials.sqlite.v{version}")
    assert list(tmp_path.iterdir()) == [path] if version == SCHEMA_VERSION else sorted([path, kept])
    if version != SCHEMA_VERSION:
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert schema_of(kept) == f"{version:04}"
        assert rows_of(kept) == rows_of(GOLDEN / f"v{version}.sqlite")


def schema_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute(f"SELECT version_num FROM {schema.VERSION_TABLE}").fetchone()[0])


def rows_of(path: Path) -> list[str]:
    # A copy: to look at a golden file would leave a log beside it.
    with closing(sqlite3.connect(":memory:")) as copy:
        with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
            connection.backup(copy)
        return list(copy.iterdump())


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_a_server_of_each_version_is_upgraded_and_read(postgres_url: str, version: int) -> None:
    golden = GOLDEN / f"v{version}.postgresql.sql"
    if version == SCHEMA_VERSION and os.environ.get("UPDATE_GOLDEN") == "1":
        with closing(open_store(postgres_url)) as store:
            fill(store)
        golden.write_text(dump(postgres_url), "utf-8")
    else:
        engine = sqlalchemy.create_engine(postgres_url)
        with engine.begin() as connection:
            connection.exec_driver_sql(golden.read_text("utf-8").replace("%", "%%"))
        engine.dispose()
    with closing(open_store(postgres_url)) as store:
        check(store)
    assert status(postgres_url).is_current


def test_an_old_table_is_known_by_the_backend_and_the_hosts_that_its_text_names(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    shutil.copyfile(GOLDEN / "v3.sqlite", path)
    named = '{"defaults": {"backend": "torch"}, "host_fingerprints": ["f2", "h2", 7]}'
    odd = ['{"defaults": {"backend": 3}, "host_fingerprints": "h3"}', "[" * 100_000, "[]", '{"defaults": []}', "cut o"]
    with closing(sqlite3.connect(path)) as connection, connection:
        statement = "INSERT INTO tables (fingerprint, digest, created_at, table_json) VALUES ('f2', 'd', '2026', ?)"
        connection.executemany(statement, [(text,) for text in (named, *odd)])
    with closing(open_store(str(path))) as store:
        assert [table.backend for table in store.tables()] == [None, "torch", *[None] * len(odd)]
        torch = store.tables()[1]
        assert store.newest_table("f2", "torch") == store.newest_table("h2") == torch
        assert store.newest_table("h3") is None


def test_a_file_that_cannot_be_copied_is_not_upgraded(tmp_path: Path) -> None:
    path, in_the_way = tmp_path / "trials.sqlite", tmp_path / "trials.sqlite.v1"
    shutil.copyfile(GOLDEN / "v1.sqlite", path)
    in_the_way.mkdir()
    with pytest.raises(StoreError, match="no copy of it can be made: Is a directory") as caught:
        open_store(str(path))
    assert "room" in caught.value.remedy
    assert schema_of(path) == "0001"
    assert sorted(tmp_path.iterdir()) == [path, in_the_way]


def test_upgrading_on_purpose_says_what_was_done(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    shutil.copyfile(GOLDEN / "v1.sqlite", path)
    done = upgrade_store(str(path))
    assert (done.before, done.after, done.backup) == (1, SCHEMA_VERSION, tmp_path / "trials.sqlite.v1")
    assert upgrade_store(str(path)) == Upgrade(before=SCHEMA_VERSION, after=SCHEMA_VERSION)
    with pytest.raises(StoreError, match="there is no database"):
        upgrade_store(str(tmp_path / "other.sqlite"))
    assert not (tmp_path / "other.sqlite").exists()


NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{next:04}"
down_revision = "{last:04}"


def upgrade():
    with op.batch_alter_table("trials", table_kwargs={{"sqlite_autoincrement": True}}) as batch:
        batch.add_column(sa.Column("note", sa.String, nullable=True))
        batch.drop_constraint(op.f("ck_trials_memory"), type_="check")
    {then}
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations in another place, with room for one more."""
    place = tmp_path / "100% of it"
    shutil.copytree(schema.MIGRATIONS, place, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(schema, "MIGRATIONS", place)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    return place / "versions" / "next.py"


def test_an_upgrade_that_copies_a_table_keeps_every_row(tmp_path: Path, next_version: Path) -> None:
    path = tmp_path / "trials.sqlite"
    shutil.copyfile(GOLDEN / f"v{SCHEMA_VERSION}.sqlite", path)
    next_version.write_text(NEXT.format(last=SCHEMA_VERSION, next=SCHEMA_VERSION + 1, then="pass"))
    with closing(open_store(str(path))) as store:
        check(store)
    with closing(sqlite3.connect(path)) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'trials'").fetchone()
        assert "note" in sql
        assert "AUTOINCREMENT" in sql
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path, next_version: Path) -> None:
    path = tmp_path / "trials.sqlite"
    shutil.copyfile(GOLDEN / f"v{SCHEMA_VERSION}.sqlite", path)
    next_version.write_text(NEXT.format(last=SCHEMA_VERSION, next=SCHEMA_VERSION + 1, then="raise RuntimeError('bug')"))
    with pytest.raises(RuntimeError, match="bug"):
        open_store(str(path))
    next_version.unlink()
    with closing(sqlite3.connect(path)) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'trials'").fetchone()
        assert "note" not in sql
        assert connection.execute(f"SELECT * FROM {schema.VERSION_TABLE}").fetchall() == [(f"{SCHEMA_VERSION:04}",)]


def test_rules_name_trials_by_ids_that_are_never_given_out_twice(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with closing(open_store(str(path))) as store:
        session_id = opened(store).session_id
        store.add_round(session_id, [timed(SMALL, RING, 0), timed(SMALL, TREE, 0)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM samples")
        connection.execute("DELETE FROM trials")
    with closing(open_store(str(path))) as store:
        store.add_round(session_id, [timed(SMALL, RING, 1)])
        assert store.trials()[0].trial_id == 3


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE trials SET state = 'odd', message = 'why'", "trialstate"),
        ("UPDATE trials SET error = 0.1", "fidelity"),
        ("UPDATE trials SET error = -0.1, density = 1", "fidelity"),
        ("UPDATE trials SET state = 'timeout'", "message"),
        ("UPDATE trials SET message = 'why'", "message"),
        ("UPDATE trials SET wrong_rank = 1", "wrong"),
        ("UPDATE trials SET wrong_index = 1", "wrong_whole"),
        ("UPDATE trials SET segment_bytes = 0", "segment_bytes"),
        ("UPDATE trials SET op_class = NULL", "computes"),
        ("UPDATE trials SET n_ranks = 0", "problem"),
        ("UPDATE trials SET collective = 'gossip'", "collective"),
        ("UPDATE samples SET time_us = 0", "sample"),
        ("UPDATE samples SET kind = 'odd'", "samplekind"),
        ("UPDATE sessions SET state = 'finished'", "finished_at"),
        ("UPDATE trials SET session_id = 9", "FOREIGN KEY"),
        ("DELETE FROM sessions", "FOREIGN KEY"),
        ("DELETE FROM trials", "FOREIGN KEY"),
        ("INSERT INTO samples SELECT * FROM samples", "UNIQUE"),
    ],
)
def test_the_database_itself_refuses_nonsense(tmp_path: Path, statement: str, constraint: str) -> None:
    path = tmp_path / "trials.sqlite"
    with closing(open_store(str(path))) as store:
        store.add_round(opened(store).session_id, [timed(Problem(key=KEY, message_bytes=8), RING, 0)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        with pytest.raises(sqlite3.IntegrityError, match=constraint):
            connection.execute(statement)


def test_an_up_to_date_store_opens_without_alembic(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    open_store(str(path)).close()
    program = "import sys, autotune.db as db; db.open_store(sys.argv[1]).close(); print('alembic' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert output == "False\n"
