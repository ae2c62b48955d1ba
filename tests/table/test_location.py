"""The newest table is the one with the highest version, whatever else lies in the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import TableFormatError
from autotune.table import newest_table_path, table_path

HOST = "0123456789abcdef"


def test_versions_become_names_that_sort(tmp_path: Path) -> None:
    assert table_path(tmp_path, HOST, 123) == tmp_path / "tables" / HOST / "v000123.json"


def test_the_highest_version_is_the_newest(tmp_path: Path) -> None:
    assert newest_table_path(tmp_path, HOST) is None
    for version in (2, 999_999, 1_000_000, 10):
        path = table_path(tmp_path, HOST, version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        (path.parent / f".{path.name}.77.part").touch()
    for stray in ("v9999999.json.bak", "v99.json", "notes.txt", "xv9999999.json", "v9999999.JSON", "v٣٣٣٣٣٣٣.json"):
        (path.parent / stray).touch()
    assert newest_table_path(tmp_path, HOST) == table_path(tmp_path, HOST, 1_000_000)
    assert newest_table_path(tmp_path, "f" * 16) is None


def test_an_empty_folder_has_no_newest_table(tmp_path: Path) -> None:
    table_path(tmp_path, HOST, 1).parent.mkdir(parents=True)
    assert newest_table_path(tmp_path, HOST) is None


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    table_path(tmp_path, HOST, 1).parent.parent.mkdir()
    table_path(tmp_path, HOST, 1).parent.touch()
    with pytest.raises(TableFormatError, match="cannot be listed"):
        newest_table_path(tmp_path, HOST)


@pytest.mark.parametrize("fingerprint", ["", "..", "../../../../etc", "0123456789ABCDEF", HOST + "/"])
def test_only_a_fingerprint_names_a_folder(tmp_path: Path, fingerprint: str) -> None:
    with pytest.raises(ValueError, match="16 hexadecimal"):
        table_path(tmp_path, fingerprint, 1)
    with pytest.raises(ValueError, match="16 hexadecimal"):
        newest_table_path(tmp_path, fingerprint)


def test_versions_begin_at_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="below 1"):
        table_path(tmp_path, HOST, 0)
