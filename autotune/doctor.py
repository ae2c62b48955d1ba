"""What on this host would spoil a run, and what to do about it.

In: the topology, a few more files below a root, the settings, the tables that jobs here get, the host's own name. Out:
a list of findings. Each check is a pure function of ``Facts``; only ``gather`` touches the machine. Nothing is changed,
nothing is started.
"""

from __future__ import annotations

import enum
import ipaddress
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import settings as settings_module
from .hccl.installed import torch_npu_fault
from .kernels.single_copy import YAMA, own_memory_fault, yama_fault
from .runtime.host_tables import HostTable, tables_here
from .runtime.network_facts import NetworkFacts, network_facts
from .runtime.staleness import REMEDY, changes
from .settings import Settings
from .topology.devices import Cpu, Nic, RdmaPort
from .topology.environment import governors
from .topology.fingerprint import fingerprint
from .topology.graph import Topology
from .topology.host import collect, parse
from .topology.identity import identity
from .topology.probes.recording import Recorder, text_of
from .units import format_bytes

_MIB = 1 << 20
# What a rank of the default plan holds at its largest message: input, output, the expected answer and a float64 copy of
# it beside the staging memory, and the interpreter with NumPy. An estimate from above.
_LARGEST_MESSAGE_BYTES = 64 * _MIB
_BUFFERS_A_RANK = 5
_INTERPRETER_BYTES = 100 * _MIB
_SHM_BYTES = 1 << 30  # containers are given 64 MiB unless told otherwise; 1 GiB is what their vendors advise
_OPEN_FILES = 1024
_BUSY_SHARE = 0.25  # of all CPUs, in the load average of the last minute
_RESOLVE_TIMEOUT_S = 2.0


class Severity(enum.Enum):
    """``ERROR``: the run would fail. ``WARNING``: it would measure something else than meant."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says; only a finding that is not OK has a remedy."""

    severity: Severity
    subject: str
    message: str
    remedy: str | None = None

    def __post_init__(self) -> None:
        if (self.severity is Severity.OK) != (self.remedy is None):
            raise ValueError(f"{self.subject}: a remedy is given exactly where something is wrong")


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


def diagnose(root: str = "/", settings: Settings | None = None, n_ranks: int | None = None) -> list[Finding]:
    """Look at this host: one finding a check, the worst first.

    Args:
        root: where ``/sys``, ``/proc`` and ``/dev`` are looked for.
        settings: those of the environment unless given.
        n_ranks: the most ranks that will run here; unless given, the launcher's LOCAL_WORLD_SIZE or
            WORLD_SIZE, else one for each core.

    Raises:
        ProbeError: the machine could not be read.
    """
    found = examine(gather(root, settings or settings_module.read(), n_ranks))
    fault = torch_npu_fault(os.environ, root)
    return found if fault is None else [_error("torch_npu", *fault), *found]


def examine(facts: Facts) -> list[Finding]:
    """The checks alone, pure."""
    order = list(Severity)
    return sorted((check(facts) for check in CHECKS), key=lambda finding: order.index(finding.severity))


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
    asking.join(_RESOLVE_TIMEOUT_S)
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


def _ok(subject: str, message: str) -> Finding:
    return Finding(severity=Severity.OK, subject=subject, message=message)


def _warning(subject: str, message: str, remedy: str) -> Finding:
    return Finding(severity=Severity.WARNING, subject=subject, message=message, remedy=remedy)


def _error(subject: str, message: str, remedy: str) -> Finding:
    return Finding(severity=Severity.ERROR, subject=subject, message=message, remedy=remedy)


def _memory(facts: Facts) -> Finding:
    need = facts.n_ranks * (_BUFFERS_A_RANK * _LARGEST_MESSAGE_BYTES + facts.staging_bytes + _INTERPRETER_BYTES)
    words = f"{facts.n_ranks} ranks at {format_bytes(_LARGEST_MESSAGE_BYTES)} need about {need // _MIB} MiB"
    limit = facts.topology.hosts[0].memory_limit_bytes
    if limit is not None and limit < need:
        return _error(
            "memory limit",
            f"{words}, and the control group allows {limit // _MIB} MiB: the kernel would kill a rank",
            "raise the limit (docker run --memory), or measure less: autotune run --sizes 8-4MiB",
        )
    if facts.memory_available_bytes is not None and facts.memory_available_bytes < need:
        return _error(
            "memory",
            f"{words}, and {facts.memory_available_bytes // _MIB} MiB are free",
            "stop what holds the memory, or measure less: autotune run --sizes 8-4MiB",
        )
    return _ok("memory", words)


def _shared_memory(facts: Facts) -> Finding:
    size = facts.topology.hosts[0].shm_bytes
    if size is not None and size >= _SHM_BYTES:
        return _ok("/dev/shm", f"{size // _MIB} MiB")
    found = "there is none" if size is None else f"it has {size // _MIB} MiB"
    return _warning(
        "/dev/shm",
        f"{found}: too little for torch's data loaders, UCX and MPI (autotune's own ranks do not use it)",
        "docker run --shm-size=1g, or as root: mount -o remount,size=1G /dev/shm",
    )


def _single_copy(facts: Facts) -> Finding:
    if facts.single_copy_fault is None:
        return _ok("single copy", "ranks may read each other's memory, as far as one process can tell")
    return _warning(
        "single copy",
        f"{facts.single_copy_fault}: large messages in private buffers are copied twice (exchange=staged)",
        "as root: sysctl kernel.yama.ptrace_scope=0; in a container: docker run --cap-add=SYS_PTRACE",
    )


def _cpu_quota(facts: Facts) -> Finding:
    quota, n_cores = facts.topology.hosts[0].cpu_quota_cores, facts.topology.n_cores
    if quota is None or quota >= n_cores:
        return _ok("CPU quota", "none below the number of cores")
    return _warning(
        "CPU quota",
        f"the control group gives CPU time of {quota:g} CPUs to {n_cores} cores: ranks stop in mid-collective",
        "give whole cores instead of time: docker run --cpuset-cpus in place of --cpus",
    )


def _ranks(facts: Facts) -> Finding:
    n_cores = facts.topology.n_cores
    words = f"{facts.n_ranks} ranks, {n_cores} {'core' if n_cores == 1 else 'cores'} that this process may use"
    if facts.n_ranks <= n_cores:
        return _ok("ranks", words)
    return _warning(
        "ranks",
        f"{words}: ranks wait for a core, so figures hold only for jobs that share cores in the same way",
        f"unless the job does so too: autotune run --ranks {n_cores}",
    )


def _governor(facts: Facts) -> Finding:
    slow = [word for word in facts.governors if word != "performance"]
    if not slow:
        words = "performance" if facts.governors else "not told here, as on most virtual machines"
        return _ok("governor", words)
    return _warning(
        "governor",
        f"the frequency governor is {', '.join(slow)}: short collectives are timed while clocks change",
        "as root: cpupower frequency-set -g performance",
    )


def _load(facts: Facts) -> Finding:
    n_cpus = len(facts.topology.of(Cpu))
    if facts.load is None or facts.load <= _BUSY_SHARE * n_cpus:
        words = "not told here" if facts.load is None else f"{facts.load:.2f} over the last minute"
        return _ok("load", words)
    return _warning(
        "load",
        f"{facts.load:.2f} over the last minute on {n_cpus} CPUs: something else is running",
        "see what with: top; wait until it has ended",
    )


def _open_files(facts: Facts) -> Finding:
    need = max(_OPEN_FILES, 32 * facts.n_ranks)
    if facts.open_files is None or facts.open_files >= need:
        return _ok("open files", "no limit told" if facts.open_files is None else f"up to {facts.open_files}")
    return _warning(
        "open files",
        f"a process may open {facts.open_files}; shared segments and torch want {need}",
        f"ulimit -n {need}",
    )


def _locked_memory(facts: Facts) -> Finding:
    limit = facts.locked_memory_bytes
    if limit is None or not facts.topology.of(RdmaPort):
        words = "no limit told" if limit is None else "no RDMA port that would need more"
        return _ok("locked memory", words)
    return _warning(
        "locked memory",
        f"a process may lock {limit} bytes: UCX and MPI cannot register buffers for RDMA beyond that",
        "ulimit -l unlimited, or docker run --ulimit memlock=-1",
    )


def _host_name(facts: Facts) -> Finding:
    outside = [nic.name for nic in facts.topology.of(Nic) if nic.state == "up"]
    if facts.addresses is None:
        fault = f"does not resolve within {_RESOLVE_TIMEOUT_S:g} s: gloo and MPI cannot find this host's address"
    elif all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in facts.addresses):
        fault = f"resolves to {', '.join(facts.addresses)} only: peers on other hosts would connect to themselves"
    else:
        return _ok("host name", "resolves to an address of a network")
    return _warning(
        "host name",
        f"it {fault}; runs on this host alone are not touched",
        f"export GLOO_SOCKET_IFNAME={outside[0] if outside else 'the interface to use'}",
    )


def _network(facts: Facts) -> Finding:
    network = facts.network
    if network is None:
        return _ok("network between hosts", "not tried")
    if network.problem is not None:
        return _warning(
            "network between hosts",
            f"{network.problem.message}; runs on this host alone are not touched",
            network.problem.remedy,
        )
    library = "" if network.library is None else f" {network.version} ({network.library})"
    carrier = {"ucx": "UCX", "sockets": "TCP sockets"}[network.carrier or ""]
    return _ok("network between hosts", f"{carrier}{library}, of {', '.join(network.devices)}")


def _data_dir(facts: Facts) -> Finding:
    if facts.data_dir_fault is None:
        return _ok("data folder", str(facts.data_dir))
    return _error(
        "data folder",
        f"trials and tables cannot be kept in {facts.data_dir}: {facts.data_dir_fault}",
        "set AUTOTUNE_DATA_DIR to a folder that you may write to",
    )


def _tables(facts: Facts) -> Finding:
    """The first table that something is wrong with: one that is refused, another machine's, or an older one."""
    for table in facts.tables:
        if table.fault is not None:
            return _error("table", *table.fault)
    for table in facts.tables:
        if not table.serves:
            return _warning(
                "table",
                f"{table.origin} was measured on topology {table.fingerprint}, and this host has {facts.fingerprint}",
                "measure here: autotune run",
            )
    for table in facts.tables:
        if found := changes(table.environment, facts.identity):
            return _warning("table", f"since {table.origin} was measured: {', '.join(map(str, found))}", REMEDY)
    if not facts.tables:
        return _ok("table", "none for this host yet; jobs get the shipped rules")
    return _ok("table", "; ".join(table.origin for table in facts.tables) + ": nothing changed since")


CHECKS: tuple[Callable[[Facts], Finding], ...] = (
    _memory,
    _shared_memory,
    _single_copy,
    _cpu_quota,
    _ranks,
    _governor,
    _load,
    _open_files,
    _locked_memory,
    _host_name,
    _network,
    _data_dir,
    _tables,
)
