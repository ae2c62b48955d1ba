"""A job of several ranks that a launcher started: rank 0 leads, the others follow.

In:  what the launcher set, settings. Out: on rank 0 a `Job`, which starts ranks and asks hosts; on the others a
`Follower`; None without a launcher. May not touch: the store, tables, the terminal.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType

from ..backends.rank_process import Json
from ..errors import AutotuneError, CommunicatorError
from ..runtime.board import KeyValueStore
from ..settings import Settings
from . import seats
from .agent import Agent, Handlers
from .environment import Launched, launched
from .hello import Hello, check_hosts, hello_of, hosts_of
from .links import Link, LinkLost, linked_pair
from .meeting import follow, lead
from .pool import CONTINUE, AgentLost, AgentPool, Agents, Peer
from .setup import Setup
from .store import open_store

_MEET_S = 60.0  # beyond AUTOTUNE_TIMEOUT: launchers start ranks minutes apart only when something is wrong
_ASK_S = 120.0  # for an agent to look at its host, with its vendors' programs
_END_S = 5.0


def join(
    settings: Settings, environ: Mapping[str, str], handlers: Handlers, said: Callable[[str], None]
) -> Job | Follower | None:
    """Meet the other ranks of the launcher's job; None where no launcher started several.

    Args:
        environ: what the launcher set.
        handlers: what this rank answers rank 0 by itself.
        said: told, on rank 0, of strangers that knocked.

    Raises:
        UsageError: variables of a launcher that cannot be meant.
        BackendUnavailable: several hosts without torch or without its store.
        CommunicatorError: a rank is missing or differs.
    """
    launch = launched(environ)
    if launch is None:
        return None
    within_s = _MEET_S + settings.timeout_s
    store: KeyValueStore | None = None
    if not launch.on_one_host:
        assert launch.master is not None
        store = open_store(launch.master, serves=launch.rank == 0, within_s=within_s)
    mine = hello_of(launch, settings)
    secret = None if settings.secret is None else settings.secret.encode()
    if launch.rank > 0:
        return Follower(launch.rank, Agent(follow(launch, mine, secret, store, within_s), handlers))
    met = lead(launch, mine, secret, store, within_s, said)
    return Job(launch, mine, met.agents, handlers, secret=met.secret, store=store)


class Follower:
    """Any rank but 0."""

    def __init__(self, rank: int, agent: Agent) -> None:
        self.rank = rank
        self._agent = agent

    def follow(self) -> None:
        """Serve rank 0 until it ends the run.

        Raises:
            AgentLost: rank 0 or another agent has gone.
            KeyboardInterrupt: this rank was interrupted; rank 0 was told.
        """
        try:
            last = self._agent.serve()
        except LinkLost as err:
            raise AgentLost(
                f"rank {self.rank}: rank 0 {err}: the run is over", remedy="the same command continues it"
            ) from err
        if "message" in last:
            raise AgentLost(f"rank {self.rank}: {last['message']}", remedy=str(last["remedy"]))


class Job:
    """Rank 0's hold of the job; a context manager that ends it on all ranks. Made in the main thread.

    Args:
        others: hellos and links of the other ranks.
        secret: of the run, for what ranks on several hosts prove to each other.
        store: kept, since it serves the other ranks.

    Raises:
        CommunicatorError: ranks that share a host for the launcher do not, or the other way round.
    """

    def __init__(
        self,
        launch: Launched,
        mine: Hello,
        others: Mapping[int, tuple[Hello, Link]],
        handlers: Handlers,
        *,
        secret: bytes,
        store: KeyValueStore | None,
    ) -> None:
        ours, theirs = linked_pair()
        self._launch = launch
        self._secret = secret
        self._store = store
        self._handlers = handlers
        found = {0: (mine, ours), **others}
        hellos = [found[rank][0] for rank in range(launch.n_ranks)]
        self.n_ranks = launch.n_ranks
        self.hosts = hosts_of(hellos)
        self._addresses = _addresses(self.hosts, hellos, others)
        self.cores: dict[int, int] = {}
        for host in self.hosts:
            self.cores |= seats.pinned({rank: hellos[rank].cores for rank in host})
        self._agents = Agents(
            [Peer(hello=hello, link=found[rank][1], core=self.cores[rank]) for rank, hello in enumerate(hellos)]
        )
        self._own = threading.Thread(target=_serve, args=(Agent(theirs, handlers),), name="autotune-agent", daemon=True)
        self._own.start()
        self._is_ending = self._is_told_to_end = False
        self._error: BaseException | None = None  # that it ends with
        signal.signal(signal.SIGTERM, self._terminated)
        try:
            check_hosts(launch, self.hosts, hellos)
        except CommunicatorError as err:
            self.end(err)
            raise

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        """A launcher that lost a rank ends the others within milliseconds, and kills them a second later: there is time
        to say which rank it was, but none to wait for what the others have to say. So a wait ends here, too.
        """
        if self._is_told_to_end or (self._is_ending and self._error is None):
            return
        self._is_told_to_end = True
        raise self._error or self._agents.lost() or AgentLost("rank 0 was told to end (SIGTERM)", remedy=CONTINUE)

    @property
    def rank_counts(self) -> tuple[int, ...]:
        """See `seats.rank_counts`."""
        return seats.rank_counts(self.hosts)

    def placements(self, n_ranks: int) -> tuple[tuple[int, ...], ...]:
        """See `seats.placements`."""
        return seats.placements(self.hosts, n_ranks)

    def members(self, placement: Sequence[int]) -> tuple[int, ...]:
        """See `seats.members_of`."""
        return seats.members_of(self.hosts, placement)

    @property
    def several_hosts(self) -> bool:
        return len(self.hosts) > 1

    def host_name(self, host: Sequence[int]) -> str:
        """What people call a host."""
        return self._agents.peers[host[0]].hello.host

    def host_key(self, host: Sequence[int]) -> str:
        """The host's word of `runtime.whereabouts`."""
        return self._agents.peers[host[0]].hello.host_key

    def start(
        self,
        placement: tuple[int, ...],
        cores: Sequence[int],
        *,
        staging_bytes: int,
        timeout_s: float,
        watchdog_s: float,
        module: str = "autotune.backends.worker",
    ) -> AgentPool:
        """Implements `backends.launch.StartRanks`.

        Args:
            cores: not used: each rank is pinned to a core that its launcher lets it use.
        """
        members = self.members(placement)
        return AgentPool(
            self._agents,
            members,
            module=module,
            setup=lambda group, place, limit_s: self._setup(members, group, place, limit_s),
            secret=self._secret,
            on_one_host=self._launch.on_one_host,
            staging_bytes=staging_bytes,
            timeout_s=timeout_s,
            watchdog_s=watchdog_s,
        )

    def ask_hosts(self, word: str, **what: Json) -> list[Json]:
        """What the handler of that word answers on each host, called on its first rank with the CPUs of all its ranks.

        Args:
            what: the handler is told besides.

        Raises:
            AutotuneError: it failed on a host, which is named.
            AgentLost: an agent ended, or did not answer.
        """
        requests: dict[int, dict[str, Json]] = {}
        for host in self.hosts:
            cpus = sorted({core for rank in host for core in self._agents.peers[rank].hello.cores})
            requests[host[0]] = {"do": word, "cpus": list(cpus), **what}
            if host[0]:
                self._agents.tell(host[0], requests[host[0]])
        answers = {0: self._handlers[word](requests[0])}  # in this thread, whose CPUs are the process's
        deadline_s = time.monotonic() + _ASK_S
        while len(answers) < len(requests):
            heard = self._agents.hear(deadline_s)
            if not heard and time.monotonic() >= deadline_s:
                raise self._agents.missing([rank for rank in requests if rank not in answers], _ASK_S)
            for rank, message in heard:
                if "refused" in message:
                    raise AutotuneError(
                        f"{self._agents.peers[rank]}: {message['refused']}", remedy=str(message["remedy"])
                    )
                if "handled" in message:
                    answers[rank] = message["handled"]
        return [answers[host[0]] for host in self.hosts]

    def end(self, error: BaseException | None = None) -> None:
        """End the run on all ranks, and this rank's own agent."""
        self._is_ending, self._error = True, error
        message: dict[str, Json] = {"do": "end"}
        if isinstance(error, AgentLost | CommunicatorError):
            message |= {"message": error.message, "remedy": error.remedy}
        for peer in self._agents.peers:
            with contextlib.suppress(LinkLost):  # one that has gone needs no words
                peer.link.send(message)
        self._own.join(0.0 if self._is_told_to_end else _END_S)
        for peer in self._agents.peers:
            peer.link.close()

    def _setup(self, members: Sequence[int], group: int, place: int, timeout_s: float) -> dict[str, Json]:
        rank = members[place]
        host = next(host for host in self.hosts if rank in host)
        n_cores = len({self.cores[member] for member in members if member in host})
        if self._launch.master is None or self._launch.on_one_host:
            own: dict[str, Json] = {"rank": place, "n_ranks": len(members), "core": self.cores[rank]}
            return {**own, "n_cores": n_cores, "timeout_s": timeout_s}
        return Setup(
            rank=place,
            n_ranks=len(members),
            local_rank=host.index(rank),
            core=self.cores[rank],
            n_cores=n_cores,
            timeout_s=timeout_s,
            store_address=self._launch.master.address,
            store_port=self._launch.master.port,
            group=f"autotune-{self._launch.job}-{group}",
            address=self._addresses[rank],
        ).message()


def _serve(agent: Agent) -> None:
    with contextlib.suppress(LinkLost):  # the main thread has ended the run
        agent.serve()


def _addresses(
    hosts: Sequence[Sequence[int]], hellos: Sequence[Hello], others: Mapping[int, tuple[Hello, Link]]
) -> dict[int, str | None]:
    """By which address of its host each rank is reached: rank 0's host by the one that ranks of other hosts came to."""
    own = next((link.own_address for rank, (_, link) in sorted(others.items()) if rank not in hosts[0]), None)
    return {rank: own if host is hosts[0] else hellos[host[0]].address for host in hosts for rank in host}
