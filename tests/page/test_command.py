"""``autotune report``: the page of this host, of a given table, with and without its database, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from page.scene import Scene

from autotune.cli.main import main
from autotune.table import save_table, table_path
from autotune.topology.fingerprint import remember_fingerprint


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AUTOTUNE_TABLE", "AUTOTUNE_DB", "AUTOTUNE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AUTOTUNE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main(["report", *words])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert isinstance(end.value.code, int)
    return end.value.code, captured.err


def test_the_report_of_this_host(capsys: pytest.CaptureFixture[str], home: Path, scene: Scene) -> None:
    remember_fingerprint(home / "cache", scene.topology)
    save_table(scene.table, table_path(home / "data", scene.fingerprint, 1))
    assert run(capsys, "--db", str(scene.path)) == (0, "written to report.html\n")
    page = (home / "report.html").read_text("utf-8")
    assert "Every algorithm over message size" in page
    assert "this host&#39;s newest table" in page


def test_the_report_of_a_table_without_its_database(
    capsys: pytest.CaptureFixture[str], home: Path, scene: Scene
) -> None:
    save_table(scene.table, home / "given.json")
    assert run(capsys, "--table", "given.json", "--output", "page.html") == (0, "written to page.html\n")
    page = (home / "page.html").read_text("utf-8")
    assert "so no trials are shown" in page
    assert "Winners by size and ranks" in page
    assert not (home / "data").exists(), "no database was made"


def test_nothing_to_report_is_said(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    code, said = run(capsys)
    assert code == 1
    assert said.startswith("error: there is nothing to report: this host was not probed")
    assert "try: autotune run" in said
    assert not (home / "report.html").exists()


def test_a_page_that_cannot_be_written_is_said(capsys: pytest.CaptureFixture[str], home: Path, scene: Scene) -> None:
    save_table(scene.table, home / "given.json")
    code, said = run(capsys, "--table", "given.json", "--output", "none/page.html")
    assert code == 1
    assert "'none/page.html' cannot be written" in said
