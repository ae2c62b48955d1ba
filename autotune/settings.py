"""Every environment variable that autotune reads, in one place. Standard library only.

``autotune settings`` prints this list; nothing else in the package reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from .errors import UsageError
from .units import parse_bytes, parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One variable: its name, what it does, and its default as shown to people."""

    name: str
    summary: str
    default: str


Value = TypeVar("Value")

SETTINGS: tuple[Setting, ...] = (
    Setting(
        name="AUTOTUNE_TABLE",
        summary="tuning table that select() and communicators use: a file, or the URL of autotune serve",
        default="newest for this host",
    ),
    Setting(
        name="AUTOTUNE_DB", summary="trial database: a file path or an SQLAlchemy URL", default="DATA/trials.sqlite"
    ),
    Setting(
        name="AUTOTUNE_DATA_DIR",
        summary="where tables and the database are kept (DATA)",
        default="~/.local/share/autotune",
    ),
    Setting(
        name="AUTOTUNE_TOKEN",
        summary="secret that autotune serve asks for, and that is sent to the URL of AUTOTUNE_TABLE",
        default="none",
    ),
    Setting(
        name="AUTOTUNE_EVIDENCE",
        summary="tuner plugins: kinds of evidence that count, such as measured,imported (docs/plugins.md)",
        default="measured",
    ),
    Setting(
        name="AUTOTUNE_FINGERPRINT",
        summary="tuner plugins: the machine that a job runs on, or any, so that all its ranks judge a table alike",
        default="what probe keeps on each host",
    ),
    Setting(name="AUTOTUNE_CACHE_DIR", summary="where probe keeps the host's fingerprint", default="~/.cache/autotune"),
    Setting(
        name="AUTOTUNE_RUNTIME_DIR",
        summary="where ranks of one host meet",
        default="XDG_RUNTIME_DIR, else TMPDIR, else /tmp",
    ),
    Setting(
        name="AUTOTUNE_MPI",
        summary="folder of the MPI, with its bin/mpicc, that the backends openmpi and mpich measure",
        default="the one on the path, else beside this Python",
    ),
    Setting(name="AUTOTUNE_TIMEOUT", summary="longest wait of a collective before it is an error", default="30s"),
    Setting(name="AUTOTUNE_STAGING", summary="shared memory that a rank of a communicator may fill", default="8MiB"),
    Setting(
        name="AUTOTUNE_SYMMETRIC",
        summary="address space for a rank's symmetric memory; what is not allocated takes no memory",
        default="64GiB",
    ),
    Setting(name="AUTOTUNE_CHECK", summary="1: ranks compare the whole arguments of every call", default="0"),
    Setting(
        name="AUTOTUNE_SECRET",
        summary="what the processes of a run on several hosts prove to each other",
        default="made for each run, and told over torch's TCPStore",
    ),
    Setting(
        name="AUTOTUNE_NET_DEVICES",
        summary="network interfaces between hosts, such as eth0 or mlx5_0:1, with commas between them",
        default="all but the loopback",
    ),
    Setting(
        name="AUTOTUNE_NETWORK",
        summary="what carries messages between hosts: ucx, sockets, or auto: UCX where InfiniBand or RoCE is there",
        default="auto",
    ),
    Setting(name="RANK", summary="this process's rank, as torchrun sets it", default="none"),
    Setting(name="WORLD_SIZE", summary="number of ranks, as torchrun sets it", default="none"),
    Setting(name="LOCAL_RANK", summary="this process's rank on its host, as torchrun sets it", default="none"),
    Setting(name="LOCAL_WORLD_SIZE", summary="number of ranks on this host, as torchrun sets it", default="none"),
    Setting(name="RANK_TABLE_FILE", summary="rank table of the job, as HCCL reads it; probe does too", default="none"),
)

_OF_LAUNCHERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_", "TORCHELASTIC_"),
    *("OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "SLURM_"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values of the variables above, checked. Paths are absolute; None means not set."""

    table: str | None
    db: str
    data_dir: Path
    cache_dir: Path
    runtime_dir: Path
    timeout_s: float
    staging_bytes: int
    symmetric_bytes: int
    check: bool
    rank: int | None
    n_ranks: int | None
    local_rank: int | None = None
    rank_table: Path | None = None
    net_devices: str | None = None
    network: str = "auto"
    n_local_ranks: int | None = None
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    mpi: Path | None = None
    plugin_evidence: str | None = None
    plugin_fingerprint: str | None = None


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check the environment.

    Raises:
        UsageError: naming the variable, the value and what is allowed.
    """
    env = os.environ if environ is None else environ
    home = Path(env.get("HOME") or "~").expanduser()
    data_dir = Path(
        env.get("AUTOTUNE_DATA_DIR") or Path(env.get("XDG_DATA_HOME") or home / ".local/share") / "autotune"
    )
    cache_dir = Path(env.get("AUTOTUNE_CACHE_DIR") or Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "autotune")
    staging_bytes = _parsed(env, "AUTOTUNE_STAGING", "8MiB", parse_bytes)
    if not 1 << 16 <= staging_bytes <= 1 << 32:
        raise _unusable("AUTOTUNE_STAGING", env["AUTOTUNE_STAGING"], "a size from 64KiB to 4GiB")
    symmetric_bytes = _parsed(env, "AUTOTUNE_SYMMETRIC", "64GiB", parse_bytes)
    if not 0 <= symmetric_bytes <= 1 << 40:
        raise _unusable("AUTOTUNE_SYMMETRIC", env["AUTOTUNE_SYMMETRIC"], "a size from 0 to 1TiB")
    check = env.get("AUTOTUNE_CHECK") or "0"
    if check not in ("0", "1"):
        raise _unusable("AUTOTUNE_CHECK", check, "0 or 1")
    network = env.get("AUTOTUNE_NETWORK") or "auto"
    if network not in ("auto", "ucx", "sockets"):
        raise _unusable("AUTOTUNE_NETWORK", network, "auto, ucx or sockets")
    return Settings(
        table=env.get("AUTOTUNE_TABLE") or None,
        db=env.get("AUTOTUNE_DB") or str(data_dir.absolute() / "trials.sqlite"),
        data_dir=data_dir.absolute(),
        cache_dir=cache_dir.absolute(),
        runtime_dir=Path(
            env.get("AUTOTUNE_RUNTIME_DIR") or env.get("XDG_RUNTIME_DIR") or env.get("TMPDIR") or "/tmp"
        ).absolute(),
        timeout_s=_parsed(env, "AUTOTUNE_TIMEOUT", "30s", parse_duration),
        staging_bytes=staging_bytes,
        symmetric_bytes=symmetric_bytes,
        check=check == "1",
        rank=_whole(env, "RANK"),
        n_ranks=_whole(env, "WORLD_SIZE"),
        local_rank=_whole(env, "LOCAL_RANK"),
        net_devices=env.get("AUTOTUNE_NET_DEVICES") or None,
        network=network,
        n_local_ranks=_whole(env, "LOCAL_WORLD_SIZE"),
        token=check_token(env["AUTOTUNE_TOKEN"], "AUTOTUNE_TOKEN") if env.get("AUTOTUNE_TOKEN") else None,
        secret=check_token(env["AUTOTUNE_SECRET"], "AUTOTUNE_SECRET") if env.get("AUTOTUNE_SECRET") else None,
        plugin_evidence=env.get("AUTOTUNE_EVIDENCE") or None,
        plugin_fingerprint=env.get("AUTOTUNE_FINGERPRINT") or None,
        mpi=Path(env["AUTOTUNE_MPI"]).absolute() if env.get("AUTOTUNE_MPI") else None,
        rank_table=Path(env["RANK_TABLE_FILE"]).absolute() if env.get("RANK_TABLE_FILE") else None,
    )


def launcher_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables by which launchers tell a process its place: those of torchrun, MPI's mpirun and Slurm's srun."""
    env = os.environ if environ is None else environ
    return {name: value for name, value in env.items() if name.startswith(_OF_LAUNCHERS)}


def check_token(text: str, where: str) -> str:
    """A secret that a header can carry and that is not guessed.

    Raises:
        UsageError: shorter than 16 characters, longer than 512, or with others than visible ASCII; it is not repeated.
    """
    if 16 <= len(text) <= 512 and text.isascii() and text.isprintable() and " " not in text:
        return text
    raise UsageError(
        f"{where} holds {len(text)} characters, which are not 16 to 512 visible ASCII ones without blanks",
        remedy="make one with: openssl rand -hex 32",
    )


def _parsed(env: Mapping[str, str], name: str, default: str, parse: Callable[[str], Value]) -> Value:
    try:
        return parse(env.get(name) or default)
    except UsageError as err:
        raise UsageError(f"{name}: {err.message}", remedy=err.remedy) from err


def _whole(env: Mapping[str, str], name: str) -> int | None:
    text = env.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 6):
        raise _unusable(name, text, "a whole number")
    return int(text)


def _unusable(name: str, value: str, allowed: str) -> UsageError:
    return UsageError(f"{name} is {value!r}, which is not {allowed}", remedy=f"set {name} to {allowed}, or unset it")
