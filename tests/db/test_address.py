from __future__ import annotations

import importlib.util
import os
from contextlib import closing
from pathlib import Path

import pytest

from autotune.db import open_store
from autotune.errors import AutotuneError, BackendUnavailable, StoreError


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}", "sqlite+pysqlite:///{}"])
def test_a_path_and_its_urls_name_the_same_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a b.sqlite"
    with closing(open_store(form.format(path))) as store:
        assert store.shown == str(path)
    assert path.is_file()


def test_a_relative_path_and_the_home_are_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    open_store("here.sqlite").close()
    open_store("sqlite:///there.sqlite").close()
    open_store("~/home.sqlite").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.sqlite", "home.sqlite", "there.sqlite"]


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_memory_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    open_store(url).close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "trials\0.sqlite",
        "://",
        "mysql://me:geheim@host/db",
        "postgres://me:geheim@host/db",
        "postgresql+asyncpg://me:geheim@host/db",
        "postgresql://me:geheim@host:port/db",
        "sqlite://host/geheim.sqlite",
        "sqlite:///trials.sqlite?mode=ro&password=geheim",
    ],
)
def test_what_is_no_path_and_no_known_url_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(text)
    assert "sqlite:///PATH" in caught.value.remedy
    assert "geheim" not in caught.value.message + caught.value.remedy


@pytest.mark.skipif(importlib.util.find_spec("psycopg") is not None, reason="needs an environment without psycopg")
def test_postgresql_without_its_driver_says_what_to_install() -> None:
    with pytest.raises(BackendUnavailable) as caught:
        open_store("postgresql://me:geheim@127.0.0.1/db")
    assert "psycopg" in caught.value.remedy


@pytest.mark.skipif(importlib.util.find_spec("psycopg") is None, reason="needs psycopg")
def test_a_server_that_is_not_there_is_an_error_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(AutotuneError) as caught:
        open_store(f"postgresql://me:geheim@/db?host={tmp_path}&connect_timeout=5")
    assert "postgresql+psycopg://me:***@/db refuses" in caught.value.message
    assert "geheim" not in caught.value.message + caught.value.remedy
