"""The doctor: a healthy host has nothing, and each planted fault is found, by one check, with a remedy."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.doctor import CHECKS, Facts, Finding, Severity, diagnose, examine, gather, own_addresses
from autotune.doctor import facts as facts_module
from autotune.errors import UsageError
from autotune.runtime.host_tables import HostTable
from autotune.runtime.network_facts import NetworkFacts
from autotune.settings import read
from autotune.table import save_table, shipped_table
from autotune.topology.devices import Host
from autotune.topology.graph import Topology
from autotune.topology.probes.linux import parse

MACHINES = Path(__file__).parents[1] / "golden" / "machines"
GIB = 1 << 30
ENVIRONMENT = {
    "kernel": "6.1.0",
    "cpu_model": "A + B",
    "driver_nvidia": "535.104",
    "torch": "unknown",
    "python": "3.11",
}


def machine(name: str) -> Topology:
    return parse(json.loads((MACHINES / name / "recording.json").read_text("utf-8")))


def with_host(
    facts: Facts,
    memory_limit_bytes: int | None = None,
    shm_bytes: int | None = 8 * GIB,
    cpu_quota_cores: float | None = None,
) -> Facts:
    host, *others = facts.topology.devices
    assert isinstance(host, Host)
    limited = replace(host, memory_limit_bytes=memory_limit_bytes, shm_bytes=shm_bytes, cpu_quota_cores=cpu_quota_cores)
    return replace(facts, topology=replace(facts.topology, devices=(limited, *others)))


def network_without(problem: UsageError) -> NetworkFacts:
    return NetworkFacts(carrier=None, library=None, version=None, devices=("eth0",), problem=problem)


@pytest.fixture
def healthy(tmp_path: Path) -> Facts:
    return Facts(
        topology=machine("two-sockets-smt-roce"),
        n_ranks=16,
        staging_bytes=8 << 20,
        memory_available_bytes=200 * GIB,
        governors=("performance",),
        load=0.3,
        open_files=65536,
        locked_memory_bytes=None,
        addresses=("192.0.2.7", "127.0.1.1"),
        data_dir=tmp_path,
        data_dir_fault=None,
        tables=(HostTable(origin="this host's table", fingerprint="0123456789abcdef", environment=ENVIRONMENT),),
        fingerprint="0123456789abcdef",
        identity={"kernel": "6.1.0", "cpu_model": "A", "driver_nvidia": "535.104"},
        network=NetworkFacts(carrier="sockets", library=None, version=None, devices=("eth0",)),
    )


def test_a_healthy_host_has_nothing(healthy: Facts) -> None:
    assert {finding.severity for finding in examine(healthy)} == {Severity.OK}
    assert len(examine(healthy)) == len(CHECKS)


@pytest.mark.parametrize(
    ("plant", "severity", "subject", "message", "remedy"),
    [
        (
            lambda facts: with_host(facts, memory_limit_bytes=GIB),
            Severity.ERROR,
            "memory limit",
            "16 ranks at 64MiB need about 6848 MiB, and the control group allows 1024 MiB",
            "autotune run --sizes 8-4MiB",
        ),
        (
            lambda facts: replace(facts, memory_available_bytes=GIB),
            Severity.ERROR,
            "memory",
            "and 1024 MiB are free",
            "autotune run --sizes 8-4MiB",
        ),
        (
            lambda facts: with_host(facts, shm_bytes=64 << 20),
            Severity.WARNING,
            "/dev/shm",
            "it has 64 MiB",
            "--shm-size=1g",
        ),
        (
            lambda facts: replace(facts, single_copy_fault="Operation not permitted"),
            Severity.WARNING,
            "single copy",
            "Operation not permitted",
            "SYS_PTRACE",
        ),
        (
            lambda facts: with_host(facts, shm_bytes=None),
            Severity.WARNING,
            "/dev/shm",
            "there is none",
            "--shm-size=1g",
        ),
        (
            lambda facts: with_host(facts, cpu_quota_cores=1.5),
            Severity.WARNING,
            "CPU quota",
            "CPU time of 1.5 CPUs to 16 cores",
            "--cpuset-cpus",
        ),
        (
            lambda facts: replace(facts, n_ranks=17),
            Severity.WARNING,
            "ranks",
            "17 ranks, 16 cores",
            "autotune run --ranks 16",
        ),
        (
            lambda facts: replace(facts, governors=("performance", "powersave")),
            Severity.WARNING,
            "governor",
            "the frequency governor is powersave",
            "cpupower frequency-set -g performance",
        ),
        (
            lambda facts: replace(facts, load=9.5),
            Severity.WARNING,
            "load",
            "9.50 over the last minute on 32 CPUs",
            "top",
        ),
        (
            lambda facts: replace(facts, open_files=256),
            Severity.WARNING,
            "open files",
            "may open 256",
            "ulimit -n 1024",
        ),
        (
            lambda facts: replace(facts, locked_memory_bytes=8 << 20),
            Severity.WARNING,
            "locked memory",
            "may lock 8388608 bytes",
            "ulimit -l unlimited",
        ),
        (
            lambda facts: replace(facts, network=network_without(UsageError("no such nic", remedy="name another"))),
            Severity.WARNING,
            "network between hosts",
            "no such nic; runs on this host alone are not touched",
            "name another",
        ),
        (
            lambda facts: replace(facts, addresses=("127.0.1.1", "::1")),
            Severity.WARNING,
            "host name",
            "resolves to 127.0.1.1, ::1 only",
            "export GLOO_SOCKET_IFNAME=eno1",
        ),
        (
            lambda facts: replace(facts, addresses=None),
            Severity.WARNING,
            "host name",
            "does not resolve",
            "GLOO_SOCKET_IFNAME",
        ),
        (
            lambda facts: replace(facts, data_dir_fault="/data may not be written by this user"),
            Severity.ERROR,
            "data folder",
            "/data may not be written",
            "AUTOTUNE_DATA_DIR",
        ),
        (
            lambda facts: replace(facts, identity={**facts.identity, "kernel": "6.8.0", "driver_nvidia": "550.90"}),
            Severity.WARNING,
            "table",
            "since this host's table was measured: driver nvidia 535.104 -> 550.90, kernel 6.1.0 -> 6.8.0",
            "autotune run --confirm",
        ),
        (
            lambda facts: replace(facts, tables=(replace(facts.tables[0], serves=False),), fingerprint="f" * 16),
            Severity.WARNING,
            "table",
            "measured on topology 0123456789abcdef, and this host has ffffffffffffffff",
            "autotune run",
        ),
        (
            lambda facts: replace(facts, tables=(HostTable(origin="x", fault=("x.json is damaged", "write it anew")),)),
            Severity.ERROR,
            "table",
            "x.json is damaged",
            "write it anew",
        ),
    ],
)
def test_finds_the_fault_and_nothing_else(
    healthy: Facts, plant: Callable[[Facts], Facts], severity: Severity, subject: str, message: str, remedy: str
) -> None:
    worst, *others = examine(plant(healthy))
    assert (worst.severity, worst.subject) == (severity, subject)
    assert message in worst.message
    assert worst.remedy is not None
    assert remedy in worst.remedy
    assert {finding.severity for finding in others} == {Severity.OK}


@pytest.mark.parametrize(
    "change",
    [
        {"governors": (), "load": None, "open_files": None, "memory_available_bytes": None},
        {"addresses": ("fe80::1%eth0",)},
        {"topology": machine("virtual-machine"), "n_ranks": 2, "locked_memory_bytes": 65536},
        {"tables": ()},
        {"identity": {"torch": "2.9"}},
    ],
    ids=["nothing told", "an address with a zone", "no RDMA port to lock memory for", "no table", "nothing to compare"],
)
def test_raises_no_false_alarm(healthy: Facts, change: dict[str, Any]) -> None:
    assert {finding.severity for finding in examine(replace(healthy, **change))} == {Severity.OK}


def test_the_worst_stands_first(healthy: Facts) -> None:
    ill = replace(healthy, governors=("powersave",), data_dir_fault="is gone")
    assert [finding.subject for finding in examine(ill)[:2]] == ["data folder", "governor"]


def test_a_finding_has_a_remedy_exactly_where_something_is_wrong() -> None:
    with pytest.raises(ValueError, match="a remedy is given exactly"):
        Finding(severity=Severity.ERROR, subject="x", message="y")
    with pytest.raises(ValueError, match="a remedy is given exactly"):
        Finding(severity=Severity.OK, subject="x", message="y", remedy="z")


FILES = {
    "sys/devices/system/cpu/online": "0-3",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "schedutil",
    "proc/meminfo": "MemTotal:  8388608 kB\nMemFree: 1 kB\nMemAvailable:   4194304 kB",
    "proc/loadavg": "2.25 1.00 0.50 3/200 4711",
    "proc/self/limits": (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max open files            512                  1048576              files\n"
        "Max locked memory         unlimited            unlimited            bytes"
    ),
}


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name, text in FILES.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return str(tmp_path / "root")


def test_gathers_from_files(root: str, tmp_path: Path) -> None:
    settings = read({"HOME": str(tmp_path), "WORLD_SIZE": "6"})
    facts = gather(root, settings, None, resolve=lambda: ("192.0.2.1",))
    assert facts.n_ranks == 6
    assert facts.topology.n_cores == 4
    assert facts.memory_available_bytes == 4 * GIB
    assert facts.governors == ("schedutil",)
    assert facts.load == 2.25
    assert (facts.open_files, facts.locked_memory_bytes) == (512, None)
    assert facts.addresses == ("192.0.2.1",)
    assert facts.data_dir_fault is None
    assert not facts.data_dir.exists()


def test_ranks_are_the_callers_then_the_launchers_then_one_a_core(root: str, tmp_path: Path) -> None:
    launched = read({"HOME": str(tmp_path), "WORLD_SIZE": "6"})
    alone = read({"HOME": str(tmp_path)})
    counts = [
        gather(root, settings, n, resolve=tuple).n_ranks
        for settings, n in ((launched, 3), (launched, None), (alone, None))
    ]
    assert counts == [3, 6, 4]


def test_a_data_folder_below_a_file_cannot_be_written(root: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    settings = read({"HOME": str(tmp_path), "AUTOTUNE_DATA_DIR": str(tmp_path / "file/data")})
    assert gather(root, settings, None, resolve=tuple).data_dir_fault == f"{tmp_path / 'file'} is not a folder"


def test_own_addresses_are_what_the_name_resolves_to(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("192.0.2.7", "127.0.1.1", "192.0.2.7")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    assert own_addresses() == ("127.0.1.1", "192.0.2.7")


def test_a_name_that_does_not_resolve_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert own_addresses() is None


def test_a_resolver_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    asked = threading.Event()

    def hang(*_: object, **__: object) -> list[object]:
        asked.set()
        answer.wait(timeout=60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(facts_module, "RESOLVE_TIMEOUT_S", 0.01)
    try:
        assert own_addresses() is None
        assert asked.wait(timeout=60)
    finally:
        answer.set()
        for thread in threading.enumerate():
            if thread.name == "autotune-doctor-resolver":
                thread.join(timeout=60)


def test_this_host_is_examined(tmp_path: Path) -> None:
    findings = diagnose(settings=read({"HOME": str(tmp_path)}), n_ranks=1)
    assert len(findings) == len(CHECKS)
    assert len({finding.subject for finding in findings}) == len(CHECKS)


def test_a_table_that_was_measured_with_other_versions_is_gathered_and_named(root: str, tmp_path: Path) -> None:
    kernel = Path(root, "proc/sys/kernel/osrelease")
    kernel.parent.mkdir(parents=True)
    kernel.write_text("6.8.0-test\n")
    file = tmp_path / "table.json"
    save_table(replace(shipped_table("native"), environment={"kernel": "6.1.0-test"}), file)
    settings = read({"HOME": str(tmp_path), "AUTOTUNE_TABLE": str(file)})
    (table,) = [f for f in examine(gather(root, settings, 1, resolve=tuple)) if f.subject == "table"]
    assert table.message == f"since AUTOTUNE_TABLE ({file}) was measured: kernel 6.1.0-test -> 6.8.0-test"
    kernel.write_text("6.1.0-test\n")
    (table,) = [f for f in examine(gather(root, settings, 1, resolve=tuple)) if f.subject == "table"]
    assert table.severity is Severity.OK


def test_a_damaged_table_is_found_before_a_job_finds_it(root: str, tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text("{")
    settings = read({"HOME": str(tmp_path), "AUTOTUNE_TABLE": str(tmp_path / "table.json")})
    worst, *_ = [f for f in examine(gather(root, settings, 1, resolve=tuple)) if f.subject == "table"]
    assert worst.severity is Severity.ERROR
    assert "table.json" in worst.message
