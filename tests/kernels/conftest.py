"""Rank processes that the tests of a module share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ranks.pool import Groups


@pytest.fixture(scope="module")
def groups() -> Iterator[Groups]:
    """Groups of 1 to 9 ranks."""
    kept = Groups(9)
    yield kept
    kept.close()
