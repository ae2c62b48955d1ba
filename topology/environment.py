"""What a measurement depends on besides the topology: versions, governor, limits. Kept beside trials and tables.

In: files below a root, the installed distributions' metadata. Out: a flat dict of words. No program is started, nothing
heavy is imported, and neither the host's name nor anyone's address is in it.
"""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path

from .cpulist import parse_cpu_list
from .identity import drivers
from .probes.cgroup import collect_limits, parse_limits
from .probes.processors import cpu_model
from .probes.recording import Recorder, text_of

_CPU = "/sys/devices/system/cpu"
_KERNEL = "/proc/sys/kernel/osrelease"
UNKNOWN = "unknown"


def environment(root: str = "/") -> dict[str, str]:
    """Names and values, both words; ``"unknown"`` where the machine does not tell.

    ``kernel``, ``cpu_model``, ``governor``, ``cpus`` (allowed and online, as counts), ``cpu_quota_cores``, ``python``,
    ``autotune``, ``numpy``, ``libc``; ``driver_NAME`` for each driver that has a version of its own; ``git_revision``
    only where the package stands in a git checkout.

    Raises:
        ProbeError: a limit of the control group that cannot be read without guessing.
    """
    recorder = Recorder(root)
    recorder.read("/proc/cpuinfo")
    recorder.read(_KERNEL)
    collect_limits(recorder)
    quota = parse_limits(recorder.entries).cpu_quota_cores
    found = {
        "kernel": text_of(recorder.entries, _KERNEL) or UNKNOWN,
        "cpu_model": cpu_model(recorder.entries) or UNKNOWN,
        "governor": ",".join(governors(recorder)) or UNKNOWN,
        "cpus": _cpu_counts(recorder),
        "cpu_quota_cores": "none" if quota is None else f"{quota:g}",
        "python": platform.python_version(),
        "autotune": _version("mc2-autotune"),
        "numpy": _version("numpy"),
        "libc": _libc(),
        **drivers(root),
    }
    revision = git_revision(Path(__file__).resolve().parents[1])
    return found if revision is None else {**found, "git_revision": revision}


def governors(recorder: Recorder) -> list[str]:
    """The frequency governors in use, sorted; empty where the machine does not tell, as most virtual ones."""
    policies = [name for name in recorder.names(f"{_CPU}/cpufreq") if name.startswith("policy")]
    paths = [f"{_CPU}/cpufreq/{policy}/scaling_governor" for policy in policies]
    for path in paths:
        recorder.read(path)
    return sorted({word for path in paths if (word := text_of(recorder.entries, path))})


def git_revision(folder: Path) -> str | None:
    """The commit that is checked out in a folder; None where the folder is no checkout or has no commit.

    Read from git's own files: HEAD, then the branch it names, loose or packed (gitrepository-layout(5)). A linked work
    tree has a file ``.git`` that names its directory, and keeps the branches in the common one.
    """
    git = folder / ".git"
    if git.is_file():
        _, _, place = _line(git).partition("gitdir: ")
        git = folder / place
    common = git / (_line(git / "commondir") or ".")
    head = _line(git / "HEAD")
    if not head.startswith("ref: "):
        return _commit(head)
    branch = head.removeprefix("ref: ")
    loose = _commit(_line(git / branch) or _line(common / branch))
    if loose is not None:
        return loose
    for line in _text(common / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == branch:
            return _commit(commit)
    return None


def _cpu_counts(recorder: Recorder) -> str:
    status = recorder.read("/proc/self/status", keep=lambda line: line.startswith("Cpus_allowed_list:")) or ""
    try:
        online = parse_cpu_list(recorder.read(f"{_CPU}/online") or "")
        allowed = parse_cpu_list(status.partition(":")[2])
    except ValueError:
        return UNKNOWN
    return f"{len(allowed & online)} of {len(online)}" if online and allowed else UNKNOWN


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or UNKNOWN
    except (ValueError, OSError):  # another C library than glibc
        return UNKNOWN


def _commit(text: str) -> str | None:
    return text if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", text) else None


def _line(path: Path) -> str:
    return _text(path).partition("\n")[0].strip()


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
