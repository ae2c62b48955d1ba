"""MPIs from PyPI in environments of their own, and a program that tells which algorithm of theirs ran.

A release build of Open MPI or MPICH does not print its choice. But algorithms of all_reduce add floats in different
orders, so the bits of the sums tell them apart: order_of_sums.c prints a hash of them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.settings import read

PROGRAM = Path(__file__).with_name("order_of_sums.c")
TIMEOUT_S = 600.0
_AS_ROOT = {f"{word}_ALLOW_RUN_AS_ROOT{end}": "1" for word in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """An MPI that is installed, with the program compiled for it."""

    home: Path
    launcher: tuple[str, ...]

    def sums(self, n_ranks: int, sizes: Sequence[int], env: Mapping[str, str]) -> dict[int, str]:
        """A hash of each size's sums."""
        words = [str(self.home / "bin" / self.launcher[0]), *self.launcher[1:], "-n", str(n_ranks)]
        done = subprocess.run(
            [*words, str(self.home / "order_of_sums"), *map(str, sizes)],
            env={**os.environ, **_AS_ROOT, **env},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        rows = [line.split() for line in done.stdout.splitlines()]
        return {int(size): digest for size, digest in rows}


def installed(package: str, *launcher: str) -> Mpi:
    """The package in an environment below the cache folder, made once; the test is skipped where that cannot be."""
    home = read().cache_dir / "tests" / f"{package}-py{sys.version_info[0]}{sys.version_info[1]}"
    if not (home / "complete").exists():
        venv.create(home, with_pip=True, clear=True)
        _run_or_skip(package, [str(home / "bin" / "pip"), "install", "--quiet", package], {})
    path = {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    _run_or_skip(package, [str(home / "bin" / "mpicc"), "-O1", str(PROGRAM), "-o", str(home / "order_of_sums")], path)
    (home / "complete").touch()
    return Mpi(home=home, launcher=launcher)


def exports(usage: Sequence[str], path: Path) -> dict[str, str]:
    """The environment that an export's lines for the shell make."""
    found = {}
    for line in usage:
        command, assignment = shlex.split(line.format(path=path))
        assert command == "export"
        name, _, value = assignment.partition("=")
        found[name] = value
    return found


def _run_or_skip(package: str, command: Sequence[str], env: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command, env={**os.environ, **env}, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except OSError as err:
        pytest.skip(f"needs {package} from PyPI and a C compiler: {err}")
    if done.returncode:
        pytest.skip(f"needs {package} from PyPI and a C compiler: {done.stderr.strip().splitlines()[-1:]}")
