"""What the checks look at, read from this host; the only part that touches the machine.

In:  the topology, a few more files below a root, the settings, the tables that jobs here get, the host's own name. Out:
`Facts`. May not touch: what is wrong about them. Nothing is changed, nothing is started.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..kernels.single_copy import YAMA, own_memory_fault, yama_fault
from ..runtime.host_tables import HostTable, tables_here
from ..runtime.network_facts import NetworkFacts, network_facts
from ..settings import Settings
from ..topology.environment import governors
from ..topology.fingerprint import fingerprint
from ..topology.graph import Topology
from ..topology.host import collect, parse
from ..topology.identity import identity
from ..topology.probes.recording import Recorder, text_of

RESOLVE_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks look at; None is not known.

    Args:
        n_ranks: the most ranks that the run would start.
        memory_available_bytes: what the kernel thinks can still be given out.
        load: runnable tasks over the last minute.
        open_files: the soft limit; None where unlimited or not told, as for locked_memory_bytes.
        addresses: of this host's own name; None where it does not resolve in time.
        data_dir_fault: why nothing can be written there; None where it can.
        tables: of all backends that have one, beside the shipped.
        fingerprint: of the topology.
        identity: kernel, CPU, libraries and drivers, as ``environment`` names them.
        network: what would carry messages to ranks of other hosts; None where it was not tried (another root).
        single_copy_fault: why ranks may not read each other's memory; None where nothing speaks against it.
    """

    topology: Topology
    n_ranks: int
    staging_bytes: int
    memory_available_bytes: int | None
    governors: tuple[str, ...]
    load: float | None
    open_files: int | None
    locked_memory_bytes: int | None
    addresses: tuple[str, ...] | None
    data_dir: Path
    data_dir_fault: str | None
    tables: tuple[HostTable, ...] = ()
    fingerprint: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    network: NetworkFacts | None = None
    single_copy_fault: str | None = None


def gather(
    root: str, settings: Settings, n_ranks: int | None, resolve: Callable[[], tuple[str, ...] | None] | None = None
) -> Facts:
    """Read what the checks need. ``resolve`` stands for ``own_addresses`` in tests."""
    topology = parse(collect(root))
    recorder = Recorder(root)
    for path in ("/proc/meminfo", "/proc/loadavg", "/proc/self/limits", "/proc/self/status", YAMA):
        recorder.read(path)
    read = recorder.entries
    available = re.search(r"^MemAvailable:\s+([0-9]{1,15}) kB", text_of(read, "/proc/meminfo") or "", re.MULTILINE)
    load = re.match(r"[0-9]{1,9}\.[0-9]+", text_of(read, "/proc/loadavg") or "")
    limits = text_of(read, "/proc/self/limits") or ""
    here = fingerprint(topology)
    tables = tables_here(settings, here)
    return Facts(
        topology=topology,
        n_ranks=n_ranks or settings.n_local_ranks or settings.n_ranks or topology.n_cores,
        staging_bytes=settings.staging_bytes,
        memory_available_bytes=int(available[1]) * 1024 if available else None,
        governors=tuple(governors(recorder)),
        load=float(load[0]) if load else None,
        open_files=_soft_limit(limits, "Max open files"),
        locked_memory_bytes=_soft_limit(limits, "Max locked memory"),
        addresses=(resolve or own_addresses)(),
        data_dir=settings.data_dir,
        data_dir_fault=_write_fault(settings.data_dir),
        tables=tables,
        fingerprint=here,
        identity=identity({name for table in tables for name in table.environment}, root),
        network=network_facts(settings.network, settings.net_devices) if root == "/" else None,
        single_copy_fault=yama_fault(text_of(read, YAMA), text_of(read, "/proc/self/status") or "")
        or own_memory_fault(),
    )


def own_addresses() -> tuple[str, ...] | None:
    """The addresses that this host's name resolves to; None where there are none within two seconds.

    The resolver cannot be told to give up, so it is asked in a thread that is left behind if it does not answer.
    """
    found: list[str] = []

    def ask() -> None:
        try:
            answers = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # no such name; a host name that is no domain name
            return
        found.extend(sorted({str(address[0]) for *_, address in answers}))

    asking = threading.Thread(target=ask, name="autotune-doctor-resolver", daemon=True)
    asking.start()
    asking.join(RESOLVE_TIMEOUT_S)
    return tuple(found) or None


def _soft_limit(limits: str, name: str) -> int | None:
    match = re.search(rf"^{name}\s+([0-9]{{1,20}})\s", limits, re.MULTILINE)
    return int(match[1]) if match else None


def _write_fault(folder: Path) -> str | None:
    """Why no file can be written in a folder that may still have to be made; None where one can."""
    existing = next(place for place in (folder, *folder.parents) if os.path.exists(place))  # False where it is denied
    if not existing.is_dir():
        return f"{existing} is not a folder"
    return None if os.access(existing, os.W_OK | os.X_OK) else f"{existing} may not be written by this user"
