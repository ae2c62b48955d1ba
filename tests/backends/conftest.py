"""Pools of ranks, and what this process holds besides them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets ranks find the modules of tests/backends/faults."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]))


def children() -> set[int]:
    """Processes that this one started and has not waited for."""
    return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = children(), descriptors()
    yield
    assert (children(), descriptors()) == before, "a process or a descriptor is left"
