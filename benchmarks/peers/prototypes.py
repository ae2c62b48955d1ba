"""Rows for the throwaway prototypes, where their source is given by path; nobody else needs them.

In:  the folder with fused/shm_collectives.cpp and schedule/{compile.py,exec3.cpp}. Out: compiler commands, `Launch`,
candidates to race as ours does. May not touch: the sources, which are included as they are.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.backends.mpi_ranks import Launch
from autotune.errors import BackendUnavailable, UsageError
from autotune.types import Collective, Config

from . import install
from .cells import Cell
from .libraries import FLAGS, SAMPLER, SOURCES

TIMEOUT_S = 60
_SEGMENTS = (64 << 10, 256 << 10, 1 << 20)
_MOST_PIPELINED = 256 << 10
_ALGORITHMS: Mapping[str, Mapping[Collective, tuple[str, ...]]] = {
    "fused": {
        Collective.ALL_REDUCE: ("auto", "flat", "direct", "rsag"),
        Collective.ALL_GATHER: ("gather",),
    },
    "interpreted": {
        Collective.ALL_REDUCE: ("flat", "direct", "ring", "rhd", "bruck"),
        Collective.ALL_GATHER: ("direct", "ring", "bruck"),
    },
}
_SOURCES = {"fused": "fused/shm_collectives.cpp", "interpreted": "schedule/exec3.cpp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prototype:
    """One of them, compiled."""

    name: str
    program: Path

    def launch(self, n_ranks: int, cores: Sequence[int]) -> Launch:
        """How its ranks are started."""
        listed = ",".join(map(str, cores))
        return Launch(
            commands=lambda address, scratch: [[str(self.program), address, listed, str(n_ranks)]],
            env={},
            folder=self.program.parent,
        )

    def candidates(self, cell: Cell) -> list[Config]:
        """What is raced in a cell; empty where it has nothing."""
        segments = [s for s in _SEGMENTS if s <= max(cell.message_bytes, _SEGMENTS[0])]
        found = []
        for algorithm in _ALGORITHMS[self.name].get(cell.collective, ()):
            for segment in segments[:1] if algorithm in ("auto",) else segments:
                if self.name == "fused":
                    found.append(Config(algorithm=algorithm, segment_bytes=segment))
                    continue
                program = f"{cell.collective.value}.{algorithm}"
                if segment > _MOST_PIPELINED and cell.message_bytes > segment:
                    continue  # four slices of three slots each are more than its outbox, and it ends
                if (self.program.parent / "prog" / f"{program}.{cell.n_ranks}").exists():
                    found += [
                        Config(algorithm=program, segment_bytes=segment, knobs=(("tile", tile),)) for tile in (0, 32768)
                    ]
        return found


def words(config: Config) -> str:
    """A config as the programs read it."""
    return " ".join(map(str, (config.algorithm, config.segment_bytes, *(value for _, value in config.knobs))))


def built(source: Path, cache_dir: Path) -> list[Prototype]:
    """Compile both, and let the interpreter's own script write its programs.

    Raises:
        UsageError: the folder does not hold them.
        BackendUnavailable: the compiler or the script failed.
    """
    found = []
    for name, file in _SOURCES.items():
        if not (source / file).is_file():
            raise UsageError(f"{source} has no {file}", remedy="give --prototypes the folder that holds it")
        program = install.folder(cache_dir) / "prototypes" / name / name
        command = ["g++", *FLAGS, "-x", "c", str(SAMPLER), "-x", "c++"]
        command += ["-std=c++20", f'-DPROTOTYPE="{source / file}"', str(SOURCES / f"{name}.cc"), "-o", str(program)]
        install.compiled(name, command, {})
        found.append(Prototype(name=name, program=program))
    script = (source / "schedule" / "compile.py").resolve()
    folder = found[-1].program.parent
    done = subprocess.run([sys.executable, str(script)], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
        raise BackendUnavailable(f"{script} ended with {done.returncode}: {said}", remedy="go without --prototypes")
    return found
