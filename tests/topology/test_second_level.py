"""The size of second-level caches, from files as Linux has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.topology.second_level import second_level_bytes

CACHES = "sys/devices/system/cpu/cpu0/cache"


def a_host(root: Path, *caches: tuple[str, str]) -> str:
    """Caches of the first CPU, as (level, size), in the order of their numbers."""
    for number, (level, size) in enumerate(caches):
        folder = root / CACHES / f"index{number}"
        folder.mkdir(parents=True)
        (folder / "level").write_text(f"{level}\n")
        (folder / "size").write_text(f"{size}\n")
    return str(root)


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        ([("1", "48K"), ("1", "64K"), ("2", "2048K"), ("3", "480M")], 2 << 20),
        ([("1", "32K"), ("1", "32K"), ("2", "1M")], 1 << 20),
        ([("1", "32K"), ("3", "4M")], None),
        ([("1", "32K"), ("2", "large")], None),
        ([("2", "")], None),
        ([], None),
    ],
)
def test_the_first_cpu_says_it(tmp_path: Path, caches: list[tuple[str, str]], expected: int | None) -> None:
    assert second_level_bytes(a_host(tmp_path, *caches)) == expected
