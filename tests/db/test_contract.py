from __future__ import annotations

import pytest
from store_contract import Reading, Rounds, Sessions, StoreContract, Tables

from autotune.db import TrialStore


class TestStore(StoreContract):
    pass


class TestHoldingStore(Sessions, Rounds, Reading, Tables):
    """All but the round trips of any value, which do not depend on when a round is stored."""

    @pytest.fixture
    def store(self, holding_store: TrialStore) -> TrialStore:
        return holding_store
