"""What tells one kind of machine from another: 16 hex digits over what decides a tuner's choice and does not drift.

``fingerprint`` is pure. The cache lets ``select`` know this host without a probe: ``remember_fingerprint`` writes it
after a probe, ``cached_fingerprint`` reads it and starts nothing. Standard library only, and little of it, since
``import autotune`` pays for this file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cached_facts import keep, kept

if TYPE_CHECKING:
    from .devices import Device
    from .graph import Topology
    from .links import Link

_FORM = "autotune topology 1"
_DIGITS = 16
_SEATS = ("cpu", "npu", "gpu")  # what ranks sit on
_OVER_NETWORK = ("network", "rdma")


def fingerprint(topology: Topology) -> str:
    """16 hex digits, equal for machines that a table may be carried between.

    The canonical form is the JSON text, in ASCII and without blanks, of ``["autotune topology 1", hosts, links]``:

    * a device is ``[kind, facts, parts]``. ``facts`` are the values of the device's ``decides``, in that order: the CPU
      model of a host, the distances of a NUMA node to the others in ascending order, level and size_bytes of a cache,
      driver and rate_gb_per_s of a network interface, driver, link_layer and rate_gb_per_s of an RDMA port, chip_name
      and memory_bytes of an NPU, model and memory_bytes of a GPU; null where not known. ``parts`` are
      ``[count, device]`` for what stands inside it, equal ones counted, sorted by JSON text.
    * ``hosts`` are such parts too: hosts that stand alone, super pods, switches between hosts.
    * ``links`` are ``[count, [kind of source, kind of destination, kind of link]]``, sorted by their JSON text. Where
      the PCIe path or the number of bonded links is known, both follow the kind, null for the other. Shared memory is
      left out: CPUs of one host always have it, whether it was measured or not. So is a link over the network between
      CPUs or accelerators: it stands for a measured pair, and what is wired is the network interface.

    The fingerprint is the first 16 hex digits of the SHA-256 of its ASCII bytes. So it covers devices and their counts,
    who is inside whom, cache sizes and NUMA shape, and leaves out names, addresses, measured figures, sizes of main
    memory, quotas, and which CPUs this process may use (``environment`` has those). CPUs that are offline are not
    counted and links that are down have no rate: the fingerprint changes with them.
    """
    roots = _counted([shape(topology, device) for device in topology.devices if device.parent is None])
    links = _counted([_wire(topology, link) for link in topology.links.values() if _is_wire(topology, link)])
    return hashlib.sha256(_text([_FORM, roots, links]).encode()).hexdigest()[:_DIGITS]


def _wire(topology: Topology, link: Link) -> list[Any]:
    kinds = [topology.device(link.src).kind.value, topology.device(link.dst).kind.value, link.kind.value]
    if link.path is None and link.n_bonded is None:
        return kinds
    return [*kinds, None if link.path is None else link.path.value, link.n_bonded]


def _is_wire(topology: Topology, link: Link) -> bool:
    """Whether a link is a part of the machine, not a path that was measured end to end."""
    if link.kind.value == "shm":
        return False
    ends = (topology.device(link.src), topology.device(link.dst))
    seats = all(device.kind.value in _SEATS for device in ends)
    return not (seats and link.kind.value in _OVER_NETWORK)


def shape(topology: Topology, device: Device) -> list[Any]:
    """The canonical form of a device and all that stands inside it."""
    facts = [getattr(device, name) for name in device.decides]
    return [device.kind.value, facts, _counted([shape(topology, part) for part in topology.children(device.id)])]


def _counted(items: list[list[Any]]) -> list[list[Any]]:
    counts: dict[str, int] = {}
    for item in items:
        text = _text(item)
        counts[text] = counts.get(text, 0) + 1
    return [[count, json.loads(text)] for text, count in sorted(counts.items())]


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def remember_fingerprint(cache_dir: Path, topology: Topology, root: str = "/") -> None:
    """Keep the fingerprint of this host in ``cache_dir``, until the next boot.

    The file is private (0600, in a folder made 0700), replaced as a whole, and names the machine and the boot by hashes
    only. Each machine has its own file, so that hosts with one home directory do not overwrite each other's.

    Raises:
        ProbeError: the folder cannot be written.
    """
    machine, boot = _identity(root)
    document = {"schema_version": 1, "fingerprint": fingerprint(topology), "machine": machine, "boot": boot}
    keep(cache_dir, _file_name(machine), document, what="the host's fingerprint")


def cached_fingerprint(cache_dir: Path, root: str = "/") -> str | None:
    """The fingerprint that was remembered on this machine since it started; None where there is none.

    A file that is damaged, or of another machine or boot, counts as none: the caller then says what it says to a host
    that was never probed, and the next probe replaces the file.
    """
    machine, boot = _identity(root)
    document = kept(cache_dir, _file_name(machine))
    if document.get("schema_version") != 1:
        return None
    if (document.get("machine"), document.get("boot")) != (machine, boot):
        return None
    value = document.get("fingerprint")
    well_formed = isinstance(value, str) and len(value) == _DIGITS and set(value) <= set("0123456789abcdef")
    return value if well_formed else None


def _file_name(machine: str) -> str:
    return f"fingerprint-{machine[:_DIGITS]}.json"


def _identity(root: str) -> tuple[str, str]:
    """Hashes of the machine id and the boot id.

    The machine id is not to be shown to others (machine-id(5)), and the file may lie on a disk that others read. Where
    it is absent, as in many containers, the boot id stands for it.
    """
    boot = _first_line(root, "proc/sys/kernel/random/boot_id")
    machine = _first_line(root, "etc/machine-id") or _first_line(root, "var/lib/dbus/machine-id") or boot
    return _hashed("machine", machine), _hashed("boot", boot)


def _first_line(root: str, path: str) -> str:
    try:
        with Path(root, path).open("rb") as file:
            return file.read(128).decode("ascii", "replace").strip()
    except OSError:
        return ""


def _hashed(what: str, value: str) -> str:
    return hashlib.sha256(f"autotune {what} {value}".encode()).hexdigest()[:32]
