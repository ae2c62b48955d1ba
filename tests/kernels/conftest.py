"""Rank processes that the tests of a module share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from ranks.pool import Groups

from autotune.kernels import Communicator, create_segment
from autotune.types import Config


@pytest.fixture(scope="module")
def groups() -> Iterator[Groups]:
    """Groups of 1 to 9 ranks."""
    kept = Groups(9)
    yield kept
    kept.close()


@pytest.fixture
def alone() -> Iterator[Communicator]:
    """A group of one."""
    fd = create_segment(1, 1 << 20, 0)
    config = Config(algorithm="ring", segment_bytes=4096)
    with Communicator(fd, 0, 1, selector=lambda *_: config, cores=1, timeout_s=5.0) as comm:
        os.close(fd)
        yield comm
