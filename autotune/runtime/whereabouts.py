"""Where a rank is: which machine, which host, which cores. Standard library only.

In:  /proc, /etc/machine-id, the directory in which ranks of one host meet. Out: words that are equal where ranks share
something. May not touch: the network.

A *host* is where ranks can share memory: one network namespace, one user, one place to meet. Several containers of one
*machine* are several hosts, but share its cores.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """One rank's place.

    Args:
        machine: equal on all ranks of one running kernel.
        host: equal on all ranks that can meet without a network.
        name: of the host, for people.
        cores: CPU numbers that this rank may run on.
    """

    machine: str
    host: str
    name: str
    cores: tuple[int, ...]


def whereabouts(runtime_dir: Path) -> Whereabouts:
    """This process's.

    Args:
        runtime_dir: where ranks of one host meet (AUTOTUNE_RUNTIME_DIR).
    """
    machine = "-".join(
        _text(path) for path in (Path("/proc/sys/kernel/random/boot_id"), Path("/etc/machine-id")) if path.is_file()
    )
    namespace = os.stat("/proc/self/ns/net").st_ino
    place = runtime_dir.stat() if runtime_dir.is_dir() else None
    where = f"{place.st_dev}.{place.st_ino}" if place is not None else str(runtime_dir)
    return Whereabouts(
        machine=machine,
        host=f"{machine}/{namespace}/{os.getuid()}/{where}",
        name=socket.gethostname(),
        cores=tuple(sorted(os.sched_getaffinity(0))),
    )


def host_numbers(hosts: list[str], names: list[str]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """By rank the number of its host, in the order of first ranks; and by host its name, which is made unique."""
    numbers = {host: number for number, host in enumerate(dict.fromkeys(hosts))}
    found = dict(reversed(list(zip(hosts, names, strict=True))))
    plain = [found[host] for host in numbers]
    unique = [name if plain.count(name) == 1 else f"{name} (host {number})" for number, name in enumerate(plain)]
    return tuple(numbers[host] for host in hosts), tuple(unique)


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="ascii").strip()
    return ""
