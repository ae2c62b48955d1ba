"""Recorded machines: the whole text that ``autotune probe`` prints for each. UPDATE_GOLDEN=1 rewrites the texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.topology.document import from_json, to_json
from autotune.topology.probes.linux import collect, parse
from autotune.topology.render import tree

Recorded = Callable[[str], dict[str, str]]
Plant = Callable[[dict[str, str], Path], None]

MACHINES = Path(__file__).parents[1] / "golden" / "machines"
NAMES = sorted(path.name for path in MACHINES.iterdir())


def test_there_are_recordings() -> None:
    assert len(NAMES) >= 7


@pytest.mark.parametrize("name", NAMES)
def test_renders_as_reviewed(recorded: Recorded, name: str) -> None:
    got = tree(parse(recorded(name)))
    expected = MACHINES / name / "expected.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        expected.write_text(got, "utf-8")
    assert got == expected.read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_says_in_one_line_why_it_is_here(name: str) -> None:
    assert len((MACHINES / name / "why.txt").read_text("utf-8").splitlines()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_json_brings_it_back(recorded: Recorded, name: str) -> None:
    topology = parse(recorded(name))
    assert from_json(to_json(topology)) == topology


@pytest.mark.parametrize("name", NAMES)
def test_collect_records_the_same_from_files(recorded: Recorded, plant: Plant, tmp_path: Path, name: str) -> None:
    recording = recorded(name)
    plant(recording, tmp_path)
    # Identifying and drifting lines are there to be left out.
    for path, line in (("proc/cpuinfo", "Serial\t\t: 00000000deadbeef"), ("proc/meminfo", "MemFree: 12 kB")):
        with (tmp_path / path).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    got = collect(str(tmp_path))
    # The size of /dev/shm is that of the disk below tmp_path; a folder stands for every file that cannot be read.
    assert got.pop("/dev/shm", "").endswith(" bytes") == ("/dev/shm" in recording)
    recording.pop("/dev/shm", None)
    assert got == {path: "!EISDIR" if text.startswith("!") else text for path, text in recording.items()}


def test_this_machine_is_read() -> None:
    topology = parse(collect())
    assert topology.n_cores >= 1
    assert {cpu.number for cpu in topology.allowed_cpus} == os.sched_getaffinity(0)
    assert "fingerprint " in tree(topology)
