"""A program that tells which algorithm of an installed MPI ran.

A release build of Open MPI or MPICH does not print its choice. But algorithms of all_reduce add floats in different
orders, so the bits of the sums tell them apart: order_of_sums.c prints a hash of them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.backends.mpi_program import KINDS, Mpi, environment, find_mpi
from autotune.exchange import Exported

PROGRAM = Path(__file__).with_name("order_of_sums.c")
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The program, compiled for an MPI."""

    mpi: Mpi
    program: Path

    def of(self, n_ranks: int, sizes: Sequence[int], env: Mapping[str, str]) -> dict[int, str]:
        """A hash of each size's sums."""
        kind = self.mpi.kind
        words = [str(self.mpi.launcher), *kind.options, "-n", str(n_ranks), str(self.program), *map(str, sizes)]
        around = {**os.environ, **environment(kind, crowded=True), **env}
        done = subprocess.run(words, env=around, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        rows = [line.split() for line in done.stdout.splitlines()]
        return {int(size): digest for size, digest in rows}


def sums(name: str, home: Path | None, folder: Path) -> Sums:
    """The program for the MPI of `mpi.installed`, built in a folder."""
    mpi = find_mpi(KINDS[name], home)
    program = folder / f"order_of_sums-{name}"
    path = {"PATH": f"{mpi.compiler.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(mpi.compiler), "-O1", str(PROGRAM), "-o", str(program)]
    subprocess.run(command, check=True, env={**os.environ, **path}, timeout=TIMEOUT_S)
    return Sums(mpi=mpi, program=program)


def written(exported: Exported, path: Path) -> dict[str, str]:
    """The environment that uses an export, with its files where its lines say."""
    for file, text in exported.files(path).items():
        file.write_text(text)
    return exports(exported.lines(path))


def exports(lines: Sequence[str]) -> dict[str, str]:
    """The environment that lines for the shell make."""
    found = {}
    for line in lines:
        command, assignment = shlex.split(line)
        assert command == "export"
        name, _, value = assignment.partition("=")
        found[name] = value
    return found
