from __future__ import annotations

from store_contract import StoreContract


class TestStore(StoreContract):
    pass
