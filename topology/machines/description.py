"""What a YAML file here says of one kind of machine, in checked values.

In: the text of a description. Out: ``MachineSpec``, or a ProbeError with the file and the path (or line and column) of
the first thing that is wrong. ``build`` makes topologies of it; this file knows no graph.

A description is a pattern, not a list: accelerators (or CPUs) are counted from 0, and a rule joins all that are in one
block of so many. Of two rules for the same pair the first counts. Every rule with a figure names its source.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import yaml

from ...errors import ProbeError
from ..links import LinkKind, PciePath
from ..strict import built, fail


class SeatKind(enum.Enum):
    """What the ranks of a machine sit on."""

    NPU = "npu"
    GPU = "gpu"
    CPU = "cpu"


class NicPlace(enum.Enum):
    """Whom a network interface serves."""

    DEVICE = "device"  # inside its accelerator
    BESIDE = "beside"  # one for each accelerator, in its NUMA node, joined to it by PCIe
    HOST = "host"  # all


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """The devices that ranks sit on, counted from 0.

    Args:
        numa_nodes: of each device, the number of its NUMA node; so many devices there are.
        per_card: how many consecutive ones share a module; None where each is its own.
        product: the module's name as sold.
        sockets: of each NUMA node, ascending by number, its socket; empty where it does not matter.
    """

    kind: SeatKind
    numa_nodes: tuple[int, ...]
    model: str | None = None
    memory_gib: float | None = None
    per_card: int | None = None
    product: str | None = None
    sockets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        n_nodes = len(set(self.numa_nodes))
        if not self.numa_nodes or min(self.numa_nodes) < 0:
            fail("numa_nodes", list(self.numa_nodes), "one number from 0 up for each device, and at least one")
        if self.sockets and len(self.sockets) != n_nodes:
            fail("sockets", list(self.sockets), f"one for each of the {n_nodes} NUMA nodes")
        if self.per_card is not None and (self.per_card < 1 or len(self.numa_nodes) % self.per_card):
            fail("per_card", self.per_card, f"a divisor of the {len(self.numa_nodes)} devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRule:
    """All pairs inside a block of ``within`` consecutive devices (None: all devices) have such a link, both ways."""

    kind: LinkKind
    latency_us: float
    gb_per_s: float
    source: str
    within: int | None = None
    path: PciePath | None = None
    n_bonded: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRule:
    """What each block of ``blocks_of`` devices sends out of it over links of a kind shares; what it receives, too."""

    name: str
    kind: LinkKind
    gb_per_s: float
    source: str
    blocks_of: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NicRule:
    """Network interfaces.

    Args:
        name: with ``{}`` for the number, such as ``roce{}``.
        rate_gb_per_s: as it is sold: 25 for 200 Gbit/s.
        link_layer: of an RDMA port; None makes it a plain interface.
        pcie_gb_per_s: with ``place: beside``, the path between it and its accelerator.
    """

    place: NicPlace
    name: str
    rate_gb_per_s: float
    source: str
    link_layer: str | None = None
    pcie_gb_per_s: float | None = None
    pcie_latency_us: float | None = None
    pcie_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How hosts are joined: every interface to a leaf switch, the leaves to one spine.

    Args:
        gb_per_s: what a message gets from interface to interface, alone.
        latency_us: one way between two hosts of a leaf.
        hosts_per_leaf: how many hosts share a leaf.
        spine_latency_us: what the way over the spine adds.
        oversubscription: bandwidth of the hosts below a leaf over that of its uplinks; 1 is a full fat tree.
    """

    kind: LinkKind
    gb_per_s: float
    latency_us: float
    hosts_per_leaf: int
    spine_latency_us: float
    oversubscription: float
    source: str
    tree_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperPodRule:
    """So many hosts are joined by a plane of switches, to which every accelerator has one link.

    Args:
        latency_us: one way between two hosts.
    """

    n_hosts: int
    kind: LinkKind
    gb_per_s: float
    latency_us: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What tells a probed machine to be of this kind, beside the links between its accelerators.

    Args:
        models: of the accelerators; a name that ends in ``*`` stands for all that begin so.
        memory_gib: the nominal memory of each, where the model alone does not tell.
    """

    models: tuple[str, ...]
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """One description. ``sources`` has the citations that the rules name; ``marks`` is None for what cannot be told."""

    title: str
    sources: dict[str, str]
    seats: Seats
    cpu_model: str | None = None
    links: tuple[LinkRule, ...] = ()
    shared: tuple[SharedRule, ...] = ()
    nics: NicRule | None = None
    network: Network | None = None
    super_pod: SuperPodRule | None = None
    marks: Marks | None = None
    n_hosts: int = 1

    def __post_init__(self) -> None:
        cited = {source for part in _parts(self) for source in _cited(part)}
        for name in sorted(cited - self.sources.keys()):
            fail("source", name, f"one of {', '.join(sorted(self.sources))}")
        for name in sorted(self.sources.keys() - cited):
            fail(f"sources.{name}", self.sources[name], "a citation that some rule names")
        if self.network is not None and self.nics is None:
            fail("network", "without nics", "given together with the interfaces that it joins")


def spec_of(text: str, file: str) -> MachineSpec:
    """Read one description.

    Args:
        file: its name, for messages.

    Raises:
        ProbeError: with the line and column, or the path, of the first thing that is wrong.
    """
    remedy = f"correct {file}, after the other files in topology/machines"
    try:
        return built(yaml.load(text, Loader=_Loader), MachineSpec, "$")
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ProbeError(f"{file}: {where}{err.problem}", remedy=remedy) from err
    except (yaml.YAMLError, RecursionError) as err:
        raise ProbeError(f"{file}: not YAML ({err})", remedy=remedy) from err
    except ValueError as err:
        raise ProbeError(f"{file}: {err}", remedy=remedy) from err


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a name stands once in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names: set[str] = set()
        for key, _ in node.value:
            if key.value in names:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands here twice", key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


def _parts(spec: MachineSpec) -> list[object]:
    values = [getattr(spec, each.name) for each in fields(spec)]
    flat = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in flat if is_dataclass(part)]


def _cited(part: object) -> list[str]:
    return [
        value for name in ("source", "tree_source", "pcie_source") if (value := getattr(part, name, None)) is not None
    ]
