"""What is left to take, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.topology.memory_left import memory_left

HOST = {"/proc/meminfo": "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"}
HOST_LEFT = 8000000 * 1024

V2 = {
    "/proc/self/cgroup": "0::/job/step\n",
    "/proc/self/mountinfo": "29 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
}
V1 = {
    "/proc/self/cgroup": "11:memory:/job\n10:cpu,cpuacct:/elsewhere\n",
    "/proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
}
STEP, JOB = "/sys/fs/cgroup/job/step", "/sys/fs/cgroup/job"


def written(root: Path, files: dict[str, str]) -> str:
    for path, text in files.items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return str(root)


def group_v2(directory: str, limit: str, used: int, inactive: int | None = None) -> dict[str, str]:
    stat = {} if inactive is None else {f"{directory}/memory.stat": f"anon 5\ninactive_file {inactive}\nfile 9\n"}
    return {f"{directory}/memory.max": f"{limit}\n", f"{directory}/memory.current": f"{used}\n", **stat}


def test_a_host_without_groups_says_what_it_has(tmp_path: Path) -> None:
    assert memory_left(written(tmp_path, HOST)) == HOST_LEFT


def test_nothing_says_nothing(tmp_path: Path) -> None:
    assert memory_left(str(tmp_path)) is None
    assert memory_left(written(tmp_path, {"/proc/meminfo": "MemTotal: 5 kB\n"})) is None, "kernels before 3.14"


@pytest.mark.parametrize(
    ("groups", "left"),
    [
        ({}, HOST_LEFT),
        (group_v2(STEP, "max", 1000), HOST_LEFT),
        (group_v2(STEP, "5000", 2000), 3000),
        (group_v2(STEP, "5000", 2000, inactive=500), 3500),
        (group_v2(STEP, "5000", 6000), 0),
        (group_v2(STEP, str(1 << 40), 0), HOST_LEFT),
        (group_v2(STEP, "5000", 2000) | group_v2(JOB, "7000", 6500), 500),
        (group_v2(STEP, "max", 2000) | group_v2(JOB, "7000", 6500, inactive=6000), 6500),
        (group_v2("/sys/fs/cgroup/other", "1", 0), HOST_LEFT),
        ({f"{STEP}/memory.max": "5000\n"}, HOST_LEFT),
        ({f"{STEP}/memory.max": "many\n", f"{STEP}/memory.current": "1\n"}, HOST_LEFT),
    ],
    ids=[
        *("no files", "no limit", "a limit", "page cache counts as free", "above the limit", "the host rules"),
        *("the job above rules", "its page cache counts too", "another group", "use unknown", "no number"),
    ],
)
def test_the_tightest_group_rules(tmp_path: Path, groups: dict[str, str], left: int) -> None:
    assert memory_left(written(tmp_path, HOST | V2 | groups)) == left


def test_groups_count_where_the_kernel_says_nothing(tmp_path: Path) -> None:
    assert memory_left(written(tmp_path, V2 | group_v2(STEP, "5000", 2000))) == 3000


@pytest.mark.parametrize(("limit", "left"), [("5000", 3700), (str((1 << 63) - 4096), HOST_LEFT)])
def test_version_1_counts_its_children_in_total(tmp_path: Path, limit: str, left: int) -> None:
    memory = "/sys/fs/cgroup/memory/job"
    files = {
        f"{memory}/memory.limit_in_bytes": f"{limit}\n",
        f"{memory}/memory.usage_in_bytes": "2000\n",
        f"{memory}/memory.stat": "inactive_file 100\ntotal_inactive_file 700\n",
    }
    assert memory_left(written(tmp_path, HOST | V1 | files)) == left


def test_a_container_sees_its_own_group_only(tmp_path: Path) -> None:
    """The mount shows what lies below /kubepods/pod7, which is the group's path seen from outside."""
    container = {
        "/proc/self/cgroup": "0::/kubepods/pod7\n",
        "/proc/self/mountinfo": "29 22 0:26 /kubepods/pod7 /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
    }
    assert memory_left(written(tmp_path, HOST | container | group_v2("/sys/fs/cgroup", "5000", 1000))) == 4000


def test_what_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    """A folder in a file's place cannot be read by anybody, the super-user included."""
    root = written(tmp_path, HOST | V2 | group_v2(JOB, "7000", 6500))
    (tmp_path / STEP.lstrip("/") / "memory.max").mkdir(parents=True)
    assert memory_left(root) == 500
    (tmp_path / "proc/meminfo").unlink()
    (tmp_path / "proc/meminfo").mkdir()
    assert memory_left(root) == 500


def test_this_host_has_something_left() -> None:
    left = memory_left()
    assert left is not None
    assert 0 < left < 1 << 50
