"""Where things stand in the picture of a topology: boxes and places, in inches from the lower left. Pure.

A host with accelerators is a ring of dies, so that every pair has a straight way; one without is boxes in boxes, as its
caches and NUMA nodes are. Interfaces stand in a row at a host's foot, the switches that join hosts below them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..topology.accelerators import Card, Gpu, Npu, SuperPod, Switch
from ..topology.devices import Cache, Core, Cpu, Device, DeviceId, Host, Nic, NumaNode, RdmaPort, Socket
from ..topology.graph import Topology
from ..topology.probes.recording import natural

Point = tuple[float, float]

MARGIN = 0.3
GAP = 0.18
CORE = 0.3
NIC_HEIGHT = 0.2
SWITCH_HEIGHT = 0.34
TITLE = 0.34
_NIC_GAP = 0.06
_LETTER = 0.052  # of an interface's name
_TITLE_LETTER = 0.079
_MOST_HOSTS = 4
_MOST_NICS = 16
_MOST_SWITCHES = 8
_TO_SWITCH = 0.6  # room for the lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle with a device or several in it; ``depth`` is how many boxes it stands in."""

    left: float
    bottom: float
    width: float
    height: float
    device: Device | None
    text: str = ""
    depth: int = 0

    @property
    def centre(self) -> Point:
        return (self.left + self.width / 2, self.bottom + self.height / 2)


@dataclass(slots=True, kw_only=True)
class Layout:
    """Everything that is to be drawn, boxes outside in.

    Args:
        dies: places of accelerators.
        cards: of each module, its dies.
        at: the place where links to a device end.
        centre: of each host with a ring of dies, its middle.
        spans: of each switch, from where to where its upper side goes.
        notes: plain words, right-aligned to a place.
    """

    boxes: list[Box] = field(default_factory=list)
    dies: dict[DeviceId, Point] = field(default_factory=dict)
    cards: list[tuple[DeviceId, ...]] = field(default_factory=list)
    at: dict[DeviceId, Point] = field(default_factory=dict)
    centre: dict[DeviceId, Point] = field(default_factory=dict)
    spans: dict[DeviceId, tuple[float, float]] = field(default_factory=dict)
    notes: list[tuple[Point, str]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def put(self, other: Layout, left: float, bottom: float) -> None:
        """Take in another layout, moved."""
        for box in other.boxes:
            self.boxes.append(
                Box(
                    left=box.left + left,
                    bottom=box.bottom + bottom,
                    width=box.width,
                    height=box.height,
                    device=box.device,
                    text=box.text,
                    depth=box.depth,
                )
            )
        for mine, its in ((self.dies, other.dies), (self.at, other.at), (self.centre, other.centre)):
            mine.update({name: (x + left, y + bottom) for name, (x, y) in its.items()})
        self.cards += other.cards
        self.notes += [((x + left, y + bottom), words) for (x, y), words in other.notes]


def layout(topology: Topology) -> Layout:
    """The places of a whole topology; of many hosts the first few, and a box that counts the others."""
    hosts = topology.hosts
    shown = hosts if len(hosts) <= _MOST_HOSTS else hosts[: _MOST_HOSTS - 1]
    cells = [(host.parent, _host(topology, host)) for host in shown]
    if len(shown) < len(hosts):
        cells.append((hosts[len(shown)].parent, _others(len(hosts) - len(shown), cells[-1][1])))
    switches = _switches(topology, {host.id for host in shown})
    foot = MARGIN + len(switches) * (SWITCH_HEIGHT + _TO_SWITCH)
    whole = Layout(height=foot + max((cell.height for _, cell in cells), default=1.0) + MARGIN)
    left = MARGIN
    pods: dict[DeviceId, tuple[float, float]] = {}
    for pod, cell in cells:
        whole.put(cell, left, foot)
        if pod is not None:
            pods[pod] = (pods.get(pod, (left, 0.0))[0], left + cell.width)
        left += cell.width + GAP
    whole.width = left - GAP + MARGIN
    for pod, (start, end) in pods.items():
        height = whole.height - MARGIN - foot + TITLE + GAP / 3
        frame = Box(
            left=start - GAP / 3,
            bottom=foot - GAP / 3,
            width=end - start + 2 * GAP / 3,
            height=height,
            device=topology.device(pod),
            depth=-1,
        )
        whole.boxes.append(frame)
    whole.height += TITLE if pods else 0.0
    _put_switches(whole, switches)
    return whole


def _host(topology: Topology, host: Host) -> Layout:
    """One host, in a box of its own."""
    seats = topology.accelerators(host.id)
    inner = _ring(topology, seats) if seats else _nested(topology, host, depth=1)
    row = _nics(topology, host)
    title = len(host_title(topology, host)) * _TITLE_LETTER + GAP
    foot = row.height + 2 * GAP if row.boxes else GAP
    cell = Layout(width=max(inner.width, row.width + 2 * GAP, title), height=foot + inner.height + TITLE)
    cell.boxes.append(Box(left=0, bottom=0, width=cell.width, height=cell.height, device=host))
    cell.put(inner, (cell.width - inner.width) / 2, foot)
    cell.put(row, (cell.width - row.width) / 2, GAP)
    if seats:
        cell.centre[host.id] = (cell.width / 2, foot + inner.height / 2)
    return cell


def host_title(topology: Topology, host: Host) -> str:
    """``hosta   8 x 910B3, 64 GiB each``, or the words of the CPU."""
    name = host.name or (host.id if len(topology.hosts) > 1 else "host")
    seats = topology.accelerators(host.id)
    if not seats:
        return f"{name}   {host.cpu_model or ''}".rstrip()
    names = {(seat.chip_name if isinstance(seat, Npu) else seat.model) or seat.kind.value.upper() for seat in seats}
    sizes = {seat.memory_bytes for seat in seats if seat.memory_bytes is not None}
    memory = f", {sizes.pop() / 2**30:.4g} GiB each" if len(sizes) == 1 else ""
    return f"{name}   {len(seats)} x {' and '.join(sorted(names))}{memory}"


def _ring(topology: Topology, seats: Sequence[Npu | Gpu]) -> Layout:
    """The accelerators around a circle, clockwise from the top; those of a card stand closer."""
    n = len(seats)
    radius = 0.45 if n == 1 else max(0.95, n * 0.118)
    size = 2 * radius + 0.7
    ring = Layout(width=size, height=size)
    cards: dict[DeviceId, list[DeviceId]] = {}
    for index, seat in enumerate(seats):
        if isinstance(topology.device(seat.parent or ""), Card):
            cards.setdefault(seat.parent or "", []).append(seat.id)
        angle = math.pi / 2 - 2 * math.pi * (index + 0.5) / n
        place = (size / 2 + radius * math.cos(angle), size / 2 + radius * math.sin(angle))
        ring.dies[seat.id] = ring.at[seat.id] = place
    ring.cards = [tuple(dies) for dies in cards.values() if len(dies) > 1]
    return ring


def _nested(topology: Topology, parent: Device, depth: int) -> Layout:
    """What stands in a device: boxes side by side, then single cores in a grid."""
    inside = [_skipped(topology, device) for device in topology.children(parent.id)]
    parts = [device for device in inside if isinstance(device, Socket | NumaNode | Cache)]
    cores = [device for device in inside if isinstance(device, Core)]
    cells = [_boxed(topology, part, depth) for part in parts]
    if cores:
        cells.append(_grid(topology, cores, depth))
    whole = Layout(height=max((cell.height for cell in cells), default=0.0))
    left = GAP
    for cell in cells:
        whole.put(cell, left, whole.height - cell.height)
        left += cell.width + GAP
    whole.width = left if cells else 0.0
    return whole


def _skipped(topology: Topology, device: Device) -> Device:
    """Below the caches that hold one core only: the core."""
    while isinstance(device, Cache) and len(topology.within(device.id, Core)) == 1:
        device = topology.children(device.id)[0]
    return device


def _boxed(topology: Topology, device: Device, depth: int) -> Layout:
    inner = _nested(topology, device, depth + 1)
    cell = Layout(width=max(inner.width, 1.0), height=inner.height + TITLE - 0.06 + GAP / 2)
    cell.boxes.append(Box(left=0, bottom=0, width=cell.width, height=cell.height, device=device, depth=depth))
    cell.put(inner, 0, GAP / 2)
    return cell


def _grid(topology: Topology, cores: Sequence[Core], depth: int) -> Layout:
    columns = min(len(cores), max(4, math.ceil(math.sqrt(len(cores) * 2))))
    rows = math.ceil(len(cores) / columns)
    step = CORE + 0.06
    grid = Layout(width=columns * step - 0.06, height=rows * step - 0.06)
    for index, core in enumerate(cores):
        row, column = divmod(index, columns)
        left, bottom = column * step, grid.height - (row + 1) * step + 0.06
        box = Box(left=left, bottom=bottom, width=CORE, height=CORE, device=core, depth=depth)
        grid.boxes.append(box)
        for cpu in topology.within(core.id, Cpu):
            grid.at[cpu.id] = (box.centre[0], bottom + CORE)
    return grid


def _nics(topology: Topology, host: Host) -> Layout:
    """The row of interfaces: those that are linked; without any, those whose rate is known.

    Where all are called alike but for a number, the boxes have the numbers and the word stands once before them.
    """
    found: list[Nic | RdmaPort] = [*topology.within(host.id, Nic), *topology.within(host.id, RdmaPort)]
    ends = {end for ends in topology.links for end in ends}
    nics = [nic for nic in found if nic.id in ends] or [nic for nic in found if nic.rate_gb_per_s is not None]
    nics = sorted(nics, key=lambda nic: natural(nic.name))[:_MOST_NICS]
    words = {nic.name.rstrip("0123456789") for nic in nics}
    word = words.pop() if len(words) == 1 and len(nics) > 1 else ""
    texts = [nic.name.removeprefix(word) or nic.name for nic in nics]
    width = max(0.27, max(map(len, texts), default=0) * _LETTER + 0.12)
    row = Layout(height=NIC_HEIGHT)
    left = len(word) * 0.068 + _NIC_GAP if word else 0.0
    if word:
        row.notes.append(((left - _NIC_GAP, NIC_HEIGHT / 2), word))
    for nic, text in zip(nics, texts, strict=True):
        row.boxes.append(Box(left=left, bottom=0, width=width, height=NIC_HEIGHT, device=nic, text=text, depth=1))
        row.at[nic.id] = (left + width / 2, 0)
        left += width + _NIC_GAP
    row.width = left - _NIC_GAP if nics else 0.0
    return row


def _others(number: int, like: Layout) -> Layout:
    cell = Layout(width=like.width, height=like.height)
    text = f"and {number} more host{'' if number == 1 else 's'}"
    cell.boxes.append(Box(left=0, bottom=0, width=like.width, height=like.height, device=None, text=text))
    return cell


def _switches(topology: Topology, shown: set[DeviceId]) -> list[list[Switch]]:
    """Rows of switches: those of super pods, those that a drawn host is linked to, and those behind these."""
    links: dict[DeviceId, set[DeviceId]] = {}
    for src, dst in topology.links:
        links.setdefault(src, set()).add(dst)
    inside = {
        device.id
        for host in sorted(shown)
        for kind in (Nic, RdmaPort, Npu, Gpu)
        for device in topology.within(host, kind)
    }
    near = {dst for src in inside for dst in links.get(src, ())}
    between = [switch for switch in topology.of(Switch) if not _in_host(topology, switch)]
    of_pods = [switch for switch in between if switch.parent is not None and switch.id in near]
    leaves = [switch for switch in between if switch.parent is None and switch.id in near]
    behind = {dst for leaf in leaves for dst in links.get(leaf.id, ())} - near
    spines = [switch for switch in between if switch.id in behind]
    return [row[:_MOST_SWITCHES] for row in (of_pods, leaves, spines) if row]


def _in_host(topology: Topology, device: Device) -> bool:
    parent = None if device.parent is None else topology.device(device.parent)
    return parent is not None and not isinstance(parent, SuperPod)


def _put_switches(whole: Layout, rows: Sequence[list[Switch]]) -> None:
    """Each row across the width; links from above end anywhere on a switch's upper side."""
    bottom = MARGIN + (len(rows) - 1) * (SWITCH_HEIGHT + _TO_SWITCH)
    for row in rows:
        width = (whole.width - 2 * MARGIN + GAP) / len(row) - GAP
        for index, switch in enumerate(row):
            left = MARGIN + index * (width + GAP)
            box = Box(left=left, bottom=bottom, width=width, height=SWITCH_HEIGHT, device=switch)
            whole.boxes.append(box)
            whole.at[switch.id] = (box.centre[0], bottom + SWITCH_HEIGHT)
            whole.spans[switch.id] = (left + GAP, left + width - GAP)
        bottom -= SWITCH_HEIGHT + _TO_SWITCH
