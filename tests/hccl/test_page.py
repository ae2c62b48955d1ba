"""docs/ascend.md: every command in it that can run without NPUs runs, and its table says what the data says."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from cli.session import Here

from autotune.cli.main import COMMANDS
from autotune.hccl import Soc, facts

PAGE = Path(__file__).parents[2] / "docs" / "ascend.md"
LINES = [line.strip() for line in PAGE.read_text("utf-8").splitlines() if line.startswith("    autotune ")]
ELSEWHERE = ("950.json", "autotune plugin", "--backend gloo")  # need a file, another page's or minutes of measuring
HERE = [line for line in LINES if "# on NPUs" not in line and not any(part in line for part in ELSEWHERE)]


def test_the_page_has_commands_for_here_and_for_npus() -> None:
    assert len(HERE) >= 7
    assert sum("# on NPUs" in line for line in LINES) >= 5


@pytest.mark.parametrize("line", HERE)
def test_a_command_that_can_run_here_runs(line: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parents[1])
    for name in ("HCCL_BUFFSIZE", "HCCL_ALGO"):
        monkeypatch.delenv(name, raising=False)
    words = shlex.split(line, comments=True)[1:]
    done = here(*words)
    faults = "ascend_start.sh" in line or "--moe" in line
    assert done.code == int(faults), done.err
    assert done.out


@pytest.mark.parametrize("line", LINES)
def test_commands_are_spelt_right(line: str) -> None:
    command = shlex.split(line, comments=True)[1]
    assert command in (*COMMANDS, "plugin")


def test_the_example_has_the_faults_that_the_page_names(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGE.parents[1])
    done = here("doctor", "--env", "docs/examples/ascend_start.sh", "--soc", "A2")
    for what in ("unquoted ';'", "AIV beside MC2", "AIV for every", "did you mean HCCL_BUFFSIZE?", "does nothing here"):
        assert what in done.out


def test_the_table_says_what_the_data_says() -> None:
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]]
        for line in PAGE.read_text("utf-8").splitlines()
        if line.startswith("| ") and len(cells := line.split("|")) == 8
    }
    order = [Soc(name) for name in rows[""]]
    for soc, modes, buffers, queues, share in zip(
        order,
        rows["`hccl_op_expansion_mode` tried"],
        rows["`hccl_buffer_size` tried, MB"],
        rows["queue pairs tried, between servers"],
        rows["`HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO`"],
        strict=True,
    ):
        known = facts(soc)
        tried = {
            modes: known.group_options["hccl_op_expansion_mode"].tries,
            buffers: known.group_options["hccl_buffer_size"].tries,
            queues: known.variables.get("HCCL_RDMA_QPS_PER_CONNECTION", known.variables["HCCL_ALGO"]).tries,
        }
        for shown, values in tried.items():
            assert shown == (", ".join(map(str, values)) or "none"), (soc, shown)
        ratio = known.variables["HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO"]
        assert share == (", ".join(map(str, ratio.tries)) or "no effect")
