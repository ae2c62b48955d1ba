"""What each rank of a job says of itself, and which hosts that makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import __version__
from ..errors import CommunicatorError
from ..runtime.whereabouts import whereabouts
from ..settings import Settings
from ..topology.host import collect, parse
from ..topology.pairs import pinning_order
from .environment import Launched
from .links import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a rank says of itself.

    Args:
        host: of its name, for people.
        host_key: equal for ranks that can share memory, and for no others.
        local_size: ranks on its host, as the launcher says.
        version: of the package.
        cores: numbers of the CPUs that the launcher lets it run on, in the order in which ranks are pinned.
        address: by which rank 0 is reached from its host, or others reach rank 0; None on one host.
    """

    rank: int
    n_ranks: int
    host: str
    host_key: str
    local_size: int
    version: str
    cores: tuple[int, ...]
    address: str | None = None

    def message(self) -> Message:
        """As it is sent."""
        return {
            "rank": self.rank,
            "n_ranks": self.n_ranks,
            "host": self.host,
            "host_key": self.host_key,
            "local_size": self.local_size,
            "version": self.version,
            "cores": list(self.cores),
            "address": self.address,
        }


def read_hello(message: Message) -> Hello:
    """A `Hello` that was sent; another version's may have other fields, but has these."""
    cores, address = message["cores"], message["address"]
    assert isinstance(cores, list)
    return Hello(
        rank=int(str(message["rank"])),
        n_ranks=int(str(message["n_ranks"])),
        host=str(message["host"]),
        host_key=str(message["host_key"]),
        local_size=int(str(message["local_size"])),
        version=str(message["version"]),
        cores=tuple(int(str(core)) for core in cores),
        address=None if address is None else str(address),
    )


def hello_of(launch: Launched, settings: Settings) -> Hello:
    """This rank's."""
    place = whereabouts(settings.runtime_dir)
    return Hello(
        rank=launch.rank,
        n_ranks=launch.n_ranks,
        host=place.name,
        host_key=place.host,
        local_size=launch.local_size,
        version=__version__,
        cores=pinning_order(parse(collect())),
    )


def hosts_of(hellos: Sequence[Hello]) -> tuple[tuple[int, ...], ...]:
    """The ranks of each host, hosts in the order of their first ranks."""
    by_key: dict[str, list[int]] = {}
    for hello in hellos:
        by_key.setdefault(hello.host_key, []).append(hello.rank)
    return tuple(map(tuple, by_key.values()))


def check_hosts(launch: Launched, hosts: Sequence[Sequence[int]], hellos: Sequence[Hello]) -> None:
    """Compare what launcher and kernel say of who shares a host.

    Raises:
        CommunicatorError: they differ; names a host and its ranks.
    """
    for host in hosts:
        said = hellos[host[0]].local_size
        if said != len(host):
            raise CommunicatorError(
                f"{launch.launcher.value} says that {said} ranks are on the host of rank {host[0]}, "
                f"{hellos[host[0]].host}, and {len(host)} can share memory there: {', '.join(map(str, host))}",
                remedy="start the ranks of a host as one user, in one container or network namespace",
            )
