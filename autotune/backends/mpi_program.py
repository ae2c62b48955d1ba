"""An MPI that is installed here: found, and our loop of samples compiled for it.

In:  whose MPI, where to look, the cache folder. Out: an `Mpi`; the compiled program; how its ranks are launched.
May not touch: the MPI's own files. The program is compiled once for each MPI and version of our sources.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BackendUnavailable
from ..exchange.words import Start, library
from .mpi_ranks import Launch

SOURCES = Path(__file__).with_name("mpi_csrc")
FLAGS = ("-std=gnu11", "-O3", f"-I{SOURCES}")
PROGRAM = (SOURCES / "mpi.c", SOURCES / "sampler.c")
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An MPI as it is found and started.

    Args:
        launchers: names of its launcher, the surest first.
        compilers: names of its compiler wrapper.
        version: finds the version in what the launcher says of itself.
        options: what the launcher is told besides.
        crowded: environment for more ranks than cores, without which waiting ranks keep the others from the core.
        root: environment that a launcher wants where root starts it.
        own: beginnings of variables that tune it, which would spoil its default.
    """

    name: str
    launchers: tuple[str, ...]
    compilers: tuple[str, ...]
    version: re.Pattern[str]
    options: tuple[str, ...]
    crowded: Mapping[str, str]
    root: Mapping[str, str]
    own: tuple[str, ...]


OPENMPI = Kind(
    name="openmpi",
    launchers=("mpirun.openmpi", "mpirun"),
    compilers=("mpicc.openmpi", "mpicc"),
    version=re.compile(r"\(Open ?MPI\) (\S+)"),
    options=("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"),
    crowded={"OMPI_MCA_mpi_yield_when_idle": "1"},
    root={f"{word}_ALLOW_RUN_AS_ROOT{end}": "1" for word in ("OMPI", "PRTE") for end in ("", "_CONFIRM")},
    own=("OMPI_MCA_coll_", "OMPI_MCA_btl_sm_"),
)
MPICH = Kind(
    name="mpich",
    launchers=("mpiexec.mpich", "mpiexec.hydra"),
    compilers=("mpicc.mpich", "mpicc"),
    version=re.compile(r"HYDRA[^\0]*?Version:\s+(\S+)"),
    options=(),
    crowded={"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1"},
    root={},
    own=("MPIR_CVAR_",),
)
KINDS = {kind.name: kind for kind in (OPENMPI, MPICH)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """An installed MPI."""

    kind: Kind
    launcher: Path
    compiler: Path
    version: str

    def launch(self, program: Path, n_ranks: int, cores: Sequence[int], start: Start = ()) -> Launch:
        """How ranks of the program are started, under these settings: rank r pinned to cores[r mod n]."""
        listed = ",".join(map(str, cores))

        def commands(address: str, scratch: Path) -> list[list[str]]:
            return [[str(self.launcher), "-n", str(n_ranks), *self.kind.options, str(program), address, listed]]

        env = environment(self.kind, crowded=n_ranks > len(cores))
        words = library(self.kind.name)
        starts = tuple(name for one in words.starts for name in words.environment(one))
        return Launch(commands=commands, env=env | words.environment(start), unset=(*self.kind.own, *starts))


def environment(kind: Kind, *, crowded: bool) -> dict[str, str]:
    """What an MPI's launcher is started with, besides this process's environment."""
    return {**(kind.root if os.geteuid() == 0 else {}), **(kind.crowded if crowded else {})}


def find_mpi(kind: Kind, home: Path | None) -> Mpi:
    """The MPI below `home`, else the one on the path, else the one beside this Python (where pip puts it).

    Raises:
        BackendUnavailable: there is none, or one of another kind.
    """
    folders = [home / "bin"] if home else [*_path_folders(), Path(sys.prefix) / "bin"]
    seen = []
    for folder in dict.fromkeys(folders):
        for launcher in (folder / name for name in kind.launchers):
            if not os.access(launcher, os.X_OK):
                continue
            found = kind.version.search(_said(launcher, kind))
            compiler = next((folder / name for name in kind.compilers if os.access(folder / name, os.X_OK)), None)
            if found is not None and compiler is not None:
                return Mpi(kind=kind, launcher=launcher, compiler=compiler, version=found[1])
            seen.append(f"{launcher} is " + ("of another MPI" if found is None else "without mpicc beside it"))
    where = f"in {home}/bin" if home else "on the path"
    raise BackendUnavailable(
        f"the backend {kind.name} needs {kind.launchers[-1]} and mpicc of that MPI, and finds none {where}"
        + (f": {'; '.join(seen)}" if seen else ""),
        remedy=f"pip install {kind.name}, or set AUTOTUNE_MPI to the folder that has its bin/mpicc",
    )


def compiled(mpi: Mpi, cache_dir: Path) -> Path:
    """The program of `PROGRAM` for this MPI, compiled on first use; complete or not there, whoever compiles beside us.

    Raises:
        BackendUnavailable: the compiler failed, or there is none.
    """
    command = [str(mpi.compiler), *FLAGS, *map(str, PROGRAM)]
    digest = hashlib.sha256("\0".join((*command, mpi.version)).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    folder = cache_dir / "mpi"
    program = folder / f"{mpi.kind.name}-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as partial:
            made = Path(partial) / "program"
            _run([*command, "-o", str(made)], mpi)
            made.replace(program)
    except OSError as err:
        raise BackendUnavailable(
            f"the program that the ranks of {mpi.kind.name} run cannot be built in {folder}: {err}",
            remedy="set AUTOTUNE_CACHE_DIR to a folder that you may write to",
        ) from err
    return program


def _run(command: Sequence[str], mpi: Mpi) -> None:
    # The wrapper looks for its own parts and for the compiler on the path.
    path = os.pathsep.join((str(mpi.compiler.parent), os.environ.get("PATH", os.defpath)))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            env={**os.environ, "PATH": path},
            check=False,
        )
        failed = "" if done.returncode == 0 else " | ".join(done.stderr.strip().splitlines()[-3:]) or "no message"
    except (OSError, subprocess.TimeoutExpired) as err:
        failed = str(err)
    if failed:
        raise BackendUnavailable(
            f"{command[0]} could not compile the program that the ranks run: {failed}",
            remedy="install a C compiler (gcc or clang), and see that it is on the path",
        )


def _said(launcher: Path, kind: Kind) -> str:
    """What a launcher answers to ``--version``; nothing where it cannot."""
    try:
        done = subprocess.run(
            [str(launcher), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            env={**os.environ, **environment(kind, crowded=False)},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _path_folders() -> Iterable[Path]:
    """Of PATH, those that are absolute: what lies in the working directory is not started."""
    listed = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [Path(folder) for folder in listed if os.path.isabs(folder)]
