"""Peers in virtual environments of their own, under the cache folder: made once, used again.

In:  a library, the cache folder. Out: the folder that it is installed in, with its sampler compiled.
May not touch: the environment that autotune runs in.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import BackendUnavailable

from .libraries import SAMPLER, SOURCES, Library

TIMEOUT_S = 1800  # torch is gigabytes


def installed(library: Library, cache_dir: Path, *, refresh: bool) -> Path:
    """The library's folder, installed and compiled on first use. A folder counts only once it is complete.

    Raises:
        BackendUnavailable: pip or the compiler failed.
    """
    home = folder(cache_dir) / library.home
    complete = home / "complete"
    wanted = f"{' '.join(library.packages)} for Python {sys.version_info[0]}.{sys.version_info[1]}\n"
    if refresh or not complete.exists() or complete.read_text() != wanted:
        shutil.rmtree(home, ignore_errors=True)
        print(f"installing {' '.join(library.packages)} into {home}", file=sys.stderr, flush=True)
        venv.create(home, with_pip=True)
        _run(library.name, [str(home / "bin" / "pip"), "install", "--quiet", *library.packages], {})
        complete.write_text(wanted)
    if library.build is not None:
        path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        compiled(library.name, library.build(home), {"PATH": path, **library.build_env(home)})
    return home


def compiled(name: str, command: Sequence[str], env: Mapping[str, str]) -> Path:
    """Run a compiler command, which ends with the program's path, if sources or command have changed since.

    Raises:
        BackendUnavailable: the compiler failed, or is not there.
    """
    program = Path(command[-1])
    program.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256("\0".join(command).encode())
    for source in sorted((*SOURCES.iterdir(), *SAMPLER.parent.iterdir())):
        digest.update(source.read_bytes())
    stamp = program.with_name(program.name + ".sha256")
    if not (program.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest()):
        _run(name, command, env)
        stamp.write_text(digest.hexdigest())
    return program


def folder(cache_dir: Path) -> Path:
    """Where everything of this benchmark is kept."""
    return cache_dir / "benchmarks" / "peers"


def _run(name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            env={**os.environ, **env},
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise BackendUnavailable(
            f"{name}: {command[0]} did not run ({err})", remedy="install a C compiler, or leave it out with --peers"
        ) from err
    if done.returncode:
        said = " | ".join(done.stdout.strip().splitlines()[-3:])
        raise BackendUnavailable(
            f"{name}: {command[0]} ended with {done.returncode}: {said}",
            remedy=f"leave {name} out with --peers, or try again with --refresh",
        )
