"""The real runner, on real programs: what it returns, what it stands for, and that nothing is left."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from autotune.topology.probes.commands import run_command

PYTHON = sys.executable


def test_standard_output_is_the_answer() -> None:
    assert run_command([PYTHON, "-c", "import sys; print('one'); print('two', file=sys.stderr)"]) == "one"


def test_the_program_s_words_are_english() -> None:
    assert run_command([PYTHON, "-c", "import os; print(os.environ['LC_ALL'])"]) == "C"


def test_nothing_comes_in() -> None:
    assert run_command([PYTHON, "-c", "import sys; print(repr(sys.stdin.read()))"]) == "''"


def test_no_shell_reads_the_words() -> None:
    assert run_command([PYTHON, "-c", "import sys; print(sys.argv[1])", "$HOME; echo `id`"]) == "$HOME; echo `id`"


@pytest.mark.parametrize("words", [["no-such-program-here"], ["/no/such/program"], ["/etc/passwd/program"]])
def test_absent(words: list[str]) -> None:
    assert run_command(words) == "!absent"


def test_denied(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    assert run_command([str(program)]) == "!denied"


def test_a_file_that_is_no_program_is_denied(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\0\1\2\3")
    program.chmod(0o755)
    assert run_command([str(program)]) == "!denied"


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("import sys; sys.exit('\\n  DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\\nmore')", "!exit 1: Drv"),
        ("print('device busy'); raise SystemExit(7)", "!exit 7: device busy"),
        ("raise SystemExit(3)", "!exit 3:"),
        ("import os; os.kill(os.getpid(), 9)", "!exit -9:"),
        ("import sys; sys.exit('x' * 500)", f"!exit 1: {'x' * 197}..."),
    ],
)
def test_a_failure_is_its_code_and_first_line(code: str, answer: str) -> None:
    got = run_command([PYTHON, "-c", code])
    assert got.startswith(answer)
    assert "\n" not in got


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    assert run_command([PYTHON, "-c", "import sys; sys.stdout.buffer.write(b'a\\xffb')"]) == "a\ufffdb"


def test_a_program_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    child = f"import time; file = open({str(fifo)!r}, 'w'); file.write('x'); file.flush(); time.sleep(60)"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run_command([PYTHON, "-c", code], timeout_s=2.0) == "!timeout"
        os.set_blocking(reader, True)
        while os.read(reader, 100):  # returns nothing once the grandchild, the only writer, is gone
            pass
    finally:
        os.close(reader)


def test_a_program_that_closes_its_output_and_stays_is_ended() -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(60)"
    assert run_command([PYTHON, "-c", code], timeout_s=1.0) == "!timeout"


def test_endless_output_is_cut_off() -> None:
    assert run_command([PYTHON, "-c", "while True: print('x' * 65536)"]) == "!too long"
