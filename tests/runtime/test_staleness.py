"""Staleness: what changed since a table was measured is named, in the reason of every selection; the choice stays."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from autotune.runtime import Selector, find_table
from autotune.runtime.staleness import Change, changes, changes_here, words
from autotune.settings import read
from autotune.table import save_table, shipped_table
from autotune.topology.environment import environment
from autotune.topology.identity import drivers, identity

TWO = ["CPU A -> B", "C library glibc 2.36 -> glibc 2.39"]
CALL = {"message_bytes": 1024, "n_ranks": 4}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"kernel": "6.1"}, {"kernel": "6.8"}, ["kernel 6.1 -> 6.8"]),
        ({"libc": "glibc 2.36", "cpu_model": "A"}, {"libc": "glibc 2.39", "cpu_model": "B"}, TWO),
        ({"driver_ascend": "23.0"}, {"driver_ascend": "24.1"}, ["driver ascend 23.0 -> 24.1"]),
        ({"kernel": "6.1"}, {"kernel": "6.1"}, []),
        ({"kernel": "unknown"}, {"kernel": "6.1"}, []),
        ({"kernel": "6.1"}, {"kernel": "unknown"}, []),
        ({"kernel": "6.1"}, {}, []),
        ({}, {"kernel": "6.1"}, []),
        ({"cpu_model": "A + B"}, {"cpu_model": "B"}, []),
        ({"cpu_model": "A + B"}, {"cpu_model": "C"}, ["CPU A + B -> C"]),
    ],
)
def test_changes_are_named_with_both_values(
    before: dict[str, str], now: dict[str, str], said: list[str] | None
) -> None:
    expected = ["CPU A -> B", "C library glibc 2.36 -> glibc 2.39"] if said is None else said
    assert [str(change) for change in changes(before, now)] == expected


def test_nothing_changed_needs_no_words() -> None:
    assert words(()) is None
    said = words([Change(name="kernel", before="6.1", now="6.8")])
    assert said == "since it was measured: kernel 6.1 -> 6.8: `autotune run --confirm` tells whether it still holds"


def test_the_quick_identity_agrees_with_the_environment_of_trials() -> None:
    """Else every table would look stale on the machine that has just measured it."""
    assert changes_here(environment()) == ()
    found = identity(["kernel", "libc", "cpu_model"])
    assert found.items() <= environment().items()
    assert found["kernel"] == os.uname().release


def test_installed_distributions_are_found_without_their_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch-2.9.1+cpu.dist-info", "torch_npu-2.9.1.dist-info", "torchvision-0.1.dist-info"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path)])
    assert identity(["torch", "torch_npu", "autotune"]) == {"torch": "2.9.1+cpu", "torch_npu": "2.9.1"}


def test_a_distributions_version_is_the_one_that_its_metadata_tells() -> None:
    pytest.importorskip("torch", reason="needs torch")
    assert identity(["torch"]) == {"torch": metadata.version("torch")}


def test_drivers_are_read_below_a_root(tmp_path: Path) -> None:
    for path, text in {
        "sys/module/nvidia/version": "535.104.05\n",
        "sys/module/mlx5_core/version": "23.10-1.1.9\n",
        "usr/local/Ascend/driver/version.info": "Version=23.0.rc3\nascendhal_version=7.2\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    expected = {"driver_nvidia": "535.104.05", "driver_mlx5_core": "23.10-1.1.9", "driver_ascend": "23.0.rc3"}
    assert drivers(str(tmp_path)) == expected
    assert expected.items() <= environment(str(tmp_path)).items()
    assert identity(["driver_nvidia", "kernel"], str(tmp_path)) == {"driver_nvidia": "535.104.05"}
    assert drivers(str(tmp_path / "nowhere")) == {}


def test_a_selection_names_what_changed_and_stays_the_same(tmp_path: Path) -> None:
    fresh, old = tmp_path / "fresh.json", tmp_path / "old.json"
    save_table(replace(shipped_table("native"), environment=environment()), fresh)
    save_table(replace(shipped_table("native"), environment={**environment(), "kernel": "2.6.32"}), old)
    chosen = {}
    for path in (fresh, old):
        settings = read({"HOME": str(tmp_path), "AUTOTUNE_TABLE": str(path)})
        chosen[path] = Selector(find_table(settings)).select("all_reduce", **CALL)
    assert chosen[old].config == chosen[fresh].config
    assert f"since it was measured: kernel 2.6.32 -> {os.uname().release}" in chosen[old].reason
    assert "since it was measured" not in chosen[fresh].reason


def test_the_check_loads_nothing_heavy() -> None:
    program = (
        "import sys; from autotune.runtime.staleness import changes_here; changes_here({'kernel': '1', 'torch': '1'});"
        "print(sorted({'importlib.metadata', 'platform', 'email', 'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
