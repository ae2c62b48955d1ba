"""One function a check. Pure.

In:  `Facts`. Out: a `Finding`. May not touch: the machine.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from ..runtime.staleness import REMEDY, changes
from ..topology.devices import Cpu, Nic, RdmaPort
from ..units import format_bytes
from .facts import RESOLVE_TIMEOUT_S, Facts
from .findings import Finding, error, ok, warning

_MIB = 1 << 20
# What a rank of the default plan holds at its largest message: input, output, the expected answer and a float64 copy of
# it beside the staging memory, and the interpreter with NumPy. An estimate from above.
_LARGEST_MESSAGE_BYTES = 64 * _MIB
_BUFFERS_A_RANK = 5
_INTERPRETER_BYTES = 100 * _MIB
_SHM_BYTES = 1 << 30  # containers are given 64 MiB unless told otherwise; 1 GiB is what their vendors advise
_OPEN_FILES = 1024
_BUSY_SHARE = 0.25  # of all CPUs, in the load average of the last minute


def _memory(facts: Facts) -> Finding:
    need = facts.n_ranks * (_BUFFERS_A_RANK * _LARGEST_MESSAGE_BYTES + facts.staging_bytes + _INTERPRETER_BYTES)
    words = f"{facts.n_ranks} ranks at {format_bytes(_LARGEST_MESSAGE_BYTES)} need about {need // _MIB} MiB"
    limit = facts.topology.hosts[0].memory_limit_bytes
    if limit is not None and limit < need:
        return error(
            "memory limit",
            f"{words}, and the control group allows {limit // _MIB} MiB: the kernel would kill a rank",
            "raise the limit (docker run --memory), or measure less: autotune run --sizes 8-4MiB",
        )
    if facts.memory_available_bytes is not None and facts.memory_available_bytes < need:
        return error(
            "memory",
            f"{words}, and {facts.memory_available_bytes // _MIB} MiB are free",
            "stop what holds the memory, or measure less: autotune run --sizes 8-4MiB",
        )
    return ok("memory", words)


def _shared_memory(facts: Facts) -> Finding:
    size = facts.topology.hosts[0].shm_bytes
    if size is not None and size >= _SHM_BYTES:
        return ok("/dev/shm", f"{size // _MIB} MiB")
    found = "there is none" if size is None else f"it has {size // _MIB} MiB"
    return warning(
        "/dev/shm",
        f"{found}: too little for torch's data loaders, UCX and MPI (autotune's own ranks do not use it)",
        "docker run --shm-size=1g, or as root: mount -o remount,size=1G /dev/shm",
    )


def _single_copy(facts: Facts) -> Finding:
    if facts.single_copy_fault is None:
        return ok("single copy", "ranks may read each other's memory, as far as one process can tell")
    return warning(
        "single copy",
        f"{facts.single_copy_fault}: large messages in private buffers are copied twice (exchange=staged)",
        "as root: sysctl kernel.yama.ptrace_scope=0; in a container: docker run --cap-add=SYS_PTRACE",
    )


def _cpu_quota(facts: Facts) -> Finding:
    quota, n_cores = facts.topology.hosts[0].cpu_quota_cores, facts.topology.n_cores
    if quota is None or quota >= n_cores:
        return ok("CPU quota", "none below the number of cores")
    return warning(
        "CPU quota",
        f"the control group gives CPU time of {quota:g} CPUs to {n_cores} cores: ranks stop in mid-collective",
        "give whole cores instead of time: docker run --cpuset-cpus in place of --cpus",
    )


def _ranks(facts: Facts) -> Finding:
    n_cores = facts.topology.n_cores
    words = f"{facts.n_ranks} ranks, {n_cores} {'core' if n_cores == 1 else 'cores'} that this process may use"
    if facts.n_ranks <= n_cores:
        return ok("ranks", words)
    return warning(
        "ranks",
        f"{words}: ranks wait for a core, so figures hold only for jobs that share cores in the same way",
        f"unless the job does so too: autotune run --ranks {n_cores}",
    )


def _governor(facts: Facts) -> Finding:
    slow = [word for word in facts.governors if word != "performance"]
    if not slow:
        words = "performance" if facts.governors else "not told here, as on most virtual machines"
        return ok("governor", words)
    return warning(
        "governor",
        f"the frequency governor is {', '.join(slow)}: short collectives are timed while clocks change",
        "as root: cpupower frequency-set -g performance",
    )


def _load(facts: Facts) -> Finding:
    n_cpus = len(facts.topology.of(Cpu))
    if facts.load is None or facts.load <= _BUSY_SHARE * n_cpus:
        words = "not told here" if facts.load is None else f"{facts.load:.2f} over the last minute"
        return ok("load", words)
    return warning(
        "load",
        f"{facts.load:.2f} over the last minute on {n_cpus} CPUs: something else is running",
        "see what with: top; wait until it has ended",
    )


def _open_files(facts: Facts) -> Finding:
    need = max(_OPEN_FILES, 32 * facts.n_ranks)
    if facts.open_files is None or facts.open_files >= need:
        return ok("open files", "no limit told" if facts.open_files is None else f"up to {facts.open_files}")
    return warning(
        "open files",
        f"a process may open {facts.open_files}; shared segments and torch want {need}",
        f"ulimit -n {need}",
    )


def _locked_memory(facts: Facts) -> Finding:
    limit = facts.locked_memory_bytes
    if limit is None or not facts.topology.of(RdmaPort):
        words = "no limit told" if limit is None else "no RDMA port that would need more"
        return ok("locked memory", words)
    return warning(
        "locked memory",
        f"a process may lock {limit} bytes: UCX and MPI cannot register buffers for RDMA beyond that",
        "ulimit -l unlimited, or docker run --ulimit memlock=-1",
    )


def _host_name(facts: Facts) -> Finding:
    outside = [nic.name for nic in facts.topology.of(Nic) if nic.state == "up"]
    if facts.addresses is None:
        fault = f"does not resolve within {RESOLVE_TIMEOUT_S:g} s: gloo and MPI cannot find this host's address"
    elif all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in facts.addresses):
        fault = f"resolves to {', '.join(facts.addresses)} only: peers on other hosts would connect to themselves"
    else:
        return ok("host name", "resolves to an address of a network")
    return warning(
        "host name",
        f"it {fault}; runs on this host alone are not touched",
        f"export GLOO_SOCKET_IFNAME={outside[0] if outside else 'the interface to use'}",
    )


def _network(facts: Facts) -> Finding:
    network = facts.network
    if network is None:
        return ok("network between hosts", "not tried")
    if network.problem is not None:
        return warning(
            "network between hosts",
            f"{network.problem.message}; runs on this host alone are not touched",
            network.problem.remedy,
        )
    library = "" if network.library is None else f" {network.version} ({network.library})"
    carrier = {"ucx": "UCX", "sockets": "TCP sockets"}[network.carrier or ""]
    return ok("network between hosts", f"{carrier}{library}, of {', '.join(network.devices)}")


def _data_dir(facts: Facts) -> Finding:
    if facts.data_dir_fault is None:
        return ok("data folder", str(facts.data_dir))
    return error(
        "data folder",
        f"trials and tables cannot be kept in {facts.data_dir}: {facts.data_dir_fault}",
        "set AUTOTUNE_DATA_DIR to a folder that you may write to",
    )


def _tables(facts: Facts) -> Finding:
    """The first table that something is wrong with: one that is refused, another machine's, or an older one."""
    for table in facts.tables:
        if table.fault is not None:
            return error("table", *table.fault)
    for table in facts.tables:
        if not table.serves:
            return warning(
                "table",
                f"{table.origin} was measured on topology {table.fingerprint}, and this host has {facts.fingerprint}",
                "measure here: autotune run",
            )
    for table in facts.tables:
        if found := changes(table.environment, facts.identity):
            return warning("table", f"since {table.origin} was measured: {', '.join(map(str, found))}", REMEDY)
    if not facts.tables:
        return ok("table", "none for this host yet; jobs get the shipped rules")
    return ok("table", "; ".join(table.origin for table in facts.tables) + ": nothing changed since")


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
