"""What the README shows must run, and what it names must exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.cli.main import COMMANDS, GROUPS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(program: str, folder: Path) -> str:
    script = folder / "example.py"
    script.write_text(program)
    places = {f"AUTOTUNE_{name}_DIR": str(folder) for name in ("DATA", "CACHE", "RUNTIME")}
    places["PYTHONUNBUFFERED"] = ""  # two processes that write piecemeal would mix their lines
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, env={**os.environ, **places}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_two_programs() -> None:
    assert len(PROGRAMS) == 2


def test_the_choice_is_made_by_the_shipped_rule_on_a_host_that_was_not_tuned(tmp_path: Path) -> None:
    words = run(PROGRAMS[0], tmp_path).split()
    assert words[:4] == ["direct", "262144", "none", "False"]


def test_two_processes_add_their_arrays(tmp_path: Path) -> None:
    assert sorted(run(PROGRAMS[1], tmp_path).splitlines()) == ["0 3.0", "1 3.0"]


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^    autotune ([a-z]+)", README, re.MULTILINE))))
def test_every_command_exists(command: str) -> None:
    assert command in {*COMMANDS, *GROUPS}


def test_every_linked_file_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
