"""The limits that control groups put on this process: CPU time and memory, of cgroup v2 and v1.

A limit counts wherever it stands between the process's group and the top, and the smallest one rules. Inside a
container the mount may show only the lower part of that path, and then that part is walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .recording import Recorder, Recording, not_readable, text_of, whole_number, why_missing

_GROUPS = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"
_FILES_V2 = ("cpu.max", "memory.max")
_FILES_V1 = {"cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us"), "memory": ("memory.limit_in_bytes",)}
_NAMES = {*_FILES_V2, *_FILES_V1["cpu"], *_FILES_V1["memory"]}
# Version 1 writes "no limit" as the largest multiple of a page below 2^63.
_NO_LIMIT_V1 = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What rules this process; None where nothing limits it.

    Args:
        cpu_quota_cores: CPU time per wall time, in CPUs.
        unseen: what could not be read, in words.
    """

    cpu_quota_cores: float | None
    memory_bytes: int | None
    unseen: tuple[str, ...]


def collect_limits(recorder: Recorder) -> None:
    """Record the limit files from this process's groups up to the mount points."""
    groups = recorder.read(_GROUPS) or ""
    mounts = recorder.read(_MOUNTS, keep=lambda line: " - cgroup" in line) or ""
    for directory, names in limit_directories(groups, mounts):
        for name in names:
            recorder.read(f"{directory}/{name}")


def limit_directories(groups: str, mounts: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(directory, names of its limit files) from the process's own group upwards.

    Args:
        groups: ``/proc/self/cgroup``, lines of ``id:controllers:path``.
        mounts: ``/proc/self/mountinfo``.
    """
    paths: dict[str, str] = {}
    for line in groups.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths[controller] = path
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        place, kind = before.split(), after.split()
        if len(place) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            yield from ((directory, _FILES_V2) for directory in _upwards(paths.get("", "/"), place[3], place[4]))
        elif kind[0] == "cgroup":
            for controller, names in _FILES_V1.items():
                if controller in kind[2].split(","):
                    yield from (
                        (directory, names) for directory in _upwards(paths.get(controller, "/"), place[3], place[4])
                    )


def parse_limits(recording: Recording) -> Limits:
    """The smallest limits of a recording.

    Raises:
        ProbeError: a limit file that holds something else.
    """
    quotas: list[float] = []
    memory: list[int] = []
    unseen: list[str] = []
    for path in recording:
        directory, _, name = path.rpartition("/")
        if name in _NAMES and text_of(recording, path) is None:
            unseen.append(f"a limit of the control group: {why_missing(recording, path)}")
        elif name == "cpu.max" and (text := text_of(recording, path)) is not None:
            match = re.fullmatch(r"(max|[1-9][0-9]{0,14}) ([1-9][0-9]{0,14})", text)
            if match is None:
                raise not_readable(path, text, "'max PERIOD' or 'QUOTA PERIOD'")
            if match[1] != "max":
                quotas.append(int(match[1]) / int(match[2]))
        elif name == "cpu.cfs_quota_us":
            quota = whole_number(recording, path, least=-1)
            period = whole_number(recording, f"{directory}/cpu.cfs_period_us")
            if quota is not None and quota > 0 and period is not None and period > 0:
                quotas.append(quota / period)
        elif name == "memory.max" and text_of(recording, path) != "max":
            memory += _known(whole_number(recording, path))
        elif name == "memory.limit_in_bytes":
            memory += [limit for limit in _known(whole_number(recording, path)) if limit < _NO_LIMIT_V1]
    if not text_of(recording, _GROUPS) or not text_of(recording, _MOUNTS):
        unseen.append("limits of the control group: no control groups are mounted here")
    return Limits(
        cpu_quota_cores=min(quotas, default=None), memory_bytes=min(memory, default=None), unseen=tuple(unseen)
    )


def _known(limit: int | None) -> list[int]:
    return [] if limit is None else [limit]


def _upwards(path: str, mount_root: str, mount_point: str) -> Iterator[str]:
    """Directories from the group at ``path`` up to the mount point, which shows what stands below ``mount_root``."""
    root = mount_root.rstrip("/")
    below = path[len(root) :].strip("/") if f"{path}/".startswith(f"{root}/") and ".." not in path.split("/") else ""
    parts = below.split("/") if below else []
    for depth in range(len(parts), -1, -1):
        yield "/".join([mount_point, *parts[:depth]])
