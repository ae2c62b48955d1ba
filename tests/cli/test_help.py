"""Help: complete, in the documentation, and without waiting for what it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli.reference import command_names, markdown
from cli.session import TIMEOUT_S, Here, Shell

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
HEAVY = ("alembic", "numpy", "optuna", "scipy", "sqlalchemy", "torch", "yaml")


def test_the_documentation_of_commands_is_up_to_date() -> None:
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(markdown(), "utf-8")
    assert PAGE.read_text("utf-8") == markdown(), "UPDATE_GOLDEN=1 pytest tests/cli/test_help.py writes it again"


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_the_help_names_every_command(here: Here, words: list[str]) -> None:
    found = here(*words)
    assert (found.code, found.err) == (0, "")
    assert all(f"\n  {name.split()[0]} " in found.out for name in command_names())


@pytest.mark.parametrize("name", command_names())
def test_every_command_and_every_option_has_help(here: Here, name: str) -> None:
    found = here(*name.split(), "--help")
    assert (found.code, found.err) == (0, "")
    assert f"Usage: autotune {name}" in found.out
    section = markdown().partition(f"## autotune {name}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows
    assert all(len(row.split("|")[2].strip()) > 10 for row in rows)
    assert "None" not in section


def test_the_list_of_commands_is_not_cut_short(here: Here) -> None:
    assert "..." not in here("--help").out.partition("Commands:")[2]


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["bench", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from autotune.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        f"finally:\n    print(sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
    assert done.stdout


def test_the_version_is_printed(shell: Shell) -> None:
    import autotune

    assert shell("--version").out == f"autotune {autotune.__version__}\n"
