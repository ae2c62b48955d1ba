"""Hosts for launchers: network namespaces with host names, and the ssh by which a launcher believes that it logs in.

In:  a folder, ranks per host. Out: words that go before a program that is to run on a host. Each host is called hosta,
hostb ..., which its own /etc/hosts says is 127.0.1.1, as Debian's installer writes it, and the others' say is its
address. Nothing is left: a name lives in a UTS namespace of the process, a file's mount in its mount namespace.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hosts.launch import environment as variables
from hosts.network import Network, made, why_not
from launch.ranks_by_hand import environment

PORT = "29500"
_ENTER = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'
_SSH = """#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
case $1 in {cases}
*) echo "no host $1" >&2; exit 255 ;; esac
shift
exec "$HERE/enter$number" sh -c "$*"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """What was made.

    Args:
        ssh: a program that runs a command on a host, as ssh does.
    """

    network: Network
    per_host: tuple[int, ...]
    folder: Path
    ssh: Path

    def name(self, host: int) -> str:
        return f"host{chr(ord('a') + host)}"

    def address(self, host: int) -> str:
        return self.network.address(host)

    @property
    def master(self) -> dict[str, str]:
        """What srun and mpirun leave to the user."""
        return {"MASTER_ADDR": self.address(0), "MASTER_PORT": PORT}

    def inside(self, host: int) -> list[str]:
        """Words before a command; the command takes their process."""
        return [str(self.folder / f"enter{host}")]

    def ip(self, host: int, *words: str) -> None:
        """Change a host's network."""
        subprocess.run(["ip", "-n", self.network.host(host), *words], check=True, timeout=20)


@contextmanager
def hosts(folder: Path, *per_host: int) -> Iterator[Hosts]:
    """Hosts, taken away whatever happens; skips where none can be made."""
    missing = why_not() if os.geteuid() == 0 else "needs root, to make network namespaces"
    if missing is not None:
        pytest.skip(missing)
    network = Network(n_hosts=len(per_host), rate_mbit=1000, prefix=f"lt{os.getpid()}")
    found = Hosts(network=network, per_host=per_host, folder=folder, ssh=folder / "ssh")
    numbers = range(len(per_host))
    for host in numbers:
        own = "".join(f"{'127.0.1.1' if h == host else found.address(h)} {found.name(h)}\n" for h in numbers)
        (folder / f"hosts{host}").write_text(f"127.0.0.1 localhost\n::1 localhost\n{own}")
        words = [*network.inside(host), "unshare", "--uts", "sh", "-c", _ENTER, f"{folder}/hosts{host}"]
        _program(folder / f"enter{host}", f'#!/bin/sh\nexec {shlex.join([*words, found.name(host)])} "$@"\n')
    cases = "\n".join(f"{found.address(h)}|{found.name(h)}) number={h} ;;" for h in numbers)
    _program(found.ssh, _SSH.format(cases=cases).replace("$HERE", str(folder)))
    with made(network):
        yield found


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@contextmanager
def ranks(
    made: Hosts, home: Path, words: Sequence[str], *, leave_out: Sequence[int] = (), **more: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """`autotune` on every host, with what torchrun would set; each a process group of its own, all gone at the end.

    Args:
        leave_out: ranks that are not started; who is added to the list is ended, too.
    """
    started: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:
        stack.callback(_end, started)
        for rank in range(sum(made.per_host)):
            if rank not in leave_out:
                started.append(rank_of(made, home, words, rank, **more))
        yield started


def rank_of(
    made: Hosts, home: Path, words: Sequence[str], rank: int, *, per_host: Sequence[int] | None = None, **more: str
) -> subprocess.Popen[str]:
    """One of them.

    Args:
        per_host: what it is told of the others.
    """
    told = variables(made.network, rank, per_host or made.per_host)
    del told["GLOO_SOCKET_IFNAME"]  # it is for autotune to find
    return subprocess.Popen(
        [*made.inside(int(told["GROUP_RANK"])), sys.executable, "-P", "-m", "autotune", *words],
        env={**environment(home), **told, **more},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _end(started: Sequence[subprocess.Popen[str]]) -> None:
    for process in started:
        process.kill()
        process.communicate()
