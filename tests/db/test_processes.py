"""Several processes on one store, processes that die, disks that fill: real ones, each wait with a time-out."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy
from postgres_server import NoServer, Server, running_server
from store_kills import kill_and_count
from store_writers import TIMEOUT_S, rounds_stored, writer

from autotune.db import SessionState, open_store
from autotune.errors import StoreError


@pytest.mark.parametrize("n_tuners", [1, 4])
def test_tuners_make_and_write_one_store_at_once(shared_url: str, n_tuners: int) -> None:
    """Four processes, with a tuner each in one, or with four in one each."""
    n_writers, n_rounds = 4, 10
    with ExitStack() as stack:
        writers = [
            stack.enter_context(writer(shared_url, n_rounds=n_rounds, n_tuners=n_tuners)) for _ in range(n_writers)
        ]
        for process in writers:
            process.start()
        for process in writers:
            assert process.end()[1] == ""
            assert process.process.returncode == 0
    with closing(open_store(shared_url)) as store:
        sessions = store.sessions()
        assert len(sessions) == n_writers * n_tuners
        assert {rounds_stored(store, session.session_id) for session in sessions} == {n_rounds}


def test_kill_9_loses_no_acknowledged_round_and_the_run_goes_on(shared_url: str) -> None:
    kill_and_count(shared_url, 5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kill_9_two_hundred_times(shared_url: str) -> None:
    assert kill_and_count(shared_url, 200, seed=2) > 1000


def test_a_killed_writer_leaves_a_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    kill_and_count(str(path), 2, seed=3)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_store_that_another_process_locks_is_an_error_after_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with closing(open_store(str(path))), closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with writer(path, n_rounds=1, wait_s=0.05) as process:
            process.start()
            _, errors = process.end()
        assert process.process.returncode == 1
        assert f"error: {path} is locked by another process" in errors
        assert "try: " in errors
        assert "Traceback" not in errors
        other.execute("ROLLBACK")
        with writer(path, n_rounds=1, wait_s=0.05) as process:
            process.start()
            assert process.end()[1] == ""


def test_a_file_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        # What the first process holds while it makes the tables; SQLite itself does not wait for it on the way to WAL.
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked by another process"):
            open_store(str(path), wait_s=0.05)
        done = threading.Timer(0.2, other.execute, ["ROLLBACK"])
        done.start()
        open_store(str(path)).close()
        done.join(timeout=TIMEOUT_S)


def test_a_file_that_may_not_grow_is_an_error_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with writer(path, n_rounds=0) as process:
        process.start()
        session_id = int(process.line())
        resource.prlimit(process.process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        rounds, errors = process.end()
    assert process.process.returncode == 1
    assert f"error: {path} cannot be read or written" in errors
    assert "Traceback" not in errors
    with closing(open_store(str(path))) as store:
        assert rounds_stored(store, session_id) == len(rounds) > 0


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """1 MiB of disk."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)], capture_output=True, timeout=TIMEOUT_S
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield directory
    finally:
        # Lazy: a test that fails with the file still open must not leave the mount behind.
        subprocess.run(["umount", "--lazy", str(directory)], check=True, timeout=TIMEOUT_S)


def test_a_full_disk_is_an_error_and_the_run_goes_on_once_there_is_room(tiny_disk: Path) -> None:
    path, ballast = tiny_disk / "trials.sqlite", tiny_disk / "ballast"
    ballast.write_bytes(bytes(512 << 10))
    with writer(path, n_rounds=0) as process:
        process.start()
        session_id = int(process.line())
        rounds, errors = process.end()
    assert process.process.returncode == 1
    assert f"error: {path} has no room: the disk is full" in errors
    assert "Traceback" not in errors
    ballast.unlink()
    with writer(path, n_rounds=0) as process:
        process.start()
        assert int(process.line()) == session_id
        assert int(process.line()) == len(rounds) > 0


def test_a_new_store_on_a_full_disk_is_an_error_and_is_made_once_there_is_room(tiny_disk: Path) -> None:
    path, ballast = tiny_disk / "trials.sqlite", tiny_disk / "ballast"
    ballast.write_bytes(bytes(1000 << 10))
    with pytest.raises(StoreError, match=r"has no room|cannot be read or written") as caught:
        open_store(str(path))
    assert "space" in caught.value.remedy
    ballast.unlink()
    with closing(open_store(str(path))) as store:
        assert store.sessions() == []


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that may be stopped."""
    try:
        with running_server() as server:
            yield server
    except NoServer as err:
        pytest.skip(f"needs a PostgreSQL server: {err}")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["orderly", "crash"])
def test_a_server_that_restarts_in_the_middle_is_waited_for_and_nothing_is_lost_or_doubled(
    own_server: Server, how: signal.Signals
) -> None:
    n_rounds = 60
    with writer(own_server.url, n_rounds=-n_rounds) as process:
        process.start()
        session_id = int(process.line())
        for _ in range(5):
            process.line()
        own_server.stop(how)
        own_server.start()
        lines, errors = process.end()
    assert (process.process.returncode, errors, lines[-1]) == (0, "", str(n_rounds - 1))
    with closing(open_store(own_server.url)) as store:
        (session,) = store.sessions()
        assert (session.session_id, session.state) == (session_id, SessionState.FINISHED)
        assert rounds_stored(store, session_id) == n_rounds


def test_a_server_that_stays_away_is_an_error_and_what_was_acknowledged_is_there_later(own_server: Server) -> None:
    with writer(own_server.url, n_rounds=0, wait_s=0.2) as process:
        process.start()
        session_id = int(process.line())
        process.line()
        own_server.stop(signal.SIGQUIT)
        lines, errors = process.end()
    assert process.process.returncode == 1
    assert "refuses: " in errors
    assert "check that the server runs" in errors
    assert "Traceback" not in errors
    own_server.start()
    with closing(open_store(own_server.url)) as store:
        assert rounds_stored(store, session_id) >= 1 + len(lines)


def test_a_store_outlives_a_restart_between_two_verbs(own_server: Server) -> None:
    with closing(open_store(own_server.url)) as store:
        store.add_topology("f1", "{}")
        own_server.stop()
        own_server.start()
        assert store.topology("f1") == "{}"


def test_a_lock_that_is_never_let_go_is_an_error_after_the_wait(postgres_url: str) -> None:
    with closing(open_store(postgres_url, wait_s=0.1)) as store:
        engine = sqlalchemy.create_engine(postgres_url)
        try:
            with engine.begin() as other:
                other.exec_driver_sql("LOCK TABLE topologies")
                with pytest.raises(StoreError, match="is locked by another process"):
                    store.add_topology("f1", "{}")
            store.add_topology("f1", "{}")
        finally:
            engine.dispose()
