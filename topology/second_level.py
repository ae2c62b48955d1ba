"""How large a core's second-level cache is, as the kernel of this host says. Standard library only.

The shipped default rules depend on it (`table.shipped`), and a process that has no table asks for it at its first call.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_CPU = "sys/devices/system/cpu/cpu0/cache"
_MOST_CACHES = 8
_UNITS = {"K": 1 << 10, "M": 1 << 20}


@cache
def second_level_bytes(root: str = "/") -> int | None:
    """Of the first CPU; None where the kernel does not say."""
    for index in range(_MOST_CACHES):
        cache_dir = Path(root, _CPU, f"index{index}")
        try:
            level, size = ((cache_dir / name).read_text("ascii").strip() for name in ("level", "size"))
        except (OSError, ValueError):
            return None
        if level == "2" and size[:-1].isdecimal() and size[-1:] in _UNITS:
            return int(size[:-1]) * _UNITS[size[-1]]
    return None
