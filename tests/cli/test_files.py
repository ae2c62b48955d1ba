"""Tables and databases that cannot be used: an ``error:`` and a ``try:`` line, and nothing that was there is lost."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cli.session import TIMEOUT_S, Here, Shell

from autotune.db import open_store

NOBODY = 65534
TINY = ("run", "--collective", "broadcast", "--sizes", "1K", "--ranks", "2")


def newer(path: Path) -> None:
    open_store(str(path)).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE autotune_schema SET version_num = '9999'")


def corrupt(path: Path) -> None:
    open_store(str(path)).close()
    path.write_bytes(path.read_bytes()[:5000] + b"\xa5" * 5000)


BROKEN_DATABASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "not-a-database": (lambda path: path.write_text("sizes: 8\n"), "is not a database"),
    "corrupt": (corrupt, "is damaged"),
    "newer": (newer, "schema version 9999"),
    "directory": (Path.mkdir, "is not a file"),
    "pipe": (os.mkfifo, "is not a file"),
}


@pytest.mark.parametrize("kind", BROKEN_DATABASES)
def test_a_database_that_cannot_be_used_is_refused_and_left_as_it_is(here: Here, tmp_path: Path, kind: str) -> None:
    make, says = BROKEN_DATABASES[kind]
    path = tmp_path / "trials.sqlite"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    here(*TINY, "--db", str(path)).assert_refused(str(path), says)
    assert before is None or path.read_bytes() == before
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("kind", ["not-a-database", "corrupt", "newer"])
def test_explain_refuses_such_a_database_too(tuned_here: Here, tmp_path: Path, kind: str) -> None:
    make, says = BROKEN_DATABASES[kind]
    path = tmp_path / "trials.sqlite"
    make(path)
    words = ("explain", "broadcast", "1KiB", "--ranks", "2", "--db", str(path))
    tuned_here(*words).assert_refused(str(path), says)


@pytest.mark.parametrize("url", ["mysql://me:s3cret@host/db", "postgresql://me:s3cret@host:notaport/db"])
def test_a_url_that_cannot_be_used_is_refused_without_its_password(here: Here, url: str) -> None:
    found = here(*TINY, "--db", url)
    found.assert_refused("try: ")
    assert "s3cret" not in found.err


@contextmanager
def without_root() -> Iterator[None]:
    """Root may write everywhere, so root steps down for the block."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_database_is_refused_and_left_as_it_is(here: Here) -> None:
    here("show")  # loads what nobody may not be allowed to read
    open_store("sqlite://").close()
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        path = folder / "trials.sqlite"
        open_store(str(path)).close()
        before = path.read_bytes()
        path.chmod(0o444)
        folder.chmod(0o555)
        with without_root():
            found = here(*TINY, "--db", str(path))
        folder.chmod(0o755)
        found.assert_refused(str(path), "writable")
        assert path.read_bytes() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, timeout=TIMEOUT_S
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=TIMEOUT_S)


def test_a_disk_that_fills_up_ends_the_run_and_the_same_command_goes_on(shell: Shell, small_disk: Path) -> None:
    full = replace(shell, variables={"AUTOTUNE_DATA_DIR": str(small_disk)})
    assert full(*TINY).code == 0
    disk, ballast = os.statvfs(small_disk), small_disk / "ballast"
    # Room for a session and some rounds: every round appends two pages or more, and four cells have a hundred rounds.
    ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - (128 << 10)))
    words = ("run", "--collective", "broadcast", "--sizes", "4K,16K,64K,256K", "--ranks", "2")
    full(*words).assert_refused(str(small_disk), "try: free space")
    ballast.unlink()
    with closing(open_store(str(small_disk / "trials.sqlite"))) as store:
        before = {trial.trial_id: trial.samples for trial in store.trials()}
        assert len(store.sessions()) == 2
    assert full(*words, "--json").document["resumed"] is True
    with closing(open_store(str(small_disk / "trials.sqlite"))) as store:
        after = {trial.trial_id: trial.samples for trial in store.trials()}
    assert all(set(samples) <= set(after[trial_id]) for trial_id, samples in before.items())


def edited(text: str) -> str:
    return re.sub(r'"segment_bytes": [0-9]+', '"segment_bytes": 4096', text, count=1)


BROKEN_TABLES: dict[str, tuple[Callable[[str], str], str]] = {
    "truncated": (lambda text: text[: len(text) // 2], "line"),
    "empty": (lambda text: "", "empty"),
    "other-version": (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), "schema"),
    "edited": (edited, "digest"),
    "not-a-table": (lambda text: "[]", ""),
    "nul": (lambda text: text.replace("broadcast", "broad\0cast"), "NUL"),
}


@pytest.mark.parametrize("kind", BROKEN_TABLES)
@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["explain", "broadcast", "1KiB", "--ranks", "2"],
        ["export", "--format", "json"],
        ["bench", "broadcast", "--ranks", "2", "--tuned"],
    ],
    ids=lambda words: words[0],
)
def test_a_table_that_cannot_be_used_is_refused(
    tuned: Shell, tuned_here: Here, tmp_path: Path, kind: str, words: list[str]
) -> None:
    spoil, says = BROKEN_TABLES[kind]
    path = tmp_path / "table.json"
    path.write_text(spoil(tuned.tables[0].read_text("utf-8")), "utf-8")
    before = path.read_bytes()
    tuned_here(*words, "--table", str(path)).assert_refused(str(path), says)
    assert path.read_bytes() == before


def test_a_table_that_is_not_there_is_refused(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here("show", "--table", "nowhere.json").assert_refused("nowhere.json", "no such file")
    monkeypatch.setenv("AUTOTUNE_TABLE", "nowhere.json")
    here("show").assert_refused("AUTOTUNE_TABLE", "nowhere.json")


def test_the_newest_table_of_the_host_is_not_passed_over_when_it_is_broken(tuned: Shell, shell: Shell) -> None:
    shutil.copytree(tuned.home, shell.home, dirs_exist_ok=True)
    newest = shell.tables[0].with_name("v000009.json")
    newest.write_text("{}", "utf-8")
    shell("show").assert_refused(str(newest))
