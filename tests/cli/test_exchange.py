"""Export and import as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.session import Here, Shell
from exchange import logs
from exchange.library_tables import native_table
from exchange.selection_tree import BASE

from autotune.exchange import EXPORTERS
from autotune.table import dump_table

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
FIGURES, MACHINE = str(EXAMPLES / "eight_npus.csv"), str(EXAMPLES / "eight_npus.json")


def test_the_articles_become_a_table_that_select_uses_when_asked(shell: Shell, tmp_path: Path) -> None:
    done = shell("import", FIGURES, "--topology", MACHINE, "--backend", "hccl", "--table", "imported.json")
    assert done.code == 0, done.err
    assert "tree" in done.out
    assert "9 figures stored as session 1" in done.err
    assert "warning: " in done.err
    assert "1,400 GB/s of bus bandwidth, above the 392 GB/s" in done.err
    again = shell("import", FIGURES, "--topology", MACHINE, "--backend", "hccl", "--json")
    assert again.document["repeated"] is True
    env = shell("export", "--format", "hccl-env", "--table", "imported.json", "--evidence", "imported")
    assert env.out == "export HCCL_ALGO='allgather=level0:NA;level1:ring/allreduce=level0:NA;level1:ring'\n"
    assert "loses 16.7 % against the free choice" in env.err
    assert shell.tables == [], "an import never stands where select() finds it by itself"


def test_weights_change_what_is_lost(here: Here, tmp_path: Path) -> None:
    table = str(tmp_path / "imported.json")
    assert here("import", FIGURES, "--topology", MACHINE, "--backend", "hccl", "--table", table).code == 0
    words = ("export", "--format", "hccl-env", "--table", table, "--evidence", "imported", "--weights")
    assert "loses 50.0 %" in here(*words, "1000000=1").err
    here(*words, "1000000").assert_refused("is not SIZE=NUMBER", code=2)
    here(*words, "8=1").assert_refused("no weight is of a size", code=2)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "native.json"
    path.write_text(dump_table(native_table()))
    return str(path)


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_table_goes_into_every_format(here: Here, table: str, tmp_path: Path, name: str) -> None:
    path, base = tmp_path / "out", tmp_path / "generic.json"
    base.write_text(BASE)
    words = ("--channels", "8", "--protocol", "simple", "--base", str(base), "--output", str(path))
    done = here("export", "--format", name, "--table", table, *words)
    assert (done.code, done.out) == (0, ""), done.err
    assert path.read_text() == here("export", "--format", name, "--table", table, *words[:-2]).out
    for loss in EXPORTERS[name].loses:
        assert f"{name} cannot express {loss}" in done.err


def test_mpich_gets_two_files_and_the_lines_that_name_both(here: Here, table: str, tmp_path: Path) -> None:
    (tmp_path / "libmpi.so.12").write_bytes(b"\x7fELF\0" + BASE.encode() + b"\0")
    script = tmp_path / "libmpi.so"
    script.write_text("INPUT(libmpi.so.12)\n")  # what pip installs
    path = tmp_path / "tree.json"
    done = here("export", "--format", "mpich", "--table", table, "--base", str(script), "--output", str(path))
    assert done.code == 0, done.err
    for file in (path, tmp_path / "tree.device.json"):
        assert f"={file}" in done.err
        assert "collective=allreduce" in file.read_text()


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [("INPUT(libmpi.so.13)", 2, "libmpi.so.13' cannot be read"), ("no library", 1, "holds no selection tree")],
)
def test_a_base_without_a_tree_is_refused(
    here: Here, table: str, tmp_path: Path, script: str, code: int, says: str
) -> None:
    base = tmp_path / "libmpi.so"
    base.write_text(script)
    here("export", "--format", "mpich", "--table", table, "--base", str(base)).assert_refused(says, code=code)


def test_a_host_without_a_table_has_nothing_to_export(here: Here) -> None:
    here("export", "--format", "openmpi").assert_refused("there is no table to export")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--format", "ncl-tuner"), 2, "unknown format"),
        (("--format", "mpich"), 1, "--base"),
        (("--format", "mpich", "--base", "/nowhere"), 2, "cannot be read"),
        (("--format", "nccl-tuner", "--channels", "0"), 2, "--channels 0 is not from 1 to 64"),
        (("--format", "nccl-tuner", "--protocol", "LL"), 2, "unknown protocol"),
        (("--format", "hccl-env", "--soc", "A5"), 2, "unknown SoC"),
        (("--format", "openmpi", "--evidence", "guessed"), 2, "evidence 'guessed' is unknown"),
        (("--format", "openmpi", "--evidence", "imported"), 1, "--evidence measured"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    here: Here, table: str, words: tuple[str, ...], code: int, says: str
) -> None:
    here("export", "--table", table, *words).assert_refused(says, code=code)


@pytest.mark.parametrize(
    ("text", "words", "code", "says"),
    [
        (logs.NCCL, ("--ranks", "4"), 2, "--ranks is 4, but the log is of 2"),
        (logs.NCCL.replace("150.00", "-1"), (), 1, "log.txt, line 13, column 56"),
        ("nothing\n", (), 2, "looks like none of the formats"),
        ("\n", (), 2, "log.txt: is empty"),
        (logs.OSU, ("--ranks", "4"), 2, "--backend"),
        (logs.NCCL, ("--set", "NCCL_PROTO"), 2, "is not NAME=VALUE"),
        (logs.NCCL, ("--format", "nccl"), 2, "nccl-tests"),
        (logs.NCCL, ("--dtype", "float31"), 2, "unknown dtype"),
    ],
)
def test_an_import_that_cannot_be_is_refused_and_stores_nothing(
    here: Here, tmp_path: Path, text: str, words: tuple[str, ...], code: int, says: str
) -> None:
    log = tmp_path / "log.txt"
    log.write_text(text)
    here("import", str(log), "--topology", MACHINE, *words).assert_refused(says, code=code)
    assert not (tmp_path / "data" / "trials.sqlite").exists()


@pytest.mark.parametrize(("raw", "says"), [(b"\xff\xfe\x00", "is not UTF-8"), (None, "cannot be read")])
def test_a_file_that_is_no_text_is_refused(here: Here, tmp_path: Path, raw: bytes | None, says: str) -> None:
    log = tmp_path / "log.txt"
    if raw is not None:
        log.write_bytes(raw)
    here("import", str(log), "--topology", MACHINE).assert_refused(says, code=2)


def test_settings_of_a_log_are_kept_as_its_config(here: Here, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(logs.HCCL_TEST)
    words = ("import", str(log), "--topology", MACHINE, "--collective", "all_reduce", "--algorithm", "NHR")
    found = here(*words, "--set", "HCCL_BUFFSIZE=400", "--json")
    rule = found.document["table"]["rules"][0]["sizes"][0]
    assert rule["config"]["knobs"] == {"HCCL_BUFFSIZE": 400}
    assert json.loads(found.out)["figures"] == 3
