"""Hosts of unlike caches have unlike shipped rules, and meet all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.runtime import source
from autotune.runtime.brought import BroughtTable, brought_table
from autotune.settings import read
from autotune.table import native_defaults, parse_table


def brought(monkeypatch: pytest.MonkeyPatch, folder: Path, l2_bytes: int | None) -> BroughtTable:
    """By a rank on a host with such caches and no table of its own."""
    monkeypatch.setattr(source, "second_level_bytes", lambda: l2_bytes)
    return brought_table(0, replace(read(), table=None, data_dir=folder, cache_dir=folder), None)


def test_ranks_agree_on_shipped_rules_whatever_the_caches_of_their_hosts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    small, large, unknown = (brought(monkeypatch, tmp_path, size) for size in (1 << 20, 2 << 20, None))
    assert small == unknown
    assert large.must_agree == small.must_agree
    assert parse_table(large.text, "rank 0").defaults == native_defaults(2 << 20), "of which rank 0's are the group's"
    assert parse_table(small.text, "rank 0").defaults == native_defaults()
