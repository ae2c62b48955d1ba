"""Reading sets off no search of Python's collector through all that the process holds, and leaves it as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from autotune.db import open_store
from autotune.errors import StoreError


@pytest.fixture
def seen() -> Iterator[list[bool]]:
    """Whether the collector was on, at each statement."""
    found: list[bool] = []

    def note(*_: object) -> None:
        found.append(gc.isenabled())

    event.listen(Engine, "before_cursor_execute", note)
    yield found
    event.remove(Engine, "before_cursor_execute", note)


def test_the_collector_waits_for_an_answer(tmp_path: Path, seen: list[bool]) -> None:
    with closing(open_store(str(tmp_path / "trials.sqlite"))) as store:
        seen.clear()
        assert store.sessions() == []
        assert seen
        assert not any(seen)
        assert gc.isenabled()
        seen.clear()
        with pytest.raises(StoreError):
            store.trial(7)
        assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(tmp_path: Path) -> None:
    with closing(open_store(str(tmp_path / "trials.sqlite"))) as store:
        gc.disable()
        try:
            store.sessions()
            assert not gc.isenabled()
        finally:
            gc.enable()
