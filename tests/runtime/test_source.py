"""Where the table comes from: argument, AUTOTUNE_TABLE, this host's newest, the shipped default; nothing silently."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from table_strategies import ALL_REDUCE_4, DIRECT, FLAT, kept, sample_table

from autotune.errors import TableFormatError, TopologyMismatch, UsageError
from autotune.runtime import Selection, Selector, reload, select, selector
from autotune.table import TuningTable, newest_table_path, save_table, table_path
from autotune.topology.devices import Host
from autotune.topology.fingerprint import fingerprint, remember_fingerprint
from autotune.topology.graph import Topology

TOPOLOGY = Topology(devices=(Host(id="host0", parent=None, cpu_model="Kunpeng 920"),))
HERE = fingerprint(TOPOLOGY)


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has read no table yet, on a host that was never probed."""
    monkeypatch.setattr(selector, "_selectors", {})
    monkeypatch.delenv("AUTOTUNE_TABLE", raising=False)
    monkeypatch.setenv("AUTOTUNE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "data"


@pytest.fixture
def probed(tmp_path: Path) -> None:
    remember_fingerprint(tmp_path / "cache", TOPOLOGY)


def ask(**changes: object) -> Selection:
    arguments: dict[str, Any] = {"message_bytes": 4096, "n_ranks": 4, **changes}
    return select("all_reduce", **arguments)


def own_table(**changes: object) -> TuningTable:
    fields: dict[str, Any] = {"fingerprint": HERE, "host_fingerprints": (), **changes}
    return replace(sample_table(), **fields)


def save_versions(data_dir: Path, *tables: TuningTable) -> None:
    for version, table in enumerate(tables, start=1):
        save_table(table, table_path(data_dir, HERE, version))


def test_a_host_that_was_never_probed_gets_the_shipped_default() -> None:
    answer = ask()
    assert not answer.tuned
    assert answer.evidence is None
    assert "this host was not probed since it booted: run `autotune probe`" in answer.reason


@pytest.mark.usefixtures("probed")
def test_a_host_without_a_table_gets_the_shipped_default() -> None:
    answer = ask()
    assert not answer.tuned
    assert answer.reason.endswith("this host has no table yet: run `autotune run`")


@pytest.mark.usefixtures("probed")
def test_the_newest_table_of_this_host_is_found(data_dir: Path) -> None:
    older = own_table(rules={ALL_REDUCE_4: (kept(8, 8192),)})
    save_versions(data_dir, *[older] * 9, own_table())
    answer = ask()
    assert (answer.config, answer.tuned) == (DIRECT, True)
    unruled = ask(dtype="int8").reason
    assert f"in this host's newest table ({newest_table_path(data_dir, HERE)})" in unruled


@pytest.mark.usefixtures("probed")
def test_a_host_of_a_cluster_finds_the_clusters_table(data_dir: Path) -> None:
    save_versions(data_dir, own_table(fingerprint="c" * 16, host_fingerprints=("a" * 16, HERE)))
    assert ask().tuned


@pytest.mark.usefixtures("probed")
def test_a_table_of_another_machine_in_this_hosts_folder_is_an_error(data_dir: Path) -> None:
    save_versions(data_dir, own_table(fingerprint="c" * 16))
    with pytest.raises(TopologyMismatch, match="but lies in this host's folder") as caught:
        ask()
    assert "AUTOTUNE_TABLE=" in caught.value.remedy


@pytest.mark.usefixtures("probed")
def test_a_damaged_newest_table_is_an_error_and_no_older_one_is_taken(data_dir: Path) -> None:
    save_versions(data_dir, own_table())
    table_path(data_dir, HERE, 2).write_text("{")
    with pytest.raises(TableFormatError, match=r"v000002\.json"):
        ask()
    table_path(data_dir, HERE, 2).unlink()
    assert ask().tuned  # a failure is not remembered


@pytest.mark.usefixtures("probed")
def test_the_setting_comes_before_the_newest_table(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_versions(data_dir, own_table())
    save_table(own_table(rules={ALL_REDUCE_4: (kept(8, 8192),)}), tmp_path / "set.json")
    monkeypatch.setenv("AUTOTUNE_TABLE", str(tmp_path / "set.json"))
    answer = ask()
    assert (answer.config, answer.tuned) == (FLAT, True)
    assert f"in AUTOTUNE_TABLE ({tmp_path / 'set.json'})" in ask(dtype="int8").reason
    assert "another machine" not in answer.reason


def test_the_argument_comes_before_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_TABLE", str(tmp_path / "none.json"))
    save_table(own_table(), tmp_path / "given.json")
    for table in (tmp_path / "given.json", str(tmp_path / "given.json"), own_table()):
        assert ask(table=table).config == DIRECT


@pytest.mark.usefixtures("probed")
def test_a_set_table_of_another_machine_is_used_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_table(own_table(fingerprint="c" * 16), tmp_path / "set.json")
    monkeypatch.setenv("AUTOTUNE_TABLE", str(tmp_path / "set.json"))
    for answer in (ask(), ask(dtype="int8")):
        assert answer.reason.endswith(f"; the table was measured on another machine ({'c' * 16})")


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ("ftp://head/table.json", UsageError, "AUTOTUNE_TABLE: 'ftp://head/table.json' is no URL of a table"),
        ("http://head:port/", UsageError, "AUTOTUNE_TABLE: 'http://head:port/' is no URL of a table"),
        ("/nowhere/table.json", TableFormatError, "AUTOTUNE_TABLE: /nowhere/table.json: no such file"),
        (".", TableFormatError, "AUTOTUNE_TABLE: .: this is a directory"),
    ],
)
def test_a_setting_that_names_no_table_is_an_error(
    monkeypatch: pytest.MonkeyPatch, value: str, error: type[Exception], words: str
) -> None:
    monkeypatch.setenv("AUTOTUNE_TABLE", value)
    with pytest.raises(error) as caught:
        ask()
    assert words in str(caught.value)


def test_a_url_is_no_argument_since_the_token_is_for_that_of_the_setting() -> None:
    with pytest.raises(UsageError, match=r"http://\.\.\. is a URL and not the path of a file") as caught:
        ask(table="http://head:8080/")
    assert "AUTOTUNE_TABLE" in caught.value.remedy


@pytest.mark.parametrize("table", [5, b"table.json", {"rules": []}])
def test_an_argument_that_is_no_table_is_an_error(table: object) -> None:
    with pytest.raises(UsageError, match="not a table or a path"):
        ask(table=table)


def test_a_file_is_read_once_until_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.json"
    monkeypatch.setenv("AUTOTUNE_TABLE", str(path))
    save_table(own_table(), path)
    assert ask().config == ask(table=path).config == DIRECT
    save_table(own_table(rules={ALL_REDUCE_4: (kept(8, 8192),)}), path)
    assert ask().config == ask(table=path).config == DIRECT
    reload()
    assert ask().config == ask(table=path).config == FLAT


def test_a_reload_that_fails_keeps_the_former_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.json"
    monkeypatch.setenv("AUTOTUNE_TABLE", str(path))
    save_table(own_table(), path)
    assert ask().config == DIRECT
    path.write_text("{")
    with pytest.raises(TableFormatError):
        reload()
    assert ask().config == DIRECT


def test_few_files_are_kept(tmp_path: Path) -> None:
    save_table(own_table(), tmp_path / "0.json")
    ask()
    for number in range(1, 40):
        (tmp_path / f"{number}.json").hardlink_to(tmp_path / "0.json")
        assert ask(table=tmp_path / f"{number}.json").tuned
        assert len(selector._selectors) <= 17
    assert None in selector._selectors


def test_threads_that_come_first_together_answer_from_one_table(data_dir: Path, probed: None) -> None:
    """Else two of them could answer from two versions, if a run ends just then."""
    save_versions(data_dir, own_table())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that all of them are in the middle of reading at once
    try:
        for _ in range(10):
            selector._selectors.clear()
            found = selectors_of_threads()
            assert len(found) == 8
            assert all(each is found[0] for each in found)
            assert found[0].table == own_table()
    finally:
        sys.setswitchinterval(interval)


def selectors_of_threads() -> list[Selector]:
    start = threading.Barrier(8, timeout=60)
    found: list[Selector] = []

    def work() -> None:
        start.wait()
        found.append(selector._selector(None))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return found
