"""Scenes on real network namespaces: what they need, and the ranks that act in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scenes import scene
from scenes.scene import Played, Scene

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from hosts.network import why_not  # noqa: E402 - found in the folder above


def reason() -> str | None:
    """What is missing here for a scene; None if nothing is."""
    if os.geteuid() == 0:
        return why_not()
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "needs unshare of util-linux and ip of iproute2: not found"
    tried = subprocess.run(["unshare", "-Urnm", "true"], capture_output=True, text=True, timeout=20, check=False)
    return f"needs user namespaces: {tried.stderr.strip()}" if tried.returncode else None


@pytest.fixture(params=["sockets", "ucx"])
def carrier(request: pytest.FixtureRequest) -> str:
    """What carries messages between hosts: every scene is played by both."""
    name = str(request.param)
    if name == "ucx":
        from autotune.errors import AutotuneError
        from autotune.kernels.network import connection

        try:
            connection(0, 1, carrier="ucx")
        except AutotuneError as err:
            pytest.skip(f"needs UCX: {err.message}")
    return name


@pytest.fixture
def play(carrier: str) -> Callable[[Scene, Path], Played]:
    """Plays a scene; skips where that cannot be done."""
    missing = reason()
    if missing is not None:
        pytest.skip(missing)

    def played(of: Scene, folder: Path) -> Played:
        return scene.play(replace(of, environ={"AUTOTUNE_NETWORK": carrier, **of.environ}), folder)

    return played


@pytest.fixture
def over(carrier: str) -> str:
    """How a connection by eth0 is named."""
    return {"sockets": "sockets/eth0", "ucx": "tcp/eth0"}[carrier]
