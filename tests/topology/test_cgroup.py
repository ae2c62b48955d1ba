"""Limits of control groups: found where they are, the smallest one rules."""

from __future__ import annotations

import pytest

from autotune.errors import ProbeError
from autotune.topology.probes.cgroup import limit_directories, parse_limits

V2 = "29 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw"
MOUNTED = {"/proc/self/cgroup": "0::/a/b", "/proc/self/mountinfo": V2}


def directories(groups: str, mounts: str) -> list[str]:
    return [directory for directory, _ in limit_directories(groups, mounts)]


def test_walks_up_to_the_mount() -> None:
    assert directories("0::/a/b", V2) == ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]


def test_of_version_1_only_the_controllers_that_limit() -> None:
    mounts = (
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
        "33 31 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids"
    )
    assert list(limit_directories("3:cpu,cpuacct:/x", mounts)) == [
        ("/sys/fs/cgroup/cpu/x", ("cpu.cfs_quota_us", "cpu.cfs_period_us")),
        ("/sys/fs/cgroup/cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")),
    ]


@pytest.mark.parametrize("path", ["/docker/c1", "/docker/c1/job", "/elsewhere", "/docker/c12", "/../other"])
def test_a_container_shows_the_lower_part_only(path: str) -> None:
    mounts = "32 31 0:29 /docker/c1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
    inside = ["/sys/fs/cgroup/job"] if path.endswith("job") else []
    assert directories(f"0::{path}", mounts) == [*inside, "/sys/fs/cgroup"]


@pytest.mark.parametrize("mounts", ["", "29", "29 22 0:26 / - cgroup2", "\0"])
def test_a_cut_mount_table_names_nothing(mounts: str) -> None:
    assert directories("0::/a", mounts) == []


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "250000 100000", "cpu.max": "400000 100000"}, 2.5, None),
        ({"a/b/memory.max": "max", "a/memory.max": "1000", "memory.max": "3000"}, None, 1000),
        ({"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "100000"}, 1.5, None),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, None, None),
        ({"memory.limit_in_bytes": "9223372036854771712"}, None, None),
        ({"a/memory.limit_in_bytes": "9223372036854771712", "memory.limit_in_bytes": "4096"}, None, 4096),
    ],
)
def test_the_smallest_limit_rules(files: dict[str, str], cores: float | None, memory: int | None) -> None:
    limits = parse_limits(MOUNTED | {f"/sys/fs/cgroup/{name}": text for name, text in files.items()})
    assert (limits.cpu_quota_cores, limits.memory_bytes, limits.unseen) == (cores, memory, ())


@pytest.mark.parametrize(("name", "text"), [("cpu.max", "100000"), ("cpu.max", "0 100000"), ("memory.max", "lots")])
def test_refuses_what_is_no_limit(name: str, text: str) -> None:
    with pytest.raises(ProbeError, match=name):
        parse_limits(MOUNTED | {f"/sys/fs/cgroup/{name}": text})


def test_a_denied_limit_is_said() -> None:
    limits = parse_limits(MOUNTED | {"/sys/fs/cgroup/memory.max": "!EACCES"})
    assert limits.memory_bytes is None
    assert limits.unseen == ("a limit of the control group: /sys/fs/cgroup/memory.max cannot be read (EACCES)",)
