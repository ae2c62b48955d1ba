"""Ranks in each host, started as torchrun would: RANK, WORLD_SIZE, MASTER_ADDR and so on in their environment.

In:  a network that is up, a command. Out: how the ranks ended, and what rank 0 wrote.
May not touch: what the command does. A rank does not outlive this call: all are ended when one fails, when the time is
out, or on Ctrl-C.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

from autotune.errors import TrialFailed

from .network import Network

PORT = 29500
_STOP_S = 2.0
_TICK_S = 0.05


def run_ranks(
    network: Network,
    command: Sequence[str],
    *,
    within_s: float,
    capture: bool = True,
    per_host: Sequence[int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Run a command in every host.

    Args:
        per_host: how many ranks each host has; None for one. Ranks of a host follow each other.
        environ: variables of all ranks besides.
        capture: return rank 0's standard output; else all ranks write to this process's.

    Raises:
        TrialFailed: a rank ended with another code than 0, or not in time; says what it last wrote.
    """
    sizes = tuple(per_host or (1,) * network.n_hosts)
    host_of = [host for host, size in enumerate(sizes) for _ in range(size)]
    with contextlib.ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile()) for _ in host_of]
        out = stack.enter_context(tempfile.TemporaryFile())
        ranks: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, ranks)
        for number, host in enumerate(host_of):
            target = None if not capture else out if number == 0 else subprocess.DEVNULL
            ranks.append(
                subprocess.Popen(
                    [*network.inside(host), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=said[number] if capture else None,
                    env={**os.environ, **environment(network, number, sizes), **(environ or {})},
                    process_group=0,  # so that what a rank starts is ended with it
                )
            )
        _wait(ranks, said, within_s)
        out.seek(0)
        return out.read().decode(errors="replace")


def environment(network: Network, rank: int, per_host: Sequence[int], port: int = PORT) -> dict[str, str]:
    """What torchrun sets, and gloo's interface. Jobs that run at the same time need ports of their own."""
    host, local = [(host, local) for host, size in enumerate(per_host) for local in range(size)][rank]
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(sum(per_host)),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(per_host[host]),
        "GROUP_RANK": str(host),
        "MASTER_ADDR": network.address(0),
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }


def _wait(ranks: Sequence[subprocess.Popen[bytes]], said: Sequence[IO[bytes]], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    waiting = set(range(len(ranks)))
    while waiting:
        for number in sorted(waiting):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = ranks[number].wait(_TICK_S)
                waiting.remove(number)
                if code:
                    raise TrialFailed(
                        f"rank {number} ended with {code} and wrote: {_last(said[number])}",
                        remedy="try it by hand: python benchmarks hosts up, then ip netns exec ath0 ...",
                    )
        if waiting and time.monotonic() > deadline:
            raise TrialFailed(
                f"ranks {sorted(waiting)} did not end within {within_s:g} s; rank {min(waiting)} last wrote: "
                f"{_last(said[min(waiting)])}",
                remedy="give them more time, or fewer rounds",
            )


def _last(written: IO[bytes]) -> str:
    written.seek(0)
    lines = written.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _STOP_S
        for rank in ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, number)
        for rank in ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.wait(max(0.0, deadline - time.monotonic()))
