"""The real store, in memory, and a session in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tune.rig import FINGERPRINT, Run, begin

from autotune.db import TrialStore, open_store


@pytest.fixture
def store() -> Iterator[TrialStore]:
    opened = open_store("sqlite://")
    opened.add_topology(FINGERPRINT, "{}")
    yield opened
    opened.close()


@pytest.fixture
def run(store: TrialStore) -> Run:
    return begin(store)
