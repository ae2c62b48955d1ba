"""Collectives in a container with little /dev/shm, little memory, or less CPU time than cores: benchmarks/limits.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMITS = Path(__file__).resolve().parents[2] / "benchmarks" / "limits.py"
NOT_HERE = 77


def run(*words: str) -> str:
    ended = subprocess.run([sys.executable, LIMITS, *words], capture_output=True, text=True, timeout=250)
    if ended.returncode == NOT_HERE:
        pytest.skip(ended.stdout.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_staging_is_bounded_and_symmetric_memory_that_does_not_fit_is_refused() -> None:
    said = run("memory", "--ranks", "8", "--size", "256M")
    assert "/dev/shm of 64MiB, of which the calls use 0 bytes" in said


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 4])
def test_a_quota_of_cpu_time_does_not_collapse_latency(n: int) -> None:
    assert f"{n} ranks" in run("cpu", "--ranks", str(n))


def test_a_quota_that_is_none_is_refused() -> None:
    ended = subprocess.run([sys.executable, LIMITS, "cpu", "--quota", "999"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "--quota" in ended.stderr
