"""NVIDIA GPUs by ``nvidia-smi``: which there are, and how they and the network interfaces are joined.

``collect`` asks; ``parse`` is pure. ``topo -m`` names NVLinks; where only ``topo -mp`` could be had, PCIe paths are all
that is known, and that is said. A GPU stands in the one NUMA node that its affinity names, or in the host. A network
interface of the matrix is the RDMA port of that name that Linux lists, or a ``Nic`` of its own where the recording has
nothing of Linux. Switches of NVLink are not printed, so there are none; nor are figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..accelerators import Gpu
from ..devices import Device, DeviceId, Nic, RdmaPort
from ..links import LinkKind
from .findings import CommandRunner, Findings
from .network import parse_network
from .pasted import Line, Word, listed, numbered, printed, shortened, unreadable, whole
from .recording import Recording
from .relation_matrix import RelationMatrix, links_of, near_node, read_matrix

QUERY = "nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv,noheader"
LIST = "nvidia-smi -L"
TOPO = "nvidia-smi topo -m"
TOPO_PCIE = "nvidia-smi topo -mp"

_MIB = 1 << 20
_UNKNOWN = ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]")
_UUID = re.compile(r" *\(UUID: [^)\n]*\)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A GPU as the query or the list names it."""

    number: int
    model: str
    memory_bytes: int | None = None
    bus_id: str | None = None


def collect(run: CommandRunner) -> dict[str, str]:
    """Ask for the GPUs and their matrix; what identifies a GPU is not kept."""
    recording = {QUERY: run(QUERY.split())}
    if recording[QUERY] in ("!absent", "!denied"):
        return recording
    if recording[QUERY].startswith("!"):
        recording[LIST] = _UUID.sub("", run(LIST.split()))
    recording[TOPO] = run(TOPO.split())
    if recording[TOPO].startswith("!"):
        recording[TOPO_PCIE] = run(TOPO_PCIE.split())
    return recording


def parse(
    recording: Recording,
    host: DeviceId,
    nodes: Mapping[int, DeviceId],
    cpus_of_node: Mapping[int, frozenset[int]],
) -> Findings:
    """GPUs by number, interfaces that nothing else names, and the links between them.

    Raises:
        ProbeError: a text that cannot be read without guessing.
    """
    if not any(command.startswith("nvidia-smi ") for command in recording):
        return Findings()
    unseen: list[str] = []
    contradictions: list[str] = []
    gpus = _gpus(recording, unseen)
    no_matrix: list[str] = []
    full, pcie = (_matrix(recording, command, no_matrix) for command in (TOPO, TOPO_PCIE))
    matrix = full or pcie
    if matrix is None:
        if len(gpus) > 1:
            unseen += no_matrix or ["links between GPUs: no matrix of nvidia-smi topo in the recording"]
        return Findings(
            devices=tuple(_gpu(number, gpu, host, host) for number, gpu in gpus.items()), unseen=tuple(unseen)
        )
    if full is None:
        unseen.append(f"NVLinks: only {TOPO_PCIE} was read, which tells PCIe paths only")
    elif pcie is not None:
        contradictions += _differences(full, pcie)
    in_matrix = {int(match[1]) for name in matrix.names if (match := re.fullmatch(r"GPU([0-9]+)", name))}
    if gpus and in_matrix != set(gpus):
        contradictions.append(
            f"nvidia-smi lists {numbered('GPU', gpus)}, and its matrix has {numbered('GPU', in_matrix)}"
        )
    devices: list[Device] = []
    ids: dict[str, DeviceId] = {}
    for number in sorted(in_matrix | set(gpus)):
        name = f"GPU{number}"
        parent = _parent(matrix, name, nodes, cpus_of_node, contradictions) or host
        devices.append(_gpu(number, gpus.get(number), host, parent))
        if number in in_matrix:
            ids[name] = devices[-1].id
    interfaces = _interfaces(matrix, recording, host)
    return Findings(
        devices=(*devices, *(device for _, device, is_new in interfaces if is_new)),
        links=tuple(links_of(matrix, ids | {name: device.id for name, device, _ in interfaces})),
        unseen=(*unseen, *matrix.unseen),
        contradictions=(*contradictions, *matrix.contradictions),
    )


def _gpus(recording: Recording, unseen: list[str]) -> dict[int, _Listed]:
    """By number, from the query or else the list; what neither tells is added to ``unseen``."""
    for command, read in ((QUERY, _read_query), (LIST, _read_list)):
        lines, why = printed(recording, command)
        found: dict[int, _Listed] = {}
        for word, gpu in read(command, lines):
            if gpu.number in found:
                raise unreadable(command, word, f"each GPU once, and {gpu.number} stands here again")
            found[gpu.number] = gpu
        if found:
            n_parts = sum(line.words[0].text == "MIG" for line in lines)
            if n_parts:
                unseen.append(f"{n_parts} MIG parts of GPUs: not counted, the GPUs are")
            return found
        if command in recording:
            unseen.append(f"GPUs: {why or f'{command} says {shortened(lines[0].text)!r}'}")
    return {}


def _read_query(command: str, lines: Sequence[Line]) -> Iterator[tuple[Word, _Listed]]:
    """``0, NVIDIA A100-SXM4-40GB, 40960 MiB, 00000000:07:00.0``."""
    for line in lines:
        cells = line.cells(",")
        if len(cells) < 3 and not re.match(r"\s*[0-9]+\s*,", line.text):
            continue
        if len(cells) < 4:
            raise unreadable(command, cells[-1], "index, name, memory and bus id of a GPU, separated by commas")
        number, memory, bus_id = cells[0], cells[-2], cells[-1]
        match = re.fullmatch(r"([0-9]{1,9}) MiB", memory.text)
        if match is None and memory.text not in _UNKNOWN:
            raise unreadable(command, memory, "memory such as 40960 MiB")
        if not re.fullmatch(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]", bus_id.text):
            raise unreadable(command, bus_id, "a bus id such as 00000000:07:00.0")
        gpu = _Listed(
            number=whole(command, number, "a GPU's index"),
            model=line.text.split(",", 1)[1].rsplit(",", 2)[0].strip(),  # a name may have commas
            memory_bytes=None if match is None else int(match[1]) * _MIB or None,
            bus_id=bus_id.text.upper(),
        )
        yield number, gpu


def _read_list(command: str, lines: Sequence[Line]) -> Iterator[tuple[Word, _Listed]]:
    """``GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-...)``, with or without the last part."""
    for line in lines:
        match = re.fullmatch(r"\s*GPU ([0-9]{1,5}): ([^:()]+)(?: \(UUID: [^()]*\))?", line.text)
        if match is not None:
            yield line.words[1], _Listed(number=int(match[1]), model=match[2].strip())
        elif re.search(r"GPU [0-9]", line.text):
            raise unreadable(command, line.words[0], "a line such as 'GPU 0: NAME (UUID: ...)'")


def _matrix(recording: Recording, command: str, unseen: list[str]) -> RelationMatrix | None:
    lines, why = printed(recording, command)
    matrix = read_matrix(command, lines)
    if matrix is None and command in recording:
        unseen.append(f"links between GPUs: {why or f'{command} says {shortened(lines[0].text)!r}'}")
    return matrix


def _differences(full: RelationMatrix, pcie: RelationMatrix) -> Iterator[str]:
    odd = [
        f"{row} to {column}"
        for (row, column), relation in full.relations.items()
        if relation.kind is LinkKind.PCIE and pcie.relations.get((row, column), relation) != relation
    ]
    if odd:
        yield f"{TOPO} and {TOPO_PCIE} give different PCIe paths: {listed(odd)}"


def _parent(
    matrix: RelationMatrix,
    name: str,
    nodes: Mapping[int, DeviceId],
    cpus_of_node: Mapping[int, frozenset[int]],
    contradictions: list[str],
) -> DeviceId | None:
    """The one NUMA node that a GPU is near to; CPUs say it, and the column of node numbers must agree."""
    numbers = matrix.numa.get(name, frozenset())
    named = nodes.get(min(numbers)) if len(numbers) == 1 else None
    near = near_node(matrix.cpus.get(name, frozenset()), nodes, cpus_of_node)
    if named is not None and near is not None and named != near:
        contradictions.append(
            f"{name}: its NUMA affinity is {named}, and its CPU affinity is in {near}, which is taken"
        )
    return near or named


def _gpu(number: int, gpu: _Listed | None, host: DeviceId, parent: DeviceId) -> Gpu:
    return Gpu(
        id=f"{host}/gpu{number}",
        parent=parent,
        number=number,
        model=None if gpu is None else gpu.model,
        memory_bytes=None if gpu is None else gpu.memory_bytes,
        bus_id=None if gpu is None else gpu.bus_id,
    )


def _interfaces(matrix: RelationMatrix, recording: Recording, host: DeviceId) -> list[tuple[str, Device, bool]]:
    """(name in the matrix, device, whether it is new) for each row or column that is no GPU.

    An RDMA device with several ports is one row of the matrix; its first port stands for it.
    """
    ports: dict[str, Device] = {}
    for device in parse_network(recording, host, {})[0]:
        if isinstance(device, RdmaPort):
            ports.setdefault(device.name, device)
    found: list[tuple[str, Device, bool]] = []
    for name in matrix.names:
        if not name.startswith("GPU"):
            known = matrix.nic_names.get(name, name)
            new = Nic(id=f"{host}/nic-{known}", parent=host, name=known)
            found.append((name, ports.get(known, new), known not in ports))
    return found
