"""Several processes on one store, processes that die, disks that fill: real ones, each wait with a time-out."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from autotune.db import TrialStore, open_store
from autotune.errors import StoreError

N_CONFIGS = 30
TIMEOUT_S = 60
PROGRAM = Path(__file__).with_name("writer.py")


class Writer:
    """A process that runs writer.py. Its pipe is read in one way only: a second one would miss what is buffered."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.stdin, self.stdout, self.stderr = process, process.stdin, process.stdout, process.stderr

    def start(self) -> None:
        """Let it open the store."""
        self.stdin.write("\n")
        self.stdin.flush()

    def line(self) -> str:
        return self.stdout.readline()

    def end(self) -> tuple[list[str], str]:
        """Wait for the end; the lines not yet read, and the errors."""
        lines, errors = self.stdout.read().splitlines(), self.stderr.read()
        self.process.wait(timeout=TIMEOUT_S)
        return lines, errors


@contextmanager
def writer(url: Path | str, *, n_rounds: int, wait_s: float = 30.0) -> Iterator[Writer]:
    """A writer that has imported everything and waits for its start; killed at the end of the block, or too late."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(url), str(n_rounds), str(wait_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    late = threading.Timer(TIMEOUT_S, process.kill)
    late.start()
    with process:
        try:
            made = Writer(process)
            assert made.line() == "ready\n", made.end()
            yield made
        finally:
            late.cancel()
            process.kill()


def rounds_stored(store: TrialStore, session_id: int) -> int:
    """The number of rounds, each of which must be there for all configs."""
    counts = Counter(sample.round for trial in store.trials(session_id=session_id) for sample in trial.samples)
    assert set(counts.values()) <= {N_CONFIGS}
    assert sorted(counts) == list(range(len(counts)))
    return len(counts)


def test_processes_make_and_write_one_store_at_once(shared_url: str) -> None:
    n_writers, n_rounds = 4, 25
    with ExitStack() as stack:
        writers = [stack.enter_context(writer(shared_url, n_rounds=n_rounds)) for _ in range(n_writers)]
        for process in writers:
            process.start()
        for process in writers:
            assert process.end()[1] == ""
            assert process.process.returncode == 0
    with closing(open_store(shared_url)) as store:
        sessions = store.sessions()
        assert len(sessions) == n_writers
        assert [rounds_stored(store, session.session_id) for session in sessions] == [n_rounds] * n_writers


def test_kill_9_loses_no_round_that_add_round_returned_from(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    n_stored = 0
    for n_awaited in (0, 1, 7, 20, 3):
        with writer(path, n_rounds=0) as process:
            process.start()
            session_id = int(process.line())
            lines = [process.line() for _ in range(n_awaited)]
            process.process.kill()
            n_acknowledged = n_stored + len(lines) + len(process.end()[0])
            assert process.process.returncode == -signal.SIGKILL
        with closing(open_store(str(path))) as store:
            (session,) = store.sessions()
            assert session.session_id == session_id
            n_stored = rounds_stored(store, session_id)
        # The round that was running may have been stored without having been acknowledged.
        assert n_acknowledged <= n_stored <= n_acknowledged + 1
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
