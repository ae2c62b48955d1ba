"""probe, doctor, settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.session import Here, Shell

from autotune.doctor import diagnose
from autotune.settings import SETTINGS
from autotune.topology.document import from_json
from autotune.topology.fingerprint import cached_fingerprint, fingerprint


def test_probe_prints_the_tree_and_remembers_the_fingerprint(shell: Shell) -> None:
    found = shell("probe")
    assert found.code == 0
    assert found.out.startswith("host: ")
    remembered = cached_fingerprint(shell.home / "cache")
    assert found.out.splitlines()[-1] == f"fingerprint {remembered}"
    assert found.err.startswith("reading the host\n")


def test_probe_json_is_a_topology_with_its_fingerprint(shell: Shell) -> None:
    import json

    document = shell("probe", "--json").document
    assert list(document) == ["fingerprint", "topology"]
    assert fingerprint(from_json(json.dumps(document["topology"]))) == document["fingerprint"]


def test_doctor_shows_every_finding(here: Here) -> None:
    findings = here("doctor", "--json").document["findings"]
    assert [finding["subject"] for finding in findings] == [finding.subject for finding in diagnose()]
    assert all(finding.keys() == {"severity", "subject", "message", "remedy"} for finding in findings)
    assert all((finding["remedy"] is None) == (finding["severity"] == "ok") for finding in findings)


def test_doctor_fails_where_a_run_would(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOTUNE_DATA_DIR", str(tmp_path / "file"))
    found = here("doctor")
    assert found.code == 1
    assert f"error    data folder: trials and tables cannot be kept in {tmp_path}/file" in found.out
    assert "try: set AUTOTUNE_DATA_DIR" in found.out


def test_doctor_is_told_how_many_ranks_will_run(here: Here) -> None:
    findings = here("doctor", "--json", "--ranks", "1000").document["findings"]
    ranks = next(finding for finding in findings if finding["subject"] == "ranks")
    assert (ranks["severity"], "1000 ranks" in ranks["message"]) == ("warning", True)


def test_settings_shows_every_variable_with_the_value_in_force(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_STAGING", "131072")
    monkeypatch.setenv("AUTOTUNE_SYMMETRIC", "1048576")
    monkeypatch.setenv("AUTOTUNE_CHECK", "1")
    monkeypatch.delenv("RANK", raising=False)
    listed = here("settings", "--json").document["settings"]
    assert [setting["name"] for setting in listed] == [setting.name for setting in SETTINGS]
    values = {setting["name"]: setting["value"] for setting in listed}
    assert (values["AUTOTUNE_STAGING"], values["AUTOTUNE_CHECK"], values["RANK"]) == ("128KiB", "1", None)
    assert values["AUTOTUNE_SYMMETRIC"] == "1MiB"
    text = here("settings").out
    assert all(setting.name in text and setting.summary in text for setting in SETTINGS)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql+psycopg://me:s3cret@host/db?password=s3cret", "postgresql+psycopg://me:***@host/db"),
        ("postgresql://me:s3/cr@et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db", "postgresql://host/db"),
    ],
)
def test_a_password_is_not_shown(here: Here, monkeypatch: pytest.MonkeyPatch, url: str, shown: str) -> None:
    monkeypatch.setenv("AUTOTUNE_DB", url)
    for words in (["settings"], ["settings", "--json"], ["run", "--dry-run"], ["run", "--dry-run", "--db", url]):
        found = here(*words).out
        assert shown in found
        assert "s3" not in found


@pytest.mark.parametrize(("ranks", "default"), [("2+2", "hierarchical/256KiB"), ("4", "direct/256KiB")])
def test_explain_names_the_default_of_the_hosts_that_are_asked_for(here: Here, ranks: str, default: str) -> None:
    found = here("explain", "all_reduce", "1MiB", "--ranks", ranks)
    assert found.code == 0
    assert f"default {default}: " in found.out
