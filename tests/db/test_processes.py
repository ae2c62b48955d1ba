"""Several processes on one store, processes that die, disks that fill: real ones, each wait with a time-out."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from autotune.db import SessionState, TrialStore, open_store
from autotune.errors import StoreError

N_CONFIGS = 30
TIMEOUT_S = 60
WRITER = Path(__file__).with_name("writer.py")


@contextmanager
def writer(url: str, *, n_rounds: int, wait_s: float = 30.0) -> Iterator[subprocess.Popen[str]]:
    """A writer that has imported everything and waits for a line before it opens the store."""
    process = subprocess.Popen(
        [sys.executable, str(WRITER), url, str(n_rounds), str(wait_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate(timeout=TIMEOUT_S)
            yield process
        finally:
            process.kill()


def rounds_stored(store: TrialStore, session_id: int) -> int:
    """The number of rounds, each of which must be there for all configs."""
    counts = Counter(sample.round for trial in store.trials(session_id=session_id) for sample in trial.samples)
    assert set(counts.values()) <= {N_CONFIGS}
    assert sorted(counts) == list(range(len(counts)))
    return len(counts)


def test_processes_make_and_write_one_store_at_once(url: str) -> None:
    if url == "sqlite://":
        pytest.skip("memory belongs to one process")
    n_writers, n_rounds = 4, 25
    with (
        writer(url, n_rounds=n_rounds) as a,
        writer(url, n_rounds=n_rounds) as b,
        writer(url, n_rounds=n_rounds) as c,
        writer(url, n_rounds=n_rounds) as d,
    ):
        for process in (a, b, c, d):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in (a, b, c, d):
            _, errors = process.communicate(timeout=TIMEOUT_S)
            assert (process.returncode, errors) == (0, "")
    with closing(open_store(url)) as store:
        sessions = store.sessions()
        assert len(sessions) == n_writers
        assert [rounds_stored(store, session.session_id) for session in sessions] == [n_rounds] * n_writers


def test_kill_9_loses_no_round_that_add_round_returned_from(tmp_path: Path) -> None:
    path = str(tmp_path / "trials.sqlite")
    n_before = 0
    for n_acknowledged in (0, 1, 7, 20, 3):
        with writer(path, n_rounds=0) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            session_id = int(process.stdout.readline())
            for _ in range(n_acknowledged):
                process.stdout.readline()
            process.kill()
            # The rounds that were acknowledged between the last line read here and the kill.
            late = process.communicate(timeout=TIMEOUT_S)[0].splitlines()
            assert process.returncode == -signal.SIGKILL
        acknowledged = n_before + n_acknowledged + len(late)
        with closing(open_store(path)) as store:
            (session,) = store.sessions()
            assert (session.session_id, session.state) == (session_id, SessionState.RUNNING)
            n_before = rounds_stored(store, session_id)
        assert acknowledged <= n_before <= acknowledged + 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


def test_a_store_that_another_process_locks_is_an_error_after_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with closing(open_store(str(path))), closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with writer(str(path), n_rounds=1, wait_s=0.05) as process:
            _, errors = process.communicate("\n", timeout=TIMEOUT_S)
        assert process.returncode == 1
        assert f"error: {path} is locked by another process" in errors
        assert "try: " in errors
        assert "Traceback" not in errors
        other.execute("ROLLBACK")
        with writer(str(path), n_rounds=1, wait_s=0.05) as process:
            process.communicate("\n", timeout=TIMEOUT_S)
        assert process.returncode == 0


def test_a_file_that_may_not_grow_is_an_error_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    with writer(str(path), n_rounds=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        session_id = int(process.stdout.readline())
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert f"error: {path} cannot be read or written" in errors
    assert "Traceback" not in errors
    with closing(open_store(str(path))) as store:
        assert rounds_stored(store, session_id) == len(output.splitlines()) > 0


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
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
        subprocess.run(["umount", str(directory)], check=True, timeout=TIMEOUT_S)


def test_a_full_disk_is_an_error_and_the_same_round_goes_in_once_there_is_room(tiny_disk: Path) -> None:
    path, ballast = tiny_disk / "trials.sqlite", tiny_disk / "ballast"
    ballast.write_bytes(bytes(512 << 10))
    with writer(str(path), n_rounds=0) as process:
        output, errors = process.communicate("\n", timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert f"error: {path} has no room: the disk is full" in errors
    assert "Traceback" not in errors
    ballast.unlink()
    with closing(open_store(str(path))) as store:
        (session,) = store.sessions()
        assert rounds_stored(store, session.session_id) == len(output.splitlines()) - 1 > 0
        store.finish_session(session.session_id)
        assert store.sessions()[0].state is SessionState.FINISHED


def test_a_new_store_on_a_full_disk_is_an_error_and_is_made_once_there_is_room(tiny_disk: Path) -> None:
    path, ballast = tiny_disk / "trials.sqlite", tiny_disk / "ballast"
    ballast.write_bytes(bytes(1000 << 10))
    with pytest.raises(StoreError, match="has no room|cannot be read or written") as caught:
        open_store(str(path))
    assert "space" in caught.value.remedy
    ballast.unlink()
    with closing(open_store(str(path))) as store:
        assert store.sessions() == []
