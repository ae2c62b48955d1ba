"""Ranks that the agents of a launcher's job start: rank 0's side.

In:  the agents, and which of them take part. Out: every rank's answer, or which rank hung or died, as `RankPool` says
it. May not touch: what requests mean.

Where all ranks of the job are on one host, they share a segment whose descriptor goes over the links, and run the same
module as a `RankPool`'s. On several hosts they run its namesake of this room, which meets the others over the network.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..backends.launch import SYMMETRIC_BYTES
from ..backends.rank_process import STOP_S, Ended, Json, pool_failed
from ..errors import AutotuneError, BackendUnavailable
from ..kernels import create_segment
from ..types import TrialState
from .hello import Hello
from .links import Link, LinkLost, Message

_AGENT_S = 30.0  # that an agent has to answer beyond what its child needs; a cut link may be back by then
_BETWEEN_HOSTS = {
    "autotune.backends.worker": "autotune.launch.native_rank",
    "autotune.backends.torch_worker": "autotune.launch.torch_rank",
    "autotune.backends.torch_groups_worker": "autotune.launch.torch_groups_rank",
}


class AgentLost(AutotuneError):
    """An agent ended, or is not reached any more: the run is over on all ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An agent as rank 0 sees it.

    Args:
        core: that its child is pinned to.
    """

    hello: Hello
    link: Link
    core: int

    def __str__(self) -> str:
        return f"rank {self.hello.rank} on {self.hello.host}"


class Agents:
    """All agents of a job, for one conversation at a time."""

    def __init__(self, peers: Sequence[Peer]) -> None:
        self.peers = tuple(peers)
        self._n_groups = 0

    def new_group(self) -> int:
        """A number that no group of ranks had yet."""
        self._n_groups += 1
        return self._n_groups

    def tell(self, rank: int, message: Mapping[str, Json], descriptors: Sequence[int] = ()) -> None:
        """Send a message to one agent.

        Raises:
            AgentLost: it has gone.
            KeyboardInterrupt: it was interrupted, and so the run.
        """
        peer = self.peers[rank]
        try:
            peer.link.send(message, descriptors)
        except LinkLost as err:
            with contextlib.suppress(LinkLost):  # what it said last
                if any("interrupted" in last for last in peer.link.receive()):
                    raise KeyboardInterrupt from None
            raise _lost(peer, str(err)) from err

    def hear(self, deadline_s: float, *, heed_interrupts: bool = True) -> list[tuple[int, Message]]:
        """What came from agents since the last time, waiting until something does; nothing at the deadline.

        Raises:
            AgentLost: an agent has gone.
            KeyboardInterrupt: an agent was interrupted, and so the run.
        """
        with selectors.DefaultSelector() as waiting:
            for rank, peer in enumerate(self.peers):
                waiting.register(peer.link, selectors.EVENT_READ, rank)
            ready = [int(key.data) for key, _ in waiting.select(max(0.0, deadline_s - time.monotonic()))]
        found: list[tuple[int, Message]] = []
        lost: tuple[Peer, LinkLost] | None = None
        for rank in ready:
            try:
                found += [(rank, message) for message in self.peers[rank].link.receive()]
            except LinkLost as err:
                lost = lost or (self.peers[rank], err)
        if heed_interrupts and any("interrupted" in message for _, message in found):
            raise KeyboardInterrupt
        if lost is not None:
            raise _lost(lost[0], str(lost[1])) from lost[1]
        return found

    def lost(self) -> AgentLost | None:
        """The error of an agent that has gone, whether or not anybody listened to it; None while all are there."""
        return next((_lost(peer, "has gone") for peer in self.peers if peer.link.ended()), None)

    def missing(self, ranks: Sequence[int], within_s: float) -> AgentLost:
        """The error of agents that did not answer."""
        names = ", ".join(str(self.peers[rank]) for rank in ranks)
        return AgentLost(f"no word from {names} within {within_s:g} s", remedy=CONTINUE)


class AgentPool:
    """Implements `backends.launch.Ranks` over agents.

    Args:
        members: the ranks of the job that take part; the group's rank g is members[g].
        setup: (number of the group, rank in it, timeout) -> what the rank is told; it stands on a command line, where
            everybody can read it.
        secret: of the run, told over the links.
        on_one_host: the whole job is; the links are Unix sockets then.

    Raises:
        BackendUnavailable: the ranks did not start.
        AgentLost: see `Agents`.
    """

    def __init__(
        self,
        agents: Agents,
        members: Sequence[int],
        *,
        module: str,
        setup: Callable[[int, int, float], dict[str, Json]],
        secret: bytes,
        on_one_host: bool,
        staging_bytes: int,
        timeout_s: float,
        watchdog_s: float,
    ) -> None:
        self.n_ranks = len(members)
        self._agents = agents
        self._members = tuple(members)
        self._watchdog_s = watchdog_s
        self._group = agents.new_group()
        segment = create_segment(self.n_ranks, staging_bytes, SYMMETRIC_BYTES) if on_one_host else None
        try:
            for place, rank in enumerate(members):
                message: dict[str, Json] = {
                    "do": "start",
                    "group": self._group,
                    "module": module if on_one_host else _BETWEEN_HOSTS[module],
                    "segment": on_one_host,
                    "setup": setup(self._group, place, timeout_s),
                }
                agents.tell(rank, message, () if segment is None else (segment,))
        finally:
            if segment is not None:
                os.close(segment)
        try:
            self.ask({"do": "join", "secret": secret.hex()})
        except AutotuneError as err:
            if isinstance(err, AgentLost):
                raise
            raise BackendUnavailable(f"the ranks did not start: {err.message}", remedy=err.remedy) from err

    def ask(self, request: Mapping[str, Json]) -> list[dict[str, Json]]:
        """See `Ranks`.

        Raises:
            PoolFailed: a rank died or did not answer within the watchdog's time; all ranks are gone then.
            AgentLost: an agent did.
        """
        for rank in self._members:
            self._agents.tell(rank, {"do": "ask", "group": self._group, "request": dict(request)})
        deadline_s = time.monotonic() + self._watchdog_s
        answers: dict[int, dict[str, Json]] = {}
        while len(answers) < self.n_ranks:
            heard = self._agents.hear(deadline_s)
            if not heard and time.monotonic() >= deadline_s:
                missing = ", ".join(str(self._agents.peers[r]) for r in self._members if r not in answers)
                raise self._failed(f"no answer from {missing} within {self._watchdog_s:g} s", TrialState.TIMEOUT, {})
            for rank, message in heard:
                if message.get("group") != self._group:
                    continue  # of a group that was ended
                if "ended" in message:
                    ended = {rank: _ended(message["ended"])}
                    raise self._failed(f"{self._agents.peers[rank]} ended", TrialState.CRASHED, ended)
                answer = message["answer"]
                assert isinstance(answer, dict)
                answers[rank] = answer
        return [answers[rank] for rank in self._members]

    def _failed(self, what: str, state: TrialState, ended: dict[int, Ended | None]) -> AutotuneError:
        ended |= self._stop(set(ended), heed_interrupts=True)
        named = {str(self._agents.peers[rank]): found for rank, found in sorted(ended.items()) if found is not None}
        return pool_failed(what, state, named)

    def close(self) -> None:
        """End the ranks. What was heard of agents that end as well is left to those who ask them next."""
        with contextlib.suppress(AgentLost, KeyboardInterrupt):
            self._stop(set(), heed_interrupts=False)

    def _stop(self, gone: set[int], *, heed_interrupts: bool) -> dict[int, Ended | None]:
        """How all ranks but those ended.

        Raises:
            AgentLost: an agent does not say.
        """
        waiting = set(self._members) - gone
        for rank in waiting:
            self._agents.tell(rank, {"do": "stop", "group": self._group})
        within_s = STOP_S + _AGENT_S
        deadline_s = time.monotonic() + within_s
        ended: dict[int, Ended | None] = {}
        while waiting:
            heard = self._agents.hear(deadline_s, heed_interrupts=heed_interrupts)
            if not heard and time.monotonic() >= deadline_s:
                raise self._agents.missing(sorted(waiting), within_s)
            for rank, message in heard:
                if message.get("group") == self._group and "ended" in message and rank in waiting:
                    # A child that ended before it was told to is reported twice; the first report has the reason.
                    ended[rank] = ended.get(rank) or _ended(message["ended"])
                    waiting -= {rank}
        return ended


CONTINUE = "see what its host says of it; the same command continues the run"


def _lost(peer: Peer, what: str) -> AgentLost:
    return AgentLost(f"the agent of {peer} {what}: the run is over", remedy=CONTINUE)


def _ended(told: Json) -> Ended | None:
    if not isinstance(told, dict):
        return None
    return Ended(int(str(told["code"])), str(told["said"]), bool(told["hung"]))
