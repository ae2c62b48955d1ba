"""A Linux host, x86-64 or aarch64, from sysfs and procfs: processors, memory, interfaces, PCI functions, limits.

``collect`` is the only function that touches the machine; it reads files and starts nothing. ``parse`` is pure. What is
absent or cannot be read is said in ``Topology.unseen`` and the rest is still built; a text that cannot be read without
guessing is an error.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace

from ..devices import DeviceId, Host, NumaNode
from ..graph import Topology
from .cgroup import collect_limits, parse_limits
from .nesting import nest
from .network import collect_network, parse_network
from .pci_sysfs import collect_pci
from .processors import collect_processors, cpu_model, parse_processors
from .recording import Recorder, Recording, kib_after, not_readable, text_of, why_missing
from .subnets import collect_subnets

_MEMORY = "/proc/meminfo"
_SHM = "/dev/shm"


def collect(root: str = "/") -> dict[str, str]:
    """Read the machine below ``root`` into a recording: absolute path to text."""
    recorder = Recorder(root)
    collect_processors(recorder)
    recorder.read(_MEMORY, keep=lambda line: line.startswith("MemTotal:"))
    collect_network(recorder)
    collect_subnets(recorder)
    collect_pci(recorder)
    collect_limits(recorder)
    with contextlib.suppress(OSError):  # absent from the recording means absent on the machine
        size = os.statvfs(recorder.below_root(_SHM))
        recorder.entries[_SHM] = f"{size.f_frsize * size.f_blocks} bytes"
    return recorder.entries


def parse(recording: Recording, host: DeviceId = "host0") -> Topology:
    """Build the topology of one host from what ``collect`` wrote. PCI functions are placed by ``host``, not here.

    Args:
        host: the host's id, which begins the ids of all that is in it.

    Raises:
        ProbeError: no CPUs in it, or a value that cannot be read without guessing (file, got, expected).
    """
    unseen: list[str] = []
    inside, left_out = nest(parse_processors(recording, host, unseen), host)
    nodes = {device.number: device.id for device in inside if isinstance(device, NumaNode)}
    known = [_near_known(device, set(nodes.values())) if isinstance(device, NumaNode) else device for device in inside]
    ports, not_counted = parse_network(recording, host, nodes)
    return Topology(devices=(_host(recording, host, unseen), *known, *ports), unseen=(*unseen, *left_out, *not_counted))


def _near_known(node: NumaNode, known: set[DeviceId]) -> NumaNode:
    """The node without distances to nodes that had to be left out."""
    return replace(node, distances=tuple(pair for pair in node.distances if pair[0] in known))


def _host(recording: Recording, host: DeviceId, unseen: list[str]) -> Host:
    model = cpu_model(recording)
    if model is None:
        unseen.append("CPU model: no 'model name' and no 'CPU part' in /proc/cpuinfo")
    shm = text_of(recording, _SHM)
    if shm is None:
        unseen.append(f"shared memory: {why_missing(recording, _SHM)}")
    elif not re.fullmatch(r"[0-9]{1,20} bytes", shm):
        raise not_readable(_SHM, shm, "NUMBER bytes")
    limits = parse_limits(recording)
    unseen += limits.unseen
    return Host(
        id=host,
        parent=None,
        cpu_model=model,
        memory_bytes=kib_after(recording, _MEMORY, "MemTotal:"),
        shm_bytes=None if shm is None else int(shm.split()[0]),
        cpu_quota_cores=limits.cpu_quota_cores,
        memory_limit_bytes=limits.memory_bytes,
    )
