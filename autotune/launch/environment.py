"""What a launcher says of the process that it started: rank, size, place on the host, and where ranks meet. Pure.

In: environment variables. Out: a `Launched`, or None where no launcher started several ranks. May not touch: the
machine, but for the ancestors of this process under Hydra, which gives its jobs no name.

Which variables each launcher sets was looked up by running it: torchrun of PyTorch 2.14, mpirun of Open MPI 5.0, MPICH
5.0 and Intel MPI 2021.18, srun of Slurm 22.05. Launchers nest: torchrun inside srun or mpirun, mpirun inside an
allocation of Slurm. So the innermost one counts, in the order of ``_READERS``. Variables set by hand are no launcher
that could be inside another, and must say the same as the launcher.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError

Environment = Mapping[str, str]
_LIMIT = 1 << 20  # ranks; a larger number is a mistake
_HYDRA_PROXY = "hydra_pmi_proxy"
_PROCESSES = Path("/proc")


class Launcher(enum.Enum):
    """Who started the ranks; the values are for people."""

    TORCHRUN = "torchrun"
    OPENMPI = "mpirun (Open MPI)"
    HYDRA = "mpirun (MPICH, Intel MPI)"
    SLURM = "srun"
    VARIABLES = "RANK and WORLD_SIZE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """Where torch's TCPStore is, as MASTER_ADDR and MASTER_PORT say.

    Args:
        served: a server runs there already, torchrun's own.
    """

    address: str
    port: int
    served: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """One of several ranks.

    Args:
        local_size: ranks on this rank's host.
        job: a name that is the same on all ranks of a host, and on no other job of the host at the time.
        master: None where the variables are not set, as on one host.
    """

    launcher: Launcher
    rank: int
    n_ranks: int
    local_rank: int
    local_size: int
    job: str
    master: Master | None

    @property
    def on_one_host(self) -> bool:
        return self.local_size == self.n_ranks


def launched(environ: Environment) -> Launched | None:
    """Read what the launcher set; None without one, or with one rank only, which is no different.

    Raises:
        UsageError: half a set of variables, contradictions, or ranks on several hosts without MASTER_ADDR and
            MASTER_PORT; names the variables.
    """
    env = {name: value for name, value in environ.items() if value}
    found = next((read(env) for marks, read in _READERS if marks(env)), None)
    if found is None:
        return None
    _check_variables(env, found)
    if found.n_ranks == 1:
        return None
    if not found.on_one_host and found.master is None:
        raise UsageError(
            f"{found.launcher.value} started ranks on several hosts, and MASTER_ADDR and MASTER_PORT are not set",
            remedy="set MASTER_ADDR to the host of rank 0, and MASTER_PORT to a free port there, on all ranks",
        )
    return found


def _torchrun(env: Environment) -> Launched:
    words = [env["TORCHELASTIC_RUN_ID"], env.get("TORCHELASTIC_RESTART_COUNT", "0"), env.get("MASTER_PORT", "")]
    return _made(
        env,
        Launcher.TORCHRUN,
        rank="RANK",
        size="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_size=_number(env, "LOCAL_WORLD_SIZE"),
        job=" ".join(words),
    )


def _openmpi(env: Environment) -> Launched:
    return _made(
        env,
        Launcher.OPENMPI,
        rank="OMPI_COMM_WORLD_RANK",
        size="OMPI_COMM_WORLD_SIZE",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
        local_size=_number(env, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        job=env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_orte_hnp_uri") or "",  # the latter in Open MPI 4
    )


def _hydra(env: Environment) -> Launched:
    return _made(
        env,
        Launcher.HYDRA,
        rank="PMI_RANK",
        size="PMI_SIZE",
        local_rank="MPI_LOCALRANKID",
        local_size=_number(env, "MPI_LOCALNRANKS"),
        job=f"hydra {_ancestor(_HYDRA_PROXY)}",
    )


def _slurm(env: Environment) -> Launched:
    node = _number(env, "SLURM_NODEID")
    sizes = _tasks_per_node(env, "SLURM_STEP_TASKS_PER_NODE")
    if node >= len(sizes):
        raise _contradiction(f"SLURM_NODEID is {node}, and SLURM_STEP_TASKS_PER_NODE has {len(sizes)} nodes")
    return _made(
        env,
        Launcher.SLURM,
        rank="SLURM_PROCID",
        size="SLURM_STEP_NUM_TASKS",
        local_rank="SLURM_LOCALID",
        local_size=sizes[node],
        job=f"slurm {_word(env, 'SLURM_JOB_ID')} {_word(env, 'SLURM_STEP_ID')}",
    )


def _variables(env: Environment) -> Launched:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        _word(env, name)  # named first, since who sets them by hand forgets the last ones
    return _made(
        env,
        Launcher.VARIABLES,
        rank="RANK",
        size="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_size=_number(env, "LOCAL_WORLD_SIZE"),
        job=f"variables {env.get('MASTER_PORT', '')}",
    )


def _any_of(*names: str) -> Callable[[Environment], bool]:
    return lambda env: any(name in env for name in names)


def _in_step(env: Environment) -> bool:
    """Whether srun started this process: in a batch script, too, SLURM_PROCID is set, but no number of tasks."""
    return "SLURM_STEP_NUM_TASKS" in env


_READERS: tuple[tuple[Callable[[Environment], bool], Callable[[Environment], Launched]], ...] = (
    (_any_of("TORCHELASTIC_RUN_ID"), _torchrun),
    (_any_of("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), _openmpi),
    (_any_of("MPI_LOCALRANKID", "MPI_LOCALNRANKS"), _hydra),
    (_in_step, _slurm),
    (_any_of("RANK", "WORLD_SIZE"), _variables),
)


def _made(
    env: Environment, launcher: Launcher, *, rank: str, size: str, local_rank: str, local_size: int, job: str
) -> Launched:
    """Checked, whichever launcher it was."""
    at, n, local = _number(env, rank), _number(env, size), _number(env, local_rank)
    if at >= n:
        raise _contradiction(f"{rank} is {at}, and {size} is {n}")
    if local >= local_size or local > at or local_size > n:
        raise _contradiction(f"{local_rank} is {local} of {local_size} on this host, and {rank} is {at} of {n}")
    return Launched(
        launcher=launcher,
        rank=at,
        n_ranks=n,
        local_rank=local,
        local_size=local_size,
        job=hashlib.sha256(job.encode("utf-8", "surrogateescape")).hexdigest()[:32],
        master=_master(env, launcher),
    )


def _master(env: Environment, launcher: Launcher) -> Master | None:
    if "MASTER_ADDR" not in env and "MASTER_PORT" not in env:
        return None
    port = _number(env, "MASTER_PORT")
    if not 0 < port < 1 << 16:
        raise _contradiction(f"MASTER_PORT is {port}, which is not from 1 to 65535")
    served = launcher is Launcher.TORCHRUN and env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return Master(address=_word(env, "MASTER_ADDR"), port=port, served=served)


def _check_variables(env: Environment, found: Launched) -> None:
    """RANK and WORLD_SIZE beside a launcher's own are what people export for torch, and have to say the same."""
    for name, value in (("RANK", found.rank), ("WORLD_SIZE", found.n_ranks)):
        if name in env and _number(env, name) != value:
            raise _contradiction(f"{name} is {env[name]}, and {found.launcher.value} says {value}")


def _number(env: Environment, name: str) -> int:
    text = _word(env, name)
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) < _LIMIT):
        raise _contradiction(f"{name} is {text[:40]!r}, which is no whole number below {_LIMIT}")
    return int(text)


def _tasks_per_node(env: Environment, name: str) -> list[int]:
    """``2(x3),1`` -> [2, 2, 2, 1]."""
    sizes: list[int] = []
    for part in _word(env, name).split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:\(x([0-9]{1,6})\))?", part)
        if match is None:
            raise _contradiction(f"{name} is {env[name][:40]!r}, which is not as 2(x3),1")
        sizes += [int(match[1])] * int(match[2] or 1)
    return sizes


def _word(env: Environment, name: str) -> str:
    if name not in env:
        raise UsageError(
            f"{name} is not set, and other variables of a launcher are",
            remedy="start all ranks with torchrun, srun or mpirun; without one of these, unset their variables",
        )
    return env[name]


def _contradiction(what: str) -> UsageError:
    return UsageError(what, remedy="start all ranks with one launcher, and set none of its variables by hand")


def _ancestor(name: str) -> int:
    """The process of this name that this one stems from; its parent where there is none."""
    parent = pid = _parent("self")
    while pid > 1:
        try:
            if (_PROCESSES / str(pid) / "comm").read_text("utf-8", "replace").strip() == name:
                return pid
            pid = _parent(str(pid))
        except OSError:  # not to be seen from this container
            break
    return parent


def _parent(pid: str) -> int:
    stat = (_PROCESSES / pid / "stat").read_text("utf-8", "replace")
    return int(stat.rpartition(")")[2].split()[1])  # proc(5): the name before it may hold anything
