"""Machines that are known by name: their graphs with datasheet figures, and which of them a probed machine is.

In: the YAML files here, each figure in them with its source. Out: topologies. The only room of ``topology`` that needs
more than the standard library (PyYAML), so nothing that ``select`` loads may import it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from ...errors import UsageError
from ..graph import Topology
from .build import many_hosts, one_host
from .description import MachineSpec, Network, SuperPodRule, spec_of
from .matching import fill_from, name_of

_SUFFIX = ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDescription:
    """One kind of machine, without repeating its hosts: what is enough to price any number of them.

    Args:
        title: for people.
        host: one host, ``host0``, without what joins it to others.
        network: between hosts; None where none is described.
        super_pod: the vendor's own links between so many hosts; None where there are none.
        sources: where the figures come from.
    """

    name: str
    title: str
    host: Topology
    network: Network | None
    super_pod: SuperPodRule | None
    sources: Mapping[str, str]


def machine_names() -> tuple[str, ...]:
    """The names that ``machine`` takes, sorted."""
    return tuple(sorted(_files()))


def description(name: str) -> MachineDescription:
    """The description of one kind of machine.

    Raises:
        UsageError: there is none of this name.
    """
    spec = _spec(name)
    return MachineDescription(
        name=name,
        title=spec.title,
        host=one_host(spec),
        network=spec.network,
        super_pod=spec.super_pod,
        sources=spec.sources,
    )


def machine(name: str, *, n_hosts: int | None = None) -> Topology:
    """So many hosts of one kind, joined as they are in the field.

    Args:
        n_hosts: None is as many as the description says: one, or a whole super pod.

    Raises:
        UsageError: there is no machine of this name, or none with so many hosts.
    """
    spec = _spec(name)
    hosts = spec.n_hosts if n_hosts is None else n_hosts
    if hosts < 1:
        raise UsageError(f"a machine of {hosts} hosts", remedy="give 1 host or more")
    try:
        return many_hosts(spec, hosts)
    except ValueError as err:
        raise UsageError(f"{name} with {hosts} hosts: {err}", remedy="give 1 host, or another machine") from err


def match(topology: Topology) -> str | None:
    """The name of the description that all hosts of a probed topology fit; None where none does, or several do."""
    return name_of(topology, {name: _spec(name) for name in machine_names()})


def fill(topology: Topology, name: str) -> Topology:
    """The topology with the datasheet's figures on the links that have none, and the datasheet's shared limits.

    What was measured or told stays. The fingerprint does not change.

    Raises:
        UsageError: there is no machine of this name.
    """
    return fill_from(topology, _spec(name))


@functools.cache
def _files() -> dict[str, str]:
    return {
        file.name.removesuffix(_SUFFIX): file.read_text("utf-8")
        for file in resources.files(__package__).iterdir()
        if file.name.endswith(_SUFFIX)
    }


@functools.cache
def _spec(name: str) -> MachineSpec:
    if name not in _files():
        raise UsageError(
            f"there is no machine {name!r}; there are {', '.join(machine_names())}",
            remedy="give one of these names",
        )
    return spec_of(_files()[name], f"{name}{_SUFFIX}")
