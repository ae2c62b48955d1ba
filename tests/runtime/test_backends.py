"""Each backend has tables of its own: files, defaults, and what a process answers from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from table_strategies import key_of, sample_table

from autotune.errors import UsageError
from autotune.runtime import select, selector
from autotune.table import LIBRARY, newest_table_path, save_table, shipped_table, table_path
from autotune.topology.devices import Host
from autotune.topology.fingerprint import fingerprint, remember_fingerprint
from autotune.topology.graph import Topology
from autotune.types import Collective

TOPOLOGY = Topology(devices=(Host(id="host0", parent=None, cpu_model="Kunpeng 920"),))
HERE = fingerprint(TOPOLOGY)


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has read no table yet, on a host that was probed."""
    monkeypatch.setattr(selector, "_selectors", {})
    monkeypatch.delenv("AUTOTUNE_TABLE", raising=False)
    monkeypatch.setenv("AUTOTUNE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    remember_fingerprint(tmp_path / "cache", TOPOLOGY)
    return tmp_path / "data"


def test_files_of_backends_lie_beside_each_other(tmp_path: Path) -> None:
    assert table_path(tmp_path, HERE, 7, "torch").name == "torch-v000007.json"
    for version, backend in ((1, "native"), (2, "torch"), (3, "native"), (4, "other")):
        path = table_path(tmp_path, HERE, version, backend)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert newest_table_path(tmp_path, HERE) == table_path(tmp_path, HERE, 3)
    assert newest_table_path(tmp_path, HERE, "torch") == table_path(tmp_path, HERE, 2, "torch")
    assert newest_table_path(tmp_path, HERE, "hccl") is None


@pytest.mark.parametrize("backend", ["../up", "Torch", "", "a-b"])
def test_a_backend_is_no_path(tmp_path: Path, backend: str) -> None:
    with pytest.raises(ValueError, match="is not a word of small letters"):
        table_path(tmp_path, HERE, 1, backend)


@pytest.mark.parametrize("collective", Collective)
def test_the_default_of_torch_is_the_library(collective: Collective) -> None:
    rules = shipped_table("torch").defaults
    keys = [key_of(collective, *placement) for placement in ((1,), (2, 2), (1000,))]
    assert {rules.lookup(key, size) for key in keys for size in (0, 1 << 40)} == {LIBRARY}


def test_a_process_answers_for_each_backend_from_its_own_table(data_dir: Path) -> None:
    save_table(replace(sample_table(), fingerprint=HERE, host_fingerprints=()), table_path(data_dir, HERE, 1))
    assert select("all_reduce", message_bytes=4096, n_ranks=4).tuned
    answer = select("all_reduce", message_bytes=4096, n_ranks=4, backend="torch")
    assert (answer.config, answer.tuned) == (LIBRARY, False)
    assert answer.reason.endswith("this host has no table of torch yet: run `autotune run --backend torch`")
    assert select("all_reduce", message_bytes=4096, n_ranks=4).tuned


def test_a_backend_without_table_or_default_is_an_error(data_dir: Path) -> None:
    with pytest.raises(UsageError, match="backend 'nccl' has no default rules; the backends are native, torch"):
        select("all_reduce", message_bytes=4096, n_ranks=4, backend="nccl")


def test_a_set_table_is_of_one_backend(data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_table(sample_table(), tmp_path / "set.json")
    monkeypatch.setenv("AUTOTUNE_TABLE", str(tmp_path / "set.json"))
    with pytest.raises(UsageError, match="backend 'torch' has no rules in AUTOTUNE_TABLE"):
        select("all_reduce", message_bytes=4096, n_ranks=4, backend="torch")
