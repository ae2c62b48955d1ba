"""Slurm's own daemons, for one user and one test: munged, slurmctld, a slurmd a node, with files in a folder.

In:  a folder, and the nodes, this host if there are none. Out: variables with which srun and sbatch find them. All
daemons stay in the foreground, as children of this process, and are ended with the block; nothing outside the folder is
touched but ports, and a folder for spools, which is taken away: a step's socket is in there, and its path has to be
short, or srun says "Task launch failed: Unspecified error".
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from launch.ranks_by_hand import until

_DAEMONS = ("munged", "slurmctld", "slurmd", "srun")
_PATH = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}({address})
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={spools}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_no_slurm() -> str | None:
    """Why the daemons cannot run here; None if they can."""
    if os.geteuid() != 0:
        return "needs root, as which slurmd runs"
    missing = [name for name in _DAEMONS if shutil.which(name, path=_PATH) is None]
    return f"needs Slurm: no {', '.join(missing)} (apt-get install slurmd slurmctld munge)" if missing else None


class Node(NamedTuple):
    """Where a slurmd runs.

    Args:
        inside: words before a program that is to run there.
    """

    name: str
    address: str
    inside: Sequence[str] = ()


class Slurm:
    """A context manager. The first node's host has the controller."""

    def __init__(self, folder: Path, nodes: Sequence[Node] = ()) -> None:
        self._folder = folder
        self._nodes = nodes or [Node(socket.gethostname(), "127.0.0.1")]
        self._stack = contextlib.ExitStack()
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _PATH}

    def __enter__(self) -> Slurm:
        folder = self._folder
        spools = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slurmd-")))
        for made in (folder / "state", *(spools / node.name for node in self._nodes)):
            made.mkdir()
        for parent in (folder, *folder.parents):
            if parent.stat().st_uid == os.getuid() and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)  # munge wants its socket to be reachable
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o400)
        ports = [_free_port(), _free_port()]
        (folder / "slurm.conf").write_text(
            _CONFIGURATION.format(
                host=self._nodes[0].name,
                address=self._nodes[0].address,
                nodes="\n".join(f"NodeName={n.name} NodeAddr={n.address} CPUs=4 State=UNKNOWN" for n in self._nodes),
                folder=folder,
                spools=spools,
                controller=ports[0],
                daemon=ports[1],
            )
        )
        # Found by itself, it has to be mounted, and in a network namespace's own /sys it is not.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        try:
            files = [
                f"--{name}={folder}/munge.{name[:4]}" for name in ("key-file", "pid-file", "log-file", "seed-file")
            ]
            files[0] = f"--key-file={folder}/munge.key"
            self._start("munged", "munged", "--foreground", "--force", f"--socket={folder}/munge.sock", *files)
            until(lambda: (folder / "munge.sock").exists(), "munged", 20)
            self._start("slurmctld", *self._nodes[0].inside, "slurmctld", "-D", "-i")
            for node in self._nodes:
                self._start(f"slurmd.{node.name}", *node.inside, "slurmd", "-D")
            until(self._are_idle, "idle nodes", 60)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, name: str, *words: str) -> None:
        log = self._stack.enter_context((self._folder / f"{name}.out").open("wb"))
        process = subprocess.Popen(
            words, env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        self._stack.callback(_end, process)

    def _are_idle(self) -> bool:
        words = [*self._nodes[0].inside, "sinfo", "--noheader", "--Node", "--format=%T"]
        done = subprocess.run(
            words, env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout.split() == ["idle"] * len(self._nodes)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
