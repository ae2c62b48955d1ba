"""The lines that `autotune plugin` prints make a library load the plugin, and the plugin decide by the table."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from plugins.hosts import UNTOUCHED, Hccl, Nccl, environment
from plugins.test_refusals import ENTRIES, SIZE, table

from autotune.errors import AutotuneError, TopologyMismatch
from autotune.plugins import PLUGINS, lines_for, shared_library
from autotune.table import TuningTable, save_table
from autotune.types import Evidence

MEASURED = frozenset({Evidence.MEASURED})
OTHER = "fedcba9876543210"


def imported(made: TuningTable) -> TuningTable:
    rules = {
        key: tuple(replace(rule, evidence=Evidence.IMPORTED) for rule in rules) for key, rules in made.rules.items()
    }
    return replace(made, rules=rules)


def variables(text: str) -> dict[str, str]:
    """What a shell has after these lines."""
    found = {}
    for line in text.splitlines():
        command, assignment = shlex.split(line)
        assert command == "export"
        name, _, value = assignment.partition("=")
        found[name] = value
    return found


def printed(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("AUTOTUNE_")}
    around = {**own, "AUTOTUNE_CACHE_DIR": str(home / "cache"), "AUTOTUNE_DATA_DIR": str(home / "data")}
    command = [sys.executable, "-P", "-m", "autotune", "plugin", *words]
    return subprocess.run(command, env=around, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", PLUGINS)
def test_what_the_command_prints_is_enough(name: str, tmp_path: Path) -> None:
    try:
        shared_library(PLUGINS[name])
    except AutotuneError as err:
        pytest.skip(f"needs a build of autotune with its plugins: {err.message}")
    path = tmp_path / "a table's file.json"
    save_table(imported(table("0123456789abcdef")), path)
    refused = printed(name, "--table", str(path), home=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"try: autotune plugin {name} --evidence imported" in refused.stderr
    done = printed(name, "--table", str(path), "--evidence", "imported", "--elsewhere", home=tmp_path)
    assert done.returncode == 0, done.stderr
    set_by_it = variables(done.stdout)
    assert set_by_it[PLUGINS[name].variable] == str(shared_library(PLUGINS[name]))
    with environment(set_by_it):
        if name == "hccl":
            host = Hccl(tmp_path)
            host.communicator(16, n_ranks=8)
            assert host.decide(16, 2, 4, SIZE, ENTRIES) == [0.0, 1.0]
        else:
            with Nccl(tmp_path, 5, n_ranks=8) as nccl:
                assert nccl.decide(4, 1500)[0] != [UNTOUCHED] * 21


def test_a_host_without_a_table_is_told_what_to_do(tmp_path: Path) -> None:
    done = printed("hccl", home=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: this host has no table of hccl\ntry: ")


def test_a_table_of_another_machine_needs_a_word(tmp_path: Path) -> None:
    made, path = table("0123456789abcdef"), tmp_path / "t.json"

    def lines(host: str | None, *, elsewhere: bool) -> tuple[str, ...]:
        return lines_for(PLUGINS["nccl"], made, path, evidence=MEASURED, host=host, elsewhere=elsewhere)

    try:
        plain = lines("0123456789abcdef", elsewhere=False)
    except AutotuneError as err:
        pytest.skip(f"needs a build of autotune with its plugins: {err.message}")
    assert set(variables("\n".join(plain))) == {"NCCL_TUNER_PLUGIN", "AUTOTUNE_TABLE"}
    assert lines(None, elsewhere=False) == plain
    with pytest.raises(TopologyMismatch, match=f"this host is {OTHER}"):
        lines(OTHER, elsewhere=False)
    assert variables("\n".join(lines(OTHER, elsewhere=True)))["AUTOTUNE_FINGERPRINT"] == "0123456789abcdef"
