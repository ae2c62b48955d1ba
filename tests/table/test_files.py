"""A table comes back from its file exactly, or not at all: no path and no content leads to half a table or a hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from table_strategies import ALL_REDUCE_4, FLAT, sample_table, tables

from autotune.errors import AutotuneError, TableFormatError
from autotune.table import TuningTable, dump_table, load_table, parse_table, save_table

GOLDEN = Path(__file__).parents[1] / "golden" / "tables"


@given(table=tables())
def test_what_is_written_comes_back_equal(table: TuningTable) -> None:
    text = dump_table(table)
    back = parse_table(text, "memory")
    assert back == table
    assert list(back.rules) == list(table.rules)
    assert dump_table(back) == text


def test_a_file_comes_back_equal(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "table.json"
    save_table(sample_table(), path)
    assert load_table(path) == sample_table()
    assert load_table(str(path)) == sample_table()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["table.json"]


def test_the_file_is_the_golden_one() -> None:
    """The layout is read in reviews, and files of schema version 1 stay readable."""
    path = GOLDEN / "v1.json"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(dump_table(sample_table()), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == dump_table(sample_table())
    assert load_table(path) == sample_table()


def test_a_changed_rule_changes_its_line_and_the_digest_only() -> None:
    table = sample_table()
    first, second, third = table.rules[ALL_REDUCE_4]
    changed = replace(table, rules={**table.rules, ALL_REDUCE_4: (first, replace(second, config=FLAT), third)})
    pairs = zip(dump_table(table).splitlines(), dump_table(changed).splitlines(), strict=True)
    assert len([1 for old, new in pairs if old != new]) == 2


def test_lines_may_end_in_crlf(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(dump_table(sample_table()).replace("\n", "\r\n").encode())
    assert load_table(path) == sample_table()


def test_numbers_without_a_fraction_are_times_too() -> None:
    text = dump_table(sample_table()).replace('"high_us": 3.0', '"high_us": 3')
    assert parse_table(text, "memory") == sample_table()


GOOD = dump_table(sample_table()).encode()
CONTENTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \r\n\t\n", "the file is empty"),
    "cut off": (GOOD[: len(GOOD) // 2], "cut off"),
    "cut off by a line": (GOOD[: GOOD.rindex(b"}")], "cut off"),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, "byte order mark"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "not UTF-8 text: byte 0"),
    "Latin-1": (GOOD.replace("\N{REGISTERED SIGN}".encode(), b"\xae"), "is 0xae"),
    "NUL": (GOOD.replace(b"3.11.7", b"3.11\0"), "line 10 holds a NUL byte"),
    "zeros after a crash": (b"\0" * 4096, "line 1 holds a NUL byte"),
    "32 MiB and a byte": (b" " * (32 << 20) + b"1", "above 32 MiB"),
    "nested brackets": (b"[" * 1_000_000, "nested too deep"),
    "not JSON": (b"algorithm: ring\n", "line 1, column 1"),
    "a comma too many": (GOOD.replace(b'"rules": [', b'"rules": [,'), "line 12, column 13"),
    "a second document": (GOOD + GOOD, "Extra data"),
    "YAML's dash": (b"- 1\n", "line 1, column 1"),
}


@pytest.mark.parametrize(("content", "words"), CONTENTS.values(), ids=CONTENTS)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(content)
    with pytest.raises(TableFormatError) as caught:
        load_table(path)
    assert words in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.remedy


def missing(folder: Path) -> Path:
    return folder / "none.json"


def directory(folder: Path) -> Path:
    return folder


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def loop(folder: Path) -> Path:
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


def below_a_file(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "table.json"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (missing, "no such file"),
        (directory, "this is a directory"),
        (pipe, "this is a pipe or device"),
        (loop, "cannot be read"),
        (below_a_file, "cannot be read"),
        (lambda _: Path("/dev/zero"), "this is a pipe or device"),
        # A regular file to stat(), whose first page nobody can read, not even root.
        (lambda _: Path("/proc/self/mem"), "cannot be read"),
        (lambda folder: folder / "a\0b", "cannot be read"),
    ],
)
def test_a_path_that_is_no_readable_file_is_an_error(tmp_path: Path, make: Callable[[Path], Path], words: str) -> None:
    path = make(tmp_path)
    with pytest.raises(TableFormatError, match=words) as caught:
        load_table(path)
    assert caught.value.remedy


@pytest.mark.parametrize("make", [directory, below_a_file, lambda _: Path("/proc/none/table.json")])
def test_a_table_that_cannot_be_written_is_an_error_that_leaves_nothing(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    path = make(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(AutotuneError, match="cannot be written") as caught:
        save_table(sample_table(), path)
    assert str(path) in caught.value.message
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_leaves_the_older_table(tmp_path: Path) -> None:
    """A file size limit stands for the full disk: write() fails half-way in the same manner."""
    path = tmp_path / "table.json"
    save_table(sample_table(), path)
    code = (
        "import resource, signal, sys; from autotune.table import load_table, save_table\n"
        "from autotune.errors import AutotuneError\n"
        "table = load_table(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))\n"
        "try: save_table(table, sys.argv[1])\n"
        "except AutotuneError as err: print(err.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "cannot be written" in done.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.json"]
    assert load_table(path) == sample_table()


def test_a_reader_sees_the_old_table_or_the_new_one_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    old, new = sample_table(), replace(sample_table(), rules={})
    save_table(old, path)
    writers = [threading.Thread(target=save_often, args=(path, table)) for table in (old, new)]
    for writer in writers:
        writer.start()
    seen = [load_table(path) for _ in range(200)]
    for writer in writers:
        writer.join(timeout=60)
    assert all(table in (old, new) for table in seen)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.json"]


def save_often(path: Path, table: TuningTable) -> None:
    for _ in range(50):
        save_table(table, path)


def test_a_killed_writer_leaves_the_older_table(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    save_table(sample_table(), path)
    code = (
        "import sys; from autotune.table import load_table, save_table\n"
        "table = load_table(sys.argv[1]); print('writing', flush=True)\n"
        "while True: save_table(table, sys.argv[1])\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL
    assert load_table(path) == sample_table()
