"""Ascend NPUs by ``npu-smi info``: chips, the cards that carry several, how they are joined, their super pod.

``collect`` asks; ``parse`` is pure. A chip stands in its card, or in the one NUMA node that its CPU affinity lies in,
or in the host; a card stands where all its chips would. Addresses come from ``hccn_tool`` and /etc/hccn.conf where they
are in the recording; ``hccn`` adds the interfaces themselves. A super pod has no parent: whoever builds the host puts
the host into it. Figures of links are not printed by any of these commands, so there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import ProbeError
from ..accelerators import Card, Npu, SuperPod
from ..devices import Device, DeviceId
from .findings import CommandRunner, Findings
from .hccn_ports import Port, best_address, read_conf, read_ports
from .npu_smi_chips import TOPO, Chip, Chips, has_npu_smi, read_chips
from .npu_smi_info import INFO
from .npu_smi_lists import LIST, MAP, read_hccs_health, read_memory, read_pod
from .pasted import listed, printed, shortened
from .recording import Recording
from .relation_matrix import links_of, near_node


def collect(run: CommandRunner) -> dict[str, str]:
    """Ask for all chips, and for each what only a question for it tells; serial numbers are not kept."""
    recording = collect_chips(run)
    for chip in chips_or_none(recording):
        if chip.memory_bytes is None:
            _ask(run, _usages(chip), recording)
        if chip.phy_id is not None:  # from the A3 on there are super pods and switches of HCCS
            _ask(run, _spod(chip), recording)
            _ask(run, _hccs(chip), recording)
    return recording


def collect_chips(run: CommandRunner) -> dict[str, str]:
    """Ask for all chips; only for the first answer where there is no ``npu-smi``, or it may not be run."""
    recording: dict[str, str] = {}
    for command in (INFO, LIST, MAP, TOPO):
        _ask(run, command, recording)
        if recording[command] in ("!absent", "!denied"):
            break
    return recording


def chips_or_none(recording: Recording) -> tuple[Chip, ...]:
    """The chips, to ask more of each; none where the texts cannot be read, which is for ``parse`` to say."""
    try:
        return read_chips(recording).chips
    except ProbeError:
        return ()


def parse(
    recording: Recording,
    host: DeviceId,
    nodes: Mapping[int, DeviceId],
    cpus_of_node: Mapping[int, frozenset[int]],
) -> Findings:
    """The super pod (first, with no parent), then cards and NPUs, each after what it stands in, and their links.

    Raises:
        ProbeError: a text that cannot be read without guessing.
    """
    if not has_npu_smi(recording):
        return Findings()
    chips = read_chips(recording)
    matrix = chips.matrix
    near: dict[int, DeviceId] = {}
    for name, chip in chips.named.items():
        node = None if matrix is None else near_node(matrix.cpus.get(name, frozenset()), nodes, cpus_of_node)
        near[chip.number] = node or host
    details = _details(recording, chips)
    ports, conf = read_ports(recording, []), read_conf(recording, [])
    devices: list[Device] = [SuperPod(id=f"pod{name}", parent=None, name=name) for name in details.pods[:1]]
    cards: dict[int, DeviceId] = {}
    for chip in chips.chips:
        parent = near.get(chip.number, host)
        if chip.npu_id in chips.several:
            if chip.npu_id not in cards:
                card = _card(chip.npu_id, chips, near, host)
                cards[chip.npu_id] = card.id
                devices.append(card)
            parent = cards[chip.npu_id]
        devices.append(_npu(chip, host, parent, details, ports, conf))
    ids = {name: f"{host}/npu{chip.number}" for name, chip in chips.named.items()}
    return Findings(
        devices=tuple(devices),
        links=() if matrix is None else tuple(links_of(matrix, ids)),
        unseen=(*chips.unseen, *(() if matrix is None else matrix.unseen), *details.unseen),
        contradictions=(
            *chips.contradictions,
            *(() if matrix is None else matrix.contradictions),
            *details.contradictions,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Details:
    """What was asked of each chip alone, by its number."""

    pods: tuple[str, ...]
    super_device_ids: Mapping[int, str]
    memory_bytes: Mapping[int, int]
    unseen: tuple[str, ...]
    contradictions: tuple[str, ...]


def _details(recording: Recording, chips: Chips) -> _Details:
    pods: dict[str, list[str]] = {}
    super_device_ids: dict[int, str] = {}
    memory_bytes: dict[int, int] = {}
    unhealthy: list[str] = []
    silent: dict[str, list[str]] = {}
    contradictions: list[str] = []
    for chip in chips.chips:
        name = f"NPU {chip.number}"
        lines, why = printed(recording, _spod(chip))
        place = read_pod(_spod(chip), lines)
        if place is not None and place.super_device_id is not None:
            super_device_ids[chip.number] = place.super_device_id
        if place is not None and place.pod is not None:
            pods.setdefault(place.pod, []).append(name)
        elif _spod(chip) in recording and place is None:
            reason = why.replace(_spod(chip), "-t spod-info") or f"spod-info says {shortened(lines[0].text)!r}"
            silent.setdefault(reason, []).append(name)
        health = read_hccs_health(printed(recording, _hccs(chip))[0])
        if health not in (None, "OK"):
            unhealthy.append(f"{name} ({health})")
        told = read_memory(_usages(chip), printed(recording, _usages(chip))[0]).get(chip.chip_id)
        if told is not None:
            memory_bytes[chip.number] = told
            if chip.memory_bytes not in (None, told):
                contradictions.append(
                    f"{name}: {INFO} says {chip.memory_bytes} bytes of memory and {_usages(chip)} {told}"
                )
    unseen = [f"super pod of {listed(names)}: {reason}" for reason, names in silent.items()]
    if unhealthy:
        unseen.append(f"HCCS is not healthy: {listed(unhealthy)}")
    if len(pods) > 1:
        told_pods = ", ".join(f"{pod} ({listed(names)})" for pod, names in pods.items())
        contradictions.append(f"one host in several super pods: {told_pods}")
    return _Details(
        pods=tuple(pods) if len(pods) == 1 else (),
        super_device_ids=super_device_ids,
        memory_bytes=memory_bytes,
        unseen=tuple(unseen),
        contradictions=tuple(contradictions),
    )


def _card(npu_id: int, chips: Chips, near: Mapping[int, DeviceId], host: DeviceId) -> Card:
    parents = {near.get(chip.number, host) for chip in chips.chips if chip.npu_id == npu_id}
    return Card(
        id=f"{host}/card{npu_id}",
        parent=parents.pop() if len(parents) == 1 else host,
        number=npu_id,
        product=chips.products.get(npu_id),
    )


def _npu(
    chip: Chip,
    host: DeviceId,
    parent: DeviceId,
    details: _Details,
    ports: Mapping[int, Port],
    conf: Mapping[int, Port],
) -> Npu:
    return Npu(
        id=f"{host}/npu{chip.number}",
        parent=parent,
        number=chip.number,
        chip_name=chip.name,
        memory_bytes=chip.memory_bytes or details.memory_bytes.get(chip.number),
        bus_id=chip.bus_id,
        physical_id=None if chip.host_number == chip.number else chip.host_number,
        address=best_address(chip.host_number, ports, conf),
        super_device_id=details.super_device_ids.get(chip.number),
        health=chip.health,
    )


def _ask(run: CommandRunner, command: str, recording: dict[str, str]) -> None:
    if command not in recording:
        text = run(command.split())
        recording[command] = "\n".join(line for line in text.split("\n") if "Serial Number" not in line)


def _usages(chip: Chip) -> str:
    return f"{INFO} -t usages -i {chip.npu_id}"


def _spod(chip: Chip) -> str:
    return f"{INFO} -t spod-info -i {chip.npu_id} -c {chip.chip_id}"


def _hccs(chip: Chip) -> str:
    return f"{INFO} -t hccs -i {chip.npu_id} -c {chip.chip_id}"
