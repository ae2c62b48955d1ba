"""A SQLite file as a store: private, and an error with a remedy for every file that cannot be one."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from store_contract import RING, SMALL, opened, timed

from autotune.db import open_store
from autotune.errors import StoreError

NOBODY = 65534


@contextmanager
def without_root() -> Iterator[None]:
    """Root may write everywhere, so root steps down for the block."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(NOBODY)
    except OSError:
        pytest.skip("needs a user that is not root")
    try:
        yield
    finally:
        os.seteuid(0)


def filled(path: Path, *, n_rounds: int = 40) -> Path:
    """A store of some tens of pages at ``path``."""
    with closing(open_store(str(path))) as store:
        session_id = opened(store).session_id
        for round_ in range(n_rounds):
            store.add_round(session_id, [timed(SMALL, RING, round_)])
        store.add_table(session_id, "{}" * 20_000, "f1", "d1", backend="native")
    return path


def refusal(path: Path | str) -> StoreError:
    """The error of opening, which must change nothing and leave nothing open."""
    before = Path(path).read_bytes() if os.path.isfile(path) else None
    with pytest.raises(StoreError) as caught:
        open_store(str(path))
    assert str(path) in caught.value.message
    assert caught.value.remedy
    if before is not None:
        assert Path(path).read_bytes() == before
    assert not [name for name in open_files() if name.startswith(str(path))]
    return caught.value


def open_files() -> list[str]:
    """What this process has open; the listing's own descriptor is gone by the time that it is read."""
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.islink(link)]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_and_its_directory_are_private(tmp_path: Path) -> None:
    path = tmp_path / "data" / "trials.sqlite"
    with closing(open_store(str(path))) as store:
        opened(store)
        assert {entry.name: mode(entry) for entry in path.parent.iterdir()} == {
            "trials.sqlite": 0o600,
            "trials.sqlite-wal": 0o600,
            "trials.sqlite-shm": 0o600,
        }
    assert mode(path.parent) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_a_link_to_a_missing_file_makes_that_file_private(tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "there" / "trials.sqlite")
    open_store(str(link)).close()
    assert link.is_symlink()
    assert mode(tmp_path / "there" / "trials.sqlite") == 0o600


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "trials.sqlite"
    path.touch()
    with closing(open_store(str(path))) as store:
        assert store.sessions() == []


def test_what_was_stored_is_there_after_opening_again(tmp_path: Path) -> None:
    path = filled(tmp_path / "trials.sqlite")
    with closing(open_store(str(path))) as store:
        assert len(store.trials()[0].samples) == 40


@pytest.mark.parametrize(
    "content",
    [
        b"sizes: 8-64MiB\n",
        b"\xef\xbb\xbfsizes: 8\r\n",
        bytes(4096),
        b"SQLite format 3\0" + b"\xff" * 8176,
        b"x" * (1 << 20),
    ],
    ids=["text", "bom-crlf", "nul", "header-only", "1MiB"],
)
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trials.sqlite"
    path.write_bytes(content)
    assert "is not a database" in refusal(path).message


def test_a_truncated_store_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path / "trials.sqlite")
    os.truncate(path, path.stat().st_size // 2)
    error = refusal(path)
    assert "is damaged" in error.message
    assert ".recover" in error.remedy


def test_a_damaged_page_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    path = filled(tmp_path / "trials.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (root_page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'trials'").fetchone()
    with path.open("r+b") as file:
        file.seek((root_page - 1) * page_bytes)
        file.write(b"\xa5" * page_bytes)
    assert "is damaged" in refusal(path).message


def test_damage_in_a_file_too_large_to_check_is_reported_where_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.db.schema._CHECKED_BYTES", 0)
    path = filled(tmp_path / "trials.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (root_page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'samples'").fetchone()
    with path.open("r+b") as file:
        file.seek((root_page - 1) * page_bytes)
        file.write(b"\xa5" * page_bytes)
    with closing(open_store(str(path))) as store:
        assert len(store.sessions()) == 1
        with pytest.raises(StoreError, match="is damaged"):
            store.trials()


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE visits (url TEXT)")
    assert "visits" in refusal(path).message


@pytest.mark.parametrize(
    "make",
    [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)],
    ids=["directory", "fifo", "link-to-itself"],
)
def test_what_is_not_a_file_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "trials.sqlite"
    make(path)
    refusal(path)


def test_a_path_below_a_file_or_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refusal(tmp_path / "file" / "trials.sqlite")
    refusal(tmp_path / ("x" * 300))


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that everybody may enter, which pytest's own are not."""
    # Loads what SQLAlchemy and alembic import late, which nobody may not be allowed to read.
    open_store("sqlite://").close()
    with TemporaryDirectory(dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def test_a_new_file_in_a_read_only_directory_is_refused(open_directory: Path) -> None:
    open_directory.chmod(0o555)
    with without_root():
        assert "Permission denied" in refusal(open_directory / "trials.sqlite").message
        assert "Permission denied" in refusal(open_directory / "data" / "trials.sqlite").message
    open_directory.chmod(0o755)
    assert list(open_directory.iterdir()) == []


def test_a_read_only_file_is_refused_before_anything_is_measured(open_directory: Path) -> None:
    path = filled(open_directory / "trials.sqlite")
    path.chmod(0o444)
    open_directory.chmod(0o777)
    with without_root(), closing(open_store(str(path))) as store:
        assert len(store.sessions()) == 1
        with pytest.raises(StoreError, match="read-only") as caught:
            opened(store)
    assert "writable" in caught.value.remedy


def test_a_read_only_file_in_a_read_only_directory_is_refused(open_directory: Path) -> None:
    path = filled(open_directory / "trials.sqlite")
    path.chmod(0o444)
    open_directory.chmod(0o555)
    with without_root():
        assert "writable" in refusal(path).remedy
    open_directory.chmod(0o755)


def test_a_file_that_may_not_be_read_is_refused(open_directory: Path) -> None:
    path = filled(open_directory / "trials.sqlite")
    path.chmod(0o000)
    with without_root():
        with pytest.raises(StoreError, match="cannot be opened") as caught:
            open_store(str(path))
        assert "writable" in caught.value.remedy
