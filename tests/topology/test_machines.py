"""Recorded machines and clusters: the whole text that ``autotune probe`` prints for each. UPDATE_GOLDEN=1 rewrites.

A folder here holds ``recording.json`` of one host, or a folder ``recording`` of what a user would give to ``--from``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.topology import host
from autotune.topology.cluster import build
from autotune.topology.document import from_json, to_json
from autotune.topology.graph import Topology
from autotune.topology.probes import linux
from autotune.topology.recordings import load
from autotune.topology.render import tree

Recorded = Callable[[str], dict[str, str]]
Plant = Callable[[dict[str, str], Path], None]

MACHINES = Path(__file__).parents[1] / "golden" / "machines"
NAMES = sorted(path.name for path in MACHINES.iterdir())
HOSTS = [name for name in NAMES if (MACHINES / name / "recording.json").exists()]
FOLDERS = [name for name in NAMES if name not in HOSTS]
BARE = ("npu-smi ", "hccn_tool ", "nvidia-smi ", "rocm-smi ", "/etc/hccn.conf", "lstopo ")


@pytest.fixture(scope="session")
def built(recorded: Recorded) -> Callable[[str], Topology]:
    """The topology of a machine or cluster, by its name."""

    def build_one(name: str) -> Topology:
        return host.parse(recorded(name)) if name in HOSTS else build(load([MACHINES / name / "recording"]))

    return build_one


def test_there_are_recordings() -> None:
    assert len(NAMES) >= 20
    assert len(FOLDERS) >= 6


@pytest.mark.parametrize("name", NAMES)
def test_renders_as_reviewed(built: Callable[[str], Topology], name: str) -> None:
    got = tree(built(name))
    expected = MACHINES / name / "expected.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        expected.write_text(got, "utf-8")
    assert got == expected.read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_says_in_one_line_why_it_is_here(name: str) -> None:
    assert len((MACHINES / name / "why.txt").read_text("utf-8").splitlines()) == 1


@pytest.mark.parametrize("name", NAMES)
def test_json_brings_it_back(built: Callable[[str], Topology], name: str) -> None:
    topology = built(name)
    assert from_json(to_json(topology)) == topology


@pytest.mark.parametrize("name", FOLDERS)
def test_the_order_of_files_does_not_matter(built: Callable[[str], Topology], name: str) -> None:
    folders = sorted((MACHINES / name / "recording").iterdir())
    for seed in range(4):
        random.Random(seed).shuffle(folders)
        assert to_json(build(load(folders))) == to_json(built(name))


@pytest.mark.parametrize(
    "name", [name for name in HOSTS if "proc" in (MACHINES / name / "recording.json").read_text("utf-8")]
)
def test_collect_records_the_same_from_files(recorded: Recorded, plant: Plant, tmp_path: Path, name: str) -> None:
    recording = {path: text for path, text in recorded(name).items() if not path.startswith(BARE)}
    plant(recording, tmp_path)
    # Identifying and drifting lines are there to be left out.
    for path, line in (("proc/cpuinfo", "Serial\t\t: 00000000deadbeef"), ("proc/meminfo", "MemFree: 12 kB")):
        if (tmp_path / path).exists():
            with (tmp_path / path).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
    got = linux.collect(str(tmp_path))
    # The size of /dev/shm is that of the disk below tmp_path; a folder stands for every file that cannot be read.
    assert got.pop("/dev/shm", "").endswith(" bytes") == ("/dev/shm" in recording)
    recording.pop("/dev/shm", None)
    assert got == {path: "!EISDIR" if text.startswith("!") else text for path, text in recording.items()}


def test_this_machine_is_read() -> None:
    topology = host.parse(host.collect())
    assert topology.n_cores >= 1
    assert {cpu.number for cpu in topology.allowed_cpus} == os.sched_getaffinity(0)
    assert "fingerprint " in tree(topology)
