"""The progress of a run: lines in a file, a bar on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess

import pytest
from cli.session import TIMEOUT_S, Shell

from autotune.cli.progress import RunProgress
from autotune.tune import Progress
from autotune.types import Collective, DType, OpClass, Phase, Problem, RuleKey

FLOAT32 = RuleKey(
    backend="native",
    collective=Collective.ALL_REDUCE,
    dtype=DType.FLOAT32,
    op_class=OpClass.SUM,
    n_ranks=4,
    placement=(4,),
)
BROADCAST = RuleKey(
    backend="native", collective=Collective.BROADCAST, dtype=None, op_class=None, n_ranks=2, placement=(2,)
)


def a_round(key: RuleKey, number: int, left_s: float | None) -> Progress:
    return Progress(
        problem=Problem(key=key, message_bytes=65536),
        phase=Phase.CONFIRM,
        round=number,
        n_configs=3,
        cells_done=5,
        cells_total=12,
        elapsed_s=10.0,
        left_s=left_s,
    )


def test_in_a_file_there_is_one_line_for_each_kind_of_cell(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress() as progress:
        progress.said("reading the host")
        for number in range(20):
            progress.measuring(a_round(FLOAT32, number, None))
        progress.measuring(a_round(BROADCAST, 0, 90.0))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "reading the host",
        "[5/12] all_reduce float32 sum, 4 ranks",
        "[5/12] broadcast, 2 ranks, 1:30 left",
    ]


def read_all(terminal: int) -> str:
    """What a terminal shows until its other end closes."""
    shown = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], TIMEOUT_S)
        if not ready:
            pytest.fail(f"nothing more came in {TIMEOUT_S} s; so far: {shown!r}")
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux says EIO once nobody has the other end
            return shown.decode()
        shown += part


def test_on_a_terminal_a_bar_says_what_is_measured_and_goes_away(shell: Shell) -> None:
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        shell.command("run", "--collective", "broadcast", "--sizes", "16K", "--ranks", "2"),
        env=shell.environment | {"TERM": "xterm", "COLUMNS": "100"},
        cwd=shell.home,
        stdout=subprocess.DEVNULL,
        stderr=other_end,
    )
    os.close(other_end)
    try:
        shown = read_all(terminal)
    finally:
        os.close(terminal)
        process.kill()
        process.wait()
    assert "reading the host" in shown
    assert re.search(r"0/1 .*broadcast, 2 ranks, 16KiB: race 1\b", shown)
    assert "Traceback" not in shown
    hidden, cursor_back = shown.rfind("\x1b[?25l"), shown.rfind("\x1b[?25h")
    assert 0 <= hidden < cursor_back
    assert shown[cursor_back:].count("broadcast") == 0
