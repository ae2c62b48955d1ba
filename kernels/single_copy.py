"""Whether this host lets ranks read each other's private memory, for ``exchange=single_copy``, as far as one can tell.

In:  two files of the kernel, one try. Out: nothing, or the reason in words. May not touch: groups; each of them finds
out for itself, rank by rank, when it is made.
"""

from __future__ import annotations

import re
from pathlib import Path

from . import _native

_CAP_SYS_PTRACE = 19  # linux/capability.h
YAMA = "/proc/sys/kernel/yama/ptrace_scope"


def single_copy_fault() -> str | None:
    """Why ranks cannot read each other's memory here; None where nothing speaks against it."""
    try:
        scope: str | None = Path(YAMA).read_text(encoding="ascii")
    except OSError:  # a kernel without Yama, or a container that hides it
        scope = None
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    return yama_fault(scope, status) or own_memory_fault()


def own_memory_fault() -> str | None:
    """Why a process may not even read its own memory in this way: an old kernel, or a filter; None where it may."""
    return _native.own_memory_fault() or None


def yama_fault(scope: str | None, status: str) -> str | None:
    """What the security module Yama forbids (Documentation/admin-guide/LSM/Yama.rst); None where nothing.

    Args:
        scope: the text of ``ptrace_scope``; None where there is no Yama.
        status: the text of ``/proc/self/status``.
    """
    level = int(scope) if scope and scope.strip().isdigit() else 0
    capabilities = re.search(r"^CapEff:\s*([0-9a-fA-F]{1,16})$", status, re.MULTILINE)
    privileged = capabilities is not None and int(capabilities[1], 16) >> _CAP_SYS_PTRACE & 1 == 1
    if level == 0 or (level < 3 and privileged):
        return None
    return f"kernel.yama.ptrace_scope is {level}, so a process may not read another one's memory"
