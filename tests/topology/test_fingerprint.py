"""The fingerprint: the same where the choice is the same, another where it is not; and the cache of this host's."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ProbeError
from autotune.topology.accelerators import Npu
from autotune.topology.devices import Device, Host
from autotune.topology.fingerprint import cached_fingerprint, fingerprint, remember_fingerprint
from autotune.topology.graph import Topology
from autotune.topology.links import Link, LinkKind, PciePath, Provenance
from autotune.topology.machines import machine
from autotune.topology.probes.linux import parse

Recorded = Callable[[str], dict[str, str]]
Identify = Callable[[str | None, str], str]

CPU = "/sys/devices/system/cpu"
MACHINE = "two-sockets-smt-roce"


def edited(recording: dict[str, str], pattern: str, text: str) -> dict[str, str]:
    """The recording with another text at every path that matches; at least one must."""
    matching = {path: text for path in recording if re.fullmatch(pattern, path)}
    assert matching
    return recording | matching


def test_is_16_hex_digits(recorded: Recorded) -> None:
    assert re.fullmatch("[0-9a-f]{16}", fingerprint(parse(recorded(MACHINE))))


def test_is_the_same_for_ever(recorded: Recorded) -> None:
    """Stored tables are found by it: a change of the canonical form must be meant."""
    assert fingerprint(parse(recorded(MACHINE))) == "3390f2b827ae1659"


@pytest.mark.parametrize(
    "edit",
    [
        lambda r: {path.replace("ens3f0np0", "eth7").replace("mlx5_0", "roce3"): text for path, text in r.items()},
        lambda r: dict(reversed(r.items())),
        lambda r: edited(r, "/proc/meminfo", "MemTotal: 263856000 kB"),
        lambda r: edited(r, ".*/node[0-9]/meminfo", "Node 0 MemTotal: 7 kB"),
        lambda r: edited(r, ".*/memory.max", "1000000000"),
        lambda r: edited(r, ".*/cpu.max", "50000 100000"),
        lambda r: edited(r, "/dev/shm", "67108864 bytes"),
        lambda r: edited(r, "/proc/self/status", "Cpus_allowed_list:\t3"),
        lambda r: edited(r, "/sys/class/net/.*/mtu", "1500"),
        lambda r: r | {"/sys/class/net/veth0": "../../devices/virtual/net/veth0"},
        lambda r: (
            edited(r, ".*/physical_package_id", "0")
            | {
                path: "36" if text == "0" else "3588"
                for path, text in r.items()
                if path.endswith("physical_package_id")
            }
        ),
    ],
    ids=["names", "order", "memory", "node memory", "limit", "quota", "shm", "cpuset", "mtu", "veth", "socket numbers"],
)
def test_leaves_out_what_drifts(recorded: Recorded, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
    recording = recorded(MACHINE)
    assert edit(recording) != recording or list(edit(recording)) != list(recording)
    assert fingerprint(parse(edit(recording))) == fingerprint(parse(recording))


@pytest.mark.parametrize(
    "edit",
    [
        lambda r: edited(r, f"{CPU}/cpu[0-9]+/cache/index3/size", "36864K"),
        lambda r: edited(r, f"{CPU}/cpu0/cache/index2/size", "2048K"),
        lambda r: edited(r, "/sys/class/net/ens3f0np0/speed", "25000"),
        lambda r: edited(r, "/sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)"),
        lambda r: edited(r, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand"),
        lambda r: edited(r, "/sys/class/net/ens3f0np0/device/numa_node", "0"),
        lambda r: edited(r, "/sys/class/net/eno1/device/driver", "../drivers/igb"),
        lambda r: edited(r, f"{CPU}/online", "0-15"),
        lambda r: edited(r, f"{CPU}/online", "0-14,16-30"),
        lambda r: edited(r, ".*/node0/distance", "10 31"),
        lambda r: edited(r, ".*/physical_package_id", "0"),
        lambda r: edited(r, "/proc/cpuinfo", "processor: 0\nmodel name: another"),
        lambda r: {path: text for path, text in r.items() if not path.startswith("/sys/class/infiniband")},
    ],
    ids=[
        "L3",
        "one L2",
        "NIC",
        "RDMA",
        "RDMA layer",
        "where",
        "driver",
        "SMT off",
        "a core less",
        "NUMA",
        "sockets",
        "CPU",
        "no RDMA",
    ],
)
def test_changes_with_what_decides(recorded: Recorded, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
    recording = recorded(MACHINE)
    assert fingerprint(parse(edit(recording))) != fingerprint(parse(recording))


@given(figures=st.lists(st.floats(0.01, 1000), min_size=2, max_size=2))
def test_measuring_does_not_change_it(recorded: Recorded, figures: list[float]) -> None:
    topology = parse(recorded(MACHINE))
    link = Link(
        src="host0/cpu0",
        dst="host0/cpu1",
        kind=LinkKind.SHM,
        latency_us=figures[0],
        bandwidth_gb_per_s=figures[1],
        source=Provenance.PROBE,
    )
    assert fingerprint(topology.with_links([link])) == fingerprint(topology)


def test_another_kind_of_link_changes_it(recorded: Recorded) -> None:
    topology = parse(recorded(MACHINE))
    link = Link(
        src="host0/net-eno1",
        dst="host0/numa0",
        kind=LinkKind.PCIE,
        latency_us=None,
        bandwidth_gb_per_s=None,
        source=Provenance.DATASHEET,
    )
    assert fingerprint(topology.with_links([link])) != fingerprint(topology)


def dies(n: int = 4, **facts: object) -> list[Device]:
    made = [Npu(**{"id": f"h/npu{n}", "parent": "h", "number": n, "chip_name": "910B3", **facts}) for n in range(n)]
    return [Host(id="h", parent=None), *made]


def joined(a: int, b: int, **facts: object) -> Link:
    ends = {"src": f"h/npu{a}", "dst": f"h/npu{b}", "latency_us": None, "bandwidth_gb_per_s": None}
    return Link(**{**ends, "kind": LinkKind.HCCS, "source": Provenance.PROBE, **facts})


def accelerated(devices: list[Device], *links: Link) -> str:
    return fingerprint(Topology(devices=tuple(devices), links={(link.src, link.dst): link for link in links}))


def test_of_accelerators_is_the_same_for_ever() -> None:
    assert accelerated(dies(), joined(0, 1), joined(2, 3, kind=LinkKind.PCIE, path=PciePath.PIX)) == "8ff45a599f6e7c29"


@pytest.mark.parametrize(
    ("devices", "link"),
    [
        (dies(health="Warning"), joined(0, 1)),
        (dies(bus_id="0000:9D:00.0"), joined(0, 1)),
        (dies(address="192.0.2.1", super_device_id="37748736", physical_id=3), joined(0, 1)),
        (
            [
                replace(device, id=device.id.replace("h/", "")) if device.parent else replace(device, name="hosta")
                for device in dies()
            ],
            joined(0, 1, src="npu0", dst="npu1"),
        ),
        (dies(), joined(2, 3)),
        (dies(), joined(0, 1, latency_us=2.0, bandwidth_gb_per_s=18.0, source=Provenance.DATASHEET)),
    ],
    ids=["health", "bus", "addresses", "names", "which pair", "figures"],
)
def test_of_accelerators_leaves_out(devices: list[Device], link: Link) -> None:
    assert accelerated(devices, link) == accelerated(dies(), joined(0, 1))


@pytest.mark.parametrize(
    ("devices", "link"),
    [
        (dies(chip_name="910B4"), joined(0, 1)),
        (dies(memory_bytes=1 << 36), joined(0, 1)),
        (dies(5), joined(0, 1)),
        (dies(), joined(0, 1, kind=LinkKind.SIO)),
        (dies(), joined(0, 1, n_bonded=2)),
        (dies(), joined(0, 1, kind=LinkKind.PCIE)),
        (dies(), joined(0, 1, kind=LinkKind.PCIE, path=PciePath.PIX)),
    ],
    ids=["chip", "memory", "count", "kind", "bonded", "PCIe", "path"],
)
def test_of_accelerators_changes_with(devices: list[Device], link: Link) -> None:
    seen = {accelerated(dies(), joined(0, 1)), accelerated(devices, link)}
    assert len(seen) == 2
    assert accelerated(dies(), joined(0, 1, kind=LinkKind.PCIE, path=PciePath.SYS)) not in seen


def test_a_measured_way_over_the_network_is_no_wire() -> None:
    topology = machine("atlas-800t-a2", n_hosts=2)
    measured = joined(0, 1, src="host0/npu0", dst="host1/npu0", kind=LinkKind.RDMA, latency_us=3.0)
    assert fingerprint(topology.with_links([measured])) == fingerprint(topology)
    wire = replace(measured, src="host0/net-roce0", dst="host1/net-roce0")
    assert fingerprint(topology.with_links([wire])) != fingerprint(topology)


@pytest.fixture
def root(tmp_path: Path) -> Identify:
    """A machine whose ids are known, and a function that gives it others."""

    def identify(machine: str | None, boot: str) -> str:
        (tmp_path / "root/etc").mkdir(parents=True, exist_ok=True)
        (tmp_path / "root/proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
        (tmp_path / "root/etc/machine-id").write_text(f"{machine or ''}\n")
        (tmp_path / "root/proc/sys/kernel/random/boot_id").write_text(f"{boot}\n")
        return str(tmp_path / "root")

    return identify


def test_remembers_until_the_next_boot(recorded: Recorded, root: Identify, tmp_path: Path) -> None:
    topology = parse(recorded(MACHINE))
    cache = tmp_path / "home/cache/autotune"
    assert cached_fingerprint(cache, root("m1", "b1")) is None
    remember_fingerprint(cache, topology, root("m1", "b1"))
    assert cached_fingerprint(cache, root("m1", "b1")) == fingerprint(topology)
    assert cached_fingerprint(cache, root("m1", "b2")) is None
    assert cached_fingerprint(cache, root("m2", "b1")) is None


def test_hosts_with_one_home_directory_keep_their_own(recorded: Recorded, root: Identify, tmp_path: Path) -> None:
    small, large = parse(recorded("virtual-machine")), parse(recorded(MACHINE))
    remember_fingerprint(tmp_path, small, root("m1", "b1"))
    remember_fingerprint(tmp_path, large, root("m2", "b2"))
    assert cached_fingerprint(tmp_path, root("m1", "b1")) == fingerprint(small)
    assert cached_fingerprint(tmp_path, root("m2", "b2")) == fingerprint(large)


def test_without_a_machine_id_the_boot_stands_for_it(recorded: Recorded, root: Identify, tmp_path: Path) -> None:
    remember_fingerprint(tmp_path, parse(recorded(MACHINE)), root(None, "b1"))
    assert cached_fingerprint(tmp_path, root(None, "b1")) is not None
    assert cached_fingerprint(tmp_path, root(None, "b2")) is None


def test_is_private_and_names_no_machine(recorded: Recorded, root: Identify, tmp_path: Path) -> None:
    cache = tmp_path / "new"
    remember_fingerprint(cache, parse(recorded(MACHINE)), root("secret-machine-id", "secret-boot-id"))
    (file,) = cache.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert "secret" not in file.name + file.read_text()


@pytest.mark.parametrize("text", ["", "{", "[]", "\0" * 5000, "[" * 4000, '{"fingerprint": "0123456789abcdef"}'])
def test_a_damaged_file_counts_as_none(recorded: Recorded, root: Identify, tmp_path: Path, text: str) -> None:
    cache = tmp_path / "cache"
    remember_fingerprint(cache, parse(recorded(MACHINE)), root("m1", "b1"))
    (file,) = cache.iterdir()
    file.write_text(text)
    assert cached_fingerprint(cache, root("m1", "b1")) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fingerprint", "../../etc/passwd"),
        ("fingerprint", 7),
        ("fingerprint", None),
        ("schema_version", 2),
        ("boot", ""),
    ],
)
def test_an_edited_file_counts_as_none(
    recorded: Recorded, root: Identify, tmp_path: Path, name: str, value: object
) -> None:
    cache = tmp_path / "cache"
    remember_fingerprint(cache, parse(recorded(MACHINE)), root("m1", "b1"))
    (file,) = cache.iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: value}))
    assert cached_fingerprint(cache, root("m1", "b1")) is None


def test_a_cache_that_cannot_be_written_is_an_error_and_leaves_nothing(
    recorded: Recorded, root: Identify, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ProbeError) as caught:
        remember_fingerprint(tmp_path / "file", parse(recorded(MACHINE)), root("m1", "b1"))
    assert caught.value.remedy == "set AUTOTUNE_CACHE_DIR to a folder that you may write to"


def test_a_failed_replacement_leaves_no_file_behind(recorded: Recorded, root: Identify, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    remember_fingerprint(cache, parse(recorded(MACHINE)), root("m1", "b1"))
    (file,) = cache.iterdir()
    file.unlink()
    file.mkdir()
    with pytest.raises(ProbeError):
        remember_fingerprint(cache, parse(recorded(MACHINE)), root("m1", "b1"))
    assert list(cache.iterdir()) == [file]
