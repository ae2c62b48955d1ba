"""How much memory this process may still take: what the host has left, within the limits of its control groups.

In:  a root folder. Out: bytes, or None where nothing tells. Reads a few files and starts nothing; it is asked each time
somebody allocates, so it builds no recording.
"""

from __future__ import annotations

import re
from pathlib import Path

from .probes.cgroup import limit_directories

_LIMIT_AND_USE = (
    ("memory.max", "memory.current", "inactive_file"),  # cgroup v2
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_left(root: str = "/") -> int | None:
    """Bytes that can be taken before something is killed or swapped; None where neither kernel nor groups say.

    A group's page cache that nobody used lately counts as free, as it does in the kernel's MemAvailable.
    """
    left = []
    available = _figure(_text(root, "/proc/meminfo"), r"MemAvailable:\s+([0-9]+) kB")
    if available is not None:
        left.append(available * 1024)
    groups, mounts = _text(root, "/proc/self/cgroup"), _text(root, "/proc/self/mountinfo")
    for directory in dict.fromkeys(directory for directory, _ in limit_directories(groups, mounts)):
        for limit_name, use_name, cache_name in _LIMIT_AND_USE:
            limit = _figure(_text(root, f"{directory}/{limit_name}"), r"([0-9]+)")
            used = _figure(_text(root, f"{directory}/{use_name}"), r"([0-9]+)")
            if limit is None or used is None:
                continue
            cache = _figure(_text(root, f"{directory}/memory.stat"), rf"{cache_name} ([0-9]+)") or 0
            left.append(max(0, limit - used + cache))
    return min(left, default=None)


def _text(root: str, path: str) -> str:
    """The file's text; empty where it is absent or may not be read, which here is the same as telling nothing."""
    try:
        return (Path(root) / path.lstrip("/")).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _figure(text: str, pattern: str) -> int | None:
    match = re.search(rf"^{pattern}$", text, re.MULTILINE)
    return None if match is None else int(match[1])
