"""Who takes part on the testbed, and how its ranks are started in the hosts.

In:  a network that is up, ranks per host, installed peers. Out: `Contender`s of `benchmarks/peers`.
May not touch: samples, judgement.

Every rank runs in its host's network namespace. Open MPI's launcher believes that it logs in to the hosts: its ssh is a
script that enters the namespace, under a host name of its own, so that no two hosts look like one. It gets its yield
setting, without which it is some 70 times slower where ranks outnumber cores. All ranks of all libraries stay in one
session: the kernel schedules sessions as groups (sched_autogroup), and a rank could not yield to one of another.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hosts.launch import PORT, environment
from hosts.network import Network
from peers.libraries import LIBRARIES, launch
from peers.rounds import Contender

from autotune.backends.mpi_ranks import Launch, RankSet
from autotune.types import Memory

from .doors import doors
from .pauses import started
from .table import OURS, RING

_AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec "{prefix}h$((${{host##*.}} - 1))" unshare --uts sh -c 'hostname "$0"; exec sh -c "$1"' "$host" "$*"
"""


def contenders(
    network: Network, per_host: tuple[int, ...], cores: Sequence[int], homes: Mapping[str, Path]
) -> list[Contender]:
    """Ours first, then our fixed ring where hosts have several ranks, then the peers."""
    made = [_contender(OURS, "ours", network, per_host, _ours(network, per_host, cores), "")]
    if max(per_host) > 1:
        made.append(
            _contender(RING, "prototype", network, per_host, _ours(network, per_host, cores, PORT + 1), "fixed")
        )
    for name, home in homes.items():
        start, settings = _PEERS[name]
        made.append(_contender(name, "peer", network, per_host, start(network, per_host, cores, home), settings))
    return made


def _contender(
    name: str, role: str, network: Network, per_host: tuple[int, ...], plain: Launch, settings: str
) -> Contender:
    def start() -> RankSet:
        with contextlib.ExitStack() as stack:

            def commands(address: str, scratch: Path) -> list[list[str]]:
                stack.enter_context(doors([network.host(number) for number in range(len(per_host))], address))
                return plain.commands(address, scratch)

            return started(name, network, sum(per_host), Launch(commands=commands, env=plain.env))

    return Contender(name=name, role=role, memory=Memory.PRIVATE, settings=settings, start=start)


def _inside(
    network: Network, per_host: tuple[int, ...], rank: int, words: Sequence[str], port: int = PORT
) -> list[str]:
    """A rank's program in its host, with what torchrun would set."""
    variables = environment(network, rank, per_host, port)
    host = int(variables["GROUP_RANK"])
    return [*network.inside(host), "env", *(f"{key}={value}" for key, value in variables.items()), *words]


def _ours(network: Network, per_host: tuple[int, ...], cores: Sequence[int], port: int = PORT) -> Launch:
    words = [sys.executable, "-P", str(Path(__file__).with_name("our_rank.py"))]
    listed = ",".join(map(str, cores))
    return Launch(
        commands=lambda address, scratch: [
            _inside(network, per_host, rank, [*words, address, listed], port) for rank in range(sum(per_host))
        ],
        env={"OPENBLAS_NUM_THREADS": "1"},
    )


def _gloo(network: Network, per_host: tuple[int, ...], cores: Sequence[int], home: Path) -> Launch:
    plain = launch(LIBRARIES["gloo"], home, n_ranks=sum(per_host), cores=cores)
    return Launch(
        commands=lambda address, scratch: [
            _inside(network, per_host, rank, words) for rank, words in enumerate(plain.commands(address, scratch))
        ],
        env={**plain.env, "GLOO_SOCKET_IFNAME": "eth0"},
    )


def _openmpi(network: Network, per_host: tuple[int, ...], cores: Sequence[int], home: Path) -> Launch:
    library = LIBRARIES["openmpi"]
    listed = ",".join(f"{network.address(host)}:{size}" for host, size in enumerate(per_host))

    def commands(address: str, scratch: Path) -> list[list[str]]:
        agent = scratch / "agent"
        agent.write_text(_AGENT.format(prefix=network.prefix))
        agent.chmod(0o700)
        head = ["unshare", "--uts", "sh", "-c", f'hostname {network.address(0)}; exec "$0" "$@"']
        words = [str(home / "bin" / "mpirun"), "-n", str(sum(per_host)), "--host", listed, "--bind-to", "none"]
        words += ["--prtemca", "plm_ssh_agent", str(agent), "--map-by", ":OVERSUBSCRIBE"]
        words += ["--leave-session-attached"]
        words += ["--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1"]
        return [[*network.inside(0), *head, *words, str(home / "sampler"), address, ",".join(map(str, cores))]]

    return Launch(commands=commands, env=library.env(home, {}))


_PEERS = {"gloo": (_gloo, "GLOO_SOCKET_IFNAME=eth0"), "openmpi": (_openmpi, "mpi_yield_when_idle=1")}
