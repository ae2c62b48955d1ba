"""Where output goes, and what happens when it cannot go there."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from cli.session import TIMEOUT_S, Here, Shell
from rich.text import Text

from autotune.cli.output import complain, show, write_file
from autotune.errors import AutotuneError

ESCAPE = "\x1b"
READING = [
    ["algorithms"],
    ["algorithms", "--ranks", "6"],
    ["settings"],
    ["doctor"],
    ["show"],
    ["explain", "broadcast", "1KiB", "--ranks", "2"],
    ["explain", "all_reduce", "1KiB", "--ranks", "7"],
    ["run", "--dry-run", "--quick"],
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_json_is_one_document_and_nothing_else(tuned_here: Here, words: list[str]) -> None:
    found = tuned_here(*words, "--json")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_text_in_a_file_has_no_colours_no_trailing_blanks_and_no_lines_broken_at_eighty(
    tuned_here: Here, words: list[str]
) -> None:
    found = tuned_here(*words)
    assert (found.code, found.err) == (0, "")
    assert ESCAPE not in found.out
    assert not [line for line in found.out.splitlines() if line != line.rstrip()]


def test_long_words_are_not_broken_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    show(Text("word " * 60))
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize("words", [["algorithms"], ["algorithms", "--json"], ["--help"]])
def test_a_reader_that_goes_away_is_no_error(shell: Shell, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            shell.command(*words),
            env=shell.environment,
            cwd=shell.home,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
        )
    finally:
        os.close(writing)
    assert done.stderr == ""
    assert done.returncode in (1, 141)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["algorithms"], ["algorithms", "--json"], ["--version"]])
def test_output_to_a_full_disk_is_an_error(shell: Shell, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            shell.command(*words),
            env=shell.environment,
            cwd=shell.home,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: standard output cannot be written: No space left on device",
        "try: send it to a disk with room",
    ]


def test_an_error_is_two_lines_whatever_stands_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    complain("a\nb\x1b[31m\x00\u202e", "c\r\nd")
    assert capsys.readouterr().err == "error: a b\\x1b[31m\\x00\\x202e\ntry: c  d\n"


def test_a_file_is_written_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("before", "utf-8")
    write_file(str(path), "after\n")
    assert path.read_text("utf-8") == "after\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["", "nowhere/out", "\0", "x" * 300])
def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AutotuneError, match="cannot be written") as caught:
        write_file(name, "text")
    assert caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_bug_keeps_its_traceback(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("autotune.settings.read", broken)
    with pytest.raises(AssertionError, match="a bug"):
        here("settings")


def test_the_trial_database_is_private(tuned: Shell) -> None:
    assert stat.S_IMODE(tuned.database.stat().st_mode) == 0o600
