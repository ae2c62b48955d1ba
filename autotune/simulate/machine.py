"""The machine that is simulated: a description or a topology, with or without times that were measured on it.

In:  a machine's name or a topology's file, perhaps trials of that machine. Out: a `Subject`, which has cost models.
May not touch: the store, ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..cost import CostModel, HostModel, NetworkModel, Timed, fit_host, fit_network, machine_model, model_of, timed
from ..errors import UsageError
from ..probing import gather
from ..topology.fingerprint import fingerprint
from ..topology.graph import Topology
from ..topology.machines import MachineDescription, description, machine_names
from ..types import Memory, Trial

BACKEND = "native"
"""Whose times the model's constants are fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The machine that is simulated.

    Args:
        title: for people.
        place: a description, or a topology that was probed or written down.
        n_hosts: None is as many as the ranks need, or as the topology has.
        measured: times of the native executor there, to which the model's constants are fitted.
    """

    title: str
    place: MachineDescription | Topology
    n_hosts: int | None
    staging_bytes: int
    measured: tuple[Timed, ...] = ()

    @property
    def fingerprint(self) -> str | None:
        """Of a topology; None for a description, which leaves out what tells one host from another."""
        return fingerprint(self.place) if isinstance(self.place, Topology) else None

    @property
    def n_ranks(self) -> int:
        """One for each device that a rank can sit on."""
        if isinstance(self.place, Topology):
            return len(self.place.rank_devices())
        return self._seats * (self.n_hosts or 1)

    def model(self, n_ranks: int) -> CostModel:
        """The cost model of so many ranks.

        Raises:
            UsageError: the machine does not have so many, or nothing tells the bandwidth between some of them.
        """
        if isinstance(self.place, Topology):
            return _fitted(model_of(self.place, n_ranks, staging_bytes=self.staging_bytes), self.measured)
        if self._one_host(n_ranks) and not self.place.host.accelerators():
            return model_of(self.place.host, n_ranks, staging_bytes=self.staging_bytes)
        return machine_model(self.place, self.n_hosts or -(-n_ranks // self._seats), n_ranks)

    def placement(self, n_ranks: int) -> tuple[int, ...]:
        """Ranks on each host, ascending."""
        if isinstance(self.place, MachineDescription):
            return (n_ranks,) if self._one_host(n_ranks) else (self._seats,) * (n_ranks // self._seats)
        if len(self.place.hosts) == 1:
            return (n_ranks,)
        hosts = [self.place.host_of(device.id).id for device in self.place.rank_devices()[:n_ranks]]
        return tuple(sorted(hosts.count(host) for host in set(hosts)))

    @property
    def _seats(self) -> int:
        """Devices of one host that a rank can sit on."""
        assert isinstance(self.place, MachineDescription)
        return len(self.place.host.rank_devices())

    def _one_host(self, n_ranks: int) -> bool:
        return self.n_hosts == 1 or n_ranks <= self._seats


def subject(words: str, n_hosts: int | None, *, staging_bytes: int) -> Subject:
    """What ``--topology`` names.

    Raises:
        UsageError: neither a machine nor a file, or a number of hosts for a topology that has its own.
        ProbeError: nothing can be built of what is there.
    """
    if words in machine_names():
        place = description(words)
        hosts = "" if n_hosts is None or n_hosts == 1 else f"{n_hosts} hosts: "
        return Subject(title=f"{hosts}{place.title}", place=place, n_hosts=n_hosts, staging_bytes=staging_bytes)
    path = Path(words)
    if not path.exists():
        raise UsageError(
            f"--topology {words!r} is neither a machine nor a file or folder that is there",
            remedy=f"give what `autotune probe --json` or --save wrote, or one of {', '.join(machine_names())}",
        )
    if n_hosts is not None:
        raise UsageError(f"--hosts {n_hosts} for a topology from a file", remedy="leave it out: the file says it")
    return Subject(title=path.name, place=gather([path]), n_hosts=None, staging_bytes=staging_bytes)


def with_trials(machine: Subject, trials: Iterable[Trial]) -> Subject:
    """The machine with what was measured on it; configs with codecs or knobs, which no model prices, are left out.

    Raises:
        UsageError: nothing in the trials can be priced.
    """
    measured = tuple(
        one
        for one in timed(trials)
        if one.problem.key.backend == BACKEND
        and one.problem.key.memory is Memory.PRIVATE
        and one.problem.key.max_error is None
        and one.problem.key.n_ranks > 1
        and one.config.codec == "none"
        and not one.config.knobs
    )
    if not measured:
        raise UsageError(
            f"{machine.title}: no trials of it that a model could be fitted to", remedy="autotune run, on that machine"
        )
    return replace(machine, measured=measured)


def _fitted(model: CostModel, measured: Sequence[Timed]) -> CostModel:
    """The model with the constants that these times say; as it is where none of them is about its ranks."""
    match model:
        case HostModel():
            here = [one for one in measured if len(one.problem.key.placement) == 1]
            return fit_host(model, here)
        case NetworkModel():
            legal = [one for one in measured if one.problem.key.n_ranks == model.n_ranks]
            return fit_network(model, [one for one in legal if one.config.algorithm in _names(model, one)])
    return model


def _names(model: CostModel, one: Timed) -> tuple[str, ...]:
    return model.algorithms(one.problem.key.collective)


def scaling_ranks(machine: Subject, most: int) -> tuple[int, ...]:
    """2, 4, 8 ... and the most, as far as the machine's hosts can be filled evenly."""
    counts = [1 << k for k in range(1, most.bit_length()) if 1 << k < most]
    if isinstance(machine.place, MachineDescription):
        seats = len(machine.place.host.rank_devices())
        counts = [n for n in counts if n <= seats or n % seats == 0]
    return (*counts, most)
