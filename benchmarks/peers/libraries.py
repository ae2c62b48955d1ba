"""The peers: what is installed and compiled for each, and how its ranks are started. Pure: says, does not do.

In:  a folder that a library is installed in, a number of ranks. Out: packages, compiler commands, `Launch`.
May not touch: files, processes.

Settings that make the comparison honest are written here and nowhere else: yield settings where ranks exceed cores
(without them every library falls to multiples of the scheduler's tick), leave to run as root, shared memory only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotune.backends import mpi_program
from autotune.backends.mpi_ranks import Launch

SOURCES = Path(__file__).parent / "csrc"
SAMPLER = mpi_program.SOURCES / "sampler.c"
FLAGS = ("-O3", "-march=native", f"-I{mpi_program.SOURCES}")

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A peer.

    Args:
        name: the word of the command line.
        home: the virtual environment's name; peers may share one.
        packages: what pip installs.
        build: folder -> compiler command; None where nothing is compiled.
        build_env: folder -> what the compiler wrapper needs in the environment.
        settings: (ranks exceed cores) -> settings, as recorded with every sample.
        command: (folder, n_ranks, settings, scratch folder) -> the launcher's words; the sampler's are appended.
        env: (folder, settings) -> what the launcher's environment holds besides.
        default: whether it runs when no peers are named.
        one_program_per_rank: there is no launcher; every rank is started with its rank, their number and a folder.
    """

    name: str
    home: str
    packages: tuple[str, ...]
    settings: Callable[[bool], Settings]
    command: Callable[[Path, int, Settings, Path], list[str]]
    env: Callable[[Path, Settings], Mapping[str, str]]
    build: Callable[[Path], list[str]] | None = None
    build_env: Callable[[Path], Mapping[str, str]] = field(default=lambda home: {})
    default: bool = True
    one_program_per_rank: bool = False


def launch(library: Library, home: Path, *, n_ranks: int, cores: Sequence[int]) -> Launch:
    """How the library's ranks are started: rank r pinned to cores[r mod n]."""
    settings = library.settings(n_ranks > len(cores))
    listed = ",".join(map(str, cores))

    def commands(address: str, scratch: Path) -> list[list[str]]:
        words = library.command(home, n_ranks, settings, scratch)
        if library.one_program_per_rank:
            return [[*words, address, listed, str(rank), str(n_ranks), str(scratch)] for rank in range(n_ranks)]
        return [[*words, address, listed]]

    return Launch(commands=commands, env=library.env(home, settings))


def _compile_mpi(home: Path) -> list[str]:
    sources = map(str, mpi_program.PROGRAM)
    return [str(home / "bin" / "mpicc"), *mpi_program.FLAGS, "-march=native", *sources, "-o", str(home / "sampler")]


def _openmpi(name: str, algorithm: Settings, *, default: bool) -> Library:
    """Open MPI 5: settings are MCA parameters."""

    def command(home: Path, n_ranks: int, settings: Settings, scratch: Path) -> list[str]:
        words = [str(home / "bin" / "mpirun"), "-n", str(n_ranks), *mpi_program.OPENMPI.options]
        for key, value in settings.items():
            words += ["--mca", key, value]
        return [*words, str(home / "sampler")]

    return Library(
        name=name,
        home="openmpi",
        packages=("openmpi>=5",),
        build=_compile_mpi,
        settings=lambda crowded: {**algorithm, "mpi_yield_when_idle": "1" if crowded else "0"},
        command=command,
        env=lambda home, settings: mpi_program.OPENMPI.root,
        default=default,
    )


def _hydra(home: Path, n_ranks: int, settings: Settings, scratch: Path) -> list[str]:
    """MPICH and Intel MPI: settings are environment variables."""
    return [str(home / "bin" / "mpiexec.hydra"), "-n", str(n_ranks), str(home / "sampler")]


def _intel_env(home: Path) -> Mapping[str, str]:
    return {"I_MPI_ROOT": str(home)}


def _compile_oneccl(home: Path) -> list[str]:
    """The CPU library comes as a static one, which wants Intel's compiler runtime and hwloc."""
    lib = home / "lib"
    words = ["g++", *FLAGS, f"-I{home / 'include'}", "-x", "c", str(SAMPLER)]
    words += ["-x", "c++", "-std=c++17", str(SOURCES / "oneccl.cc"), "-x", "none"]
    words += [str(lib / "ccl" / "cpu" / "lib" / "libccl.a"), f"-L{lib}", f"-Wl,-rpath,{lib}"]
    words += ["-lintlc", "-lsvml", "-limf", "-l:libhwloc.so.15", "-ldl", "-lpthread", "-lrt", "-lm"]
    return [*words, "-o", str(home / "sampler")]


def _forced_ring(algorithm: int, segment_bytes: int) -> Settings:
    return {
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": str(algorithm),
        "coll_tuned_allreduce_algorithm_segmentsize": str(segment_bytes),
    }


LIBRARIES: Mapping[str, Library] = {
    library.name: library
    for library in (
        Library(
            name="gloo",
            home="gloo",
            packages=("torch", "numpy"),
            settings=lambda crowded: {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
            command=lambda home, n_ranks, settings, scratch: [
                str(home / "bin" / "python"),
                str(SOURCES.parent / "gloo_rank.py"),
            ],
            env=lambda home, settings: settings,
            one_program_per_rank=True,
        ),
        _openmpi("openmpi", {}, default=True),
        _openmpi("openmpi-ring", _forced_ring(4, 0), default=False),
        _openmpi("openmpi-segmented-ring", _forced_ring(5, 64 << 10), default=False),
        Library(
            name="mpich",
            home="mpich",
            packages=("mpich>=5",),
            build=_compile_mpi,
            settings=lambda crowded: mpi_program.MPICH.crowded if crowded else {},
            command=_hydra,
            env=lambda home, settings: settings,
        ),
        Library(
            name="impi",
            home="impi",
            packages=("impi-rt", "impi-devel"),
            build=_compile_mpi,
            build_env=_intel_env,
            settings=lambda crowded: {
                "I_MPI_FABRICS": "shm",
                "I_MPI_PIN": "0",  # the sampler pins, as for everybody
                **({"I_MPI_THREAD_YIELD": "2", "I_MPI_SPIN_COUNT": "1"} if crowded else {}),
            },
            command=_hydra,
            env=lambda home, settings: {**_intel_env(home), **settings},
        ),
        Library(
            name="oneccl",
            home="oneccl",
            packages=("oneccl-cpu-devel", "intel-cmplr-lib-rt", "tcmlib"),
            build=_compile_oneccl,
            # Its worker threads would share the ranks' cores: the caller makes progress itself, and waits by yielding
            # where ranks exceed cores (csrc/oneccl.cc). Shared memory by libfabric; the other transport is Intel MPI.
            settings=lambda crowded: {
                "CCL_ATL_TRANSPORT": "ofi",
                "CCL_ATL_SHM": "1",
                "CCL_PROCESS_LAUNCHER": "none",
                "CCL_WORKER_OFFLOAD": "0",
                **({"CCL_YIELD": "sched_yield"} if crowded else {}),
            },
            command=lambda home, n_ranks, settings, scratch: [str(home / "sampler")],
            env=lambda home, settings: {
                **settings,
                "CCL_ROOT": str(home),
                "FI_PROVIDER_PATH": str(home / "lib"),
                "CCL_LOG_LEVEL": "error",
            },
            one_program_per_rank=True,
        ),
    )
}
