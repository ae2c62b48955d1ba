from __future__ import annotations

import pytest
from store_contract import StoreContract

from autotune.db import TrialStore


class TestStore(StoreContract):
    pass


class TestHoldingStore(StoreContract):
    @pytest.fixture
    def store(self, holding_store: TrialStore) -> TrialStore:
        return holding_store
