"""A table that cannot be used: the plugins do not intervene, say why in one line, and never harm the process."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from plugins.hosts import IGNORED, UNTOUCHED, Hccl, Nccl, environment, plugin_environment
from table_strategies import sample_table, won

from autotune.errors import TableFormatError
from autotune.table import TuningTable, dump_table, load_table, native_defaults, parse_table, save_table
from autotune.topology.fingerprint import cached_fingerprint, fingerprint, remember_fingerprint
from autotune.topology.host import collect, parse
from autotune.types import Collective, Config, DType, OpClass, RuleKey

WARNING, INFO = 1, 2
SIZE = 100
ENTRIES = [("aicpu", "sole", "nhr", 2.0), ("aicpu", "sole", "mesh", 1.0)]
ALL_REDUCE = RuleKey(
    backend="native",
    collective=Collective.ALL_REDUCE,
    dtype=DType.FLOAT32,
    op_class=OpClass.SUM,
    n_ranks=8,
    placement=(8,),
)


def table(machine: str | None = None) -> TuningTable:
    """HCCL is told nhr, from 8 to 1023 bytes; NCCL ring, from there to 2047."""
    return TuningTable(
        fingerprint=machine,
        environment={"cpu_model": 'a "\N{GREEK SMALL LETTER ALPHA}\\" of 1e3 \N{GRINNING FACE}'},
        created_at="2026-01-31T12:00:00Z",
        test="a test",
        rules={ALL_REDUCE: (won(8, 1024, Config(algorithm="nhr")), won(1024, 2048, Config(algorithm="ring")))},
        defaults=native_defaults(),
    )


def answer(folder: Path, path: Path | None, **more: str) -> tuple[bool, list[tuple[int, str]]]:
    """Whether HCCL's plugin intervenes, and what it said; NCCL's does and says the same."""
    with environment(plugin_environment(path, **more)):
        host = Hccl(folder)
        host.communicator(16, n_ranks=8)
        host.communicator(32, n_ranks=8)
        costs = [host.decide(comm, 2, 4, SIZE, ENTRIES) for comm in (16, 32)]
        assert costs[0] == costs[1]
        with Nccl(folder, 5, n_ranks=8) as nccl, Nccl(folder, 4, n_ranks=8):
            rows = nccl.decide(4, 1500)[0]
            assert (rows != [UNTOUCHED] * 21) == (costs[0] is not None)
            assert set(rows) <= {UNTOUCHED, IGNORED}
            assert [words for _, words in nccl.said] == [words for _, words in host.said]
    return costs[0] is not None, host.said


def refused(folder: Path, path: Path | None, **more: str) -> str:
    intervened, said = answer(folder, path, **more)
    assert not intervened
    [(level, words)] = said
    assert level == WARNING
    assert words.startswith("does not intervene: ")
    return words


def test_a_sound_table_is_used_and_named_with_its_digest(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    save_table(table(), path)
    assert answer(tmp_path, path) == (True, [(INFO, f"table {path}, digest {table().digest}")])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert answer(tmp_path, path)[0]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b" of ", b" \0f ", "control character"),
        (b" of ", b" \xfff ", "not UTF-8"),
        (b"{", b"\xef\xbb\xbf{", "expected '{'"),
        (b'"nhr"', b'"ring"', "the digest is"),
        (b'"schema_version": 1', b'"schema_version": 2', "from 1 to 1"),
        (b'"test": "a', b'"tost": "a', "unknown name: tost"),
        (b'"test": "a', b'"digest": "a', "stands there twice"),
        (b"2.25", b"NaN", "expected a number"),
        (b"2.25", b"1e999", "beyond 64 bits"),
        (b'"to_bytes": 2048', b'"to_bytes": 1' + b"0" * 30, "expected a whole number"),
        (b'"to_bytes": 1024', b'"to_bytes": 1000', "a gap or an overlap"),
        (b'"placement": [8]', b'"placement": [4, 2]', "not a placement"),
        (b'"dtype": "float32"', b'"dtype": null', "exactly where elements are combined"),
        (b'"codec": "none"', b'"codec": "int8"', "lossy"),
        (b'"defaults"', b'"defaults": {}, "defaults"', "missing: backend"),
    ],
)
def test_a_table_with_a_fault_is_refused_in_one_line(old: bytes, new: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    sound = dump_table(table()).encode()
    assert old in sound
    path.write_bytes(sound.replace(old, new, 1))
    with pytest.raises(TableFormatError):
        load_table(path)
    assert why in refused(tmp_path, path)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "No such file"),
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.write_text(""), "line 1, column 1: expected '{', found the end"),
        (lambda path: path.write_text(dump_table(table())[:-40]), "found the end"),
        (lambda path: path.write_text(dump_table(table()) + "{}"), "something follows the end"),
        (lambda path: path.write_text("[" * 1_000_000), "expected '{'"),
    ],
    ids=["missing", "folder", "pipe", "empty", "cut", "longer", "deep"],
)
def test_what_is_no_table_is_refused_in_one_line(make: Callable[[Path], object], why: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    make(path)
    with pytest.raises(TableFormatError):
        load_table(path)
    assert why in refused(tmp_path, path)


def test_no_table_a_url_and_unknown_evidence_are_refused(tmp_path: Path) -> None:
    save_table(table(), tmp_path / "t.json")
    assert "AUTOTUNE_TABLE is not set" in refused(tmp_path, None)
    with environment({"AUTOTUNE_TABLE": "https://192.0.2.1/t.json"}):
        assert "URL" in refused(tmp_path, None, AUTOTUNE_TABLE="https://192.0.2.1/t.json")
    assert "AUTOTUNE_EVIDENCE is 'imported,measurd'" in refused(
        tmp_path, tmp_path / "t.json", AUTOTUNE_EVIDENCE="imported,measurd"
    )


def test_a_hundred_megabytes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with open(path, "wb") as file:
        file.truncate(100 << 20)
    assert "larger than a table can be" in refused(tmp_path, path)


def test_a_table_of_another_machine_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    save_table(table("0123456789abcdef"), path)
    assert "of the machine 0123456789abcdef" in refused(tmp_path, path, AUTOTUNE_FINGERPRINT="fedcba9876543210")
    assert answer(tmp_path, path, AUTOTUNE_FINGERPRINT="0123456789abcdef")[0]
    assert answer(tmp_path, path, AUTOTUNE_FINGERPRINT="any")[0]


def test_the_fingerprint_that_probe_keeps_is_this_hosts(tmp_path: Path) -> None:
    """Without AUTOTUNE_FINGERPRINT: as `select`, by what the last probe has found; unknown is no objection."""
    here = parse(collect())
    own, foreign, cache = tmp_path / "own.json", tmp_path / "foreign.json", tmp_path / "cache"
    save_table(table(fingerprint(here)), own)
    save_table(table("0123456789abcdef"), foreign)
    probed = {"AUTOTUNE_FINGERPRINT": "", "AUTOTUNE_CACHE_DIR": str(cache)}
    assert answer(tmp_path, foreign, **probed)[0]
    remember_fingerprint(cache, here)
    assert cached_fingerprint(cache) == fingerprint(here)
    assert answer(tmp_path, own, **probed)[0]
    assert f"and this is {fingerprint(here)}" in refused(tmp_path, foreign, **probed)
    [file] = cache.iterdir()
    file.write_text(file.read_text()[:-2])  # damaged: as never probed
    assert answer(tmp_path, foreign, **probed)[0]


@pytest.mark.parametrize("seed", range(150))
def test_a_mutated_table_decides_only_where_python_takes_it(seed: int, tmp_path: Path) -> None:
    """Cut, swapped, repeated and flipped bytes. Python is stricter in one thing: figures that contradict each other."""
    rng = random.Random(seed)
    plain = dump_table(table() if seed % 3 else sample_table()).encode()
    mutated = bytearray(plain)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, length = rng.randrange(len(mutated)), rng.choice((1, 1, 2, 8, 200))
        kind = rng.randrange(4)
        if kind == 0:
            mutated[at] = rng.choice(b'"{}[],:0123456789eE.-+\\ntrueflas\x00\x80\xff ')
        elif kind == 1:
            del mutated[at : at + length]
        elif kind == 2:
            mutated[at:at] = mutated[rng.randrange(len(mutated)) :][:length]
        else:
            del mutated[rng.randrange(len(mutated)) :]
        if not mutated:
            break
    path = tmp_path / "t.json"
    path.write_bytes(mutated)
    intervened, said = answer(tmp_path, path)
    assert len(said) == 1
    used = said[0][0] == INFO
    try:
        taken = load_table(path)
    except TableFormatError:
        if used:  # only figures, times and notes may be wrong: the decisions are those that were written
            decisions = json.loads(mutated)
            original = json.loads(plain)
            assert decisions["digest"] == original["digest"]
    else:
        assert used
        assert intervened == (ALL_REDUCE in taken.rules)


def test_the_digest_is_pythons_for_the_hard_cases(tmp_path: Path) -> None:
    """Characters outside ASCII and the BMP, quotes, negative and 64-bit knobs, error budgets, symmetric defaults."""
    knobs = (
        ("a\N{GRINNING FACE}", -(2**63) + 1),
        ('q"\\/', "\N{EURO SIGN}\N{GREEK SMALL LETTER ALPHA}"),
        ("z", 2**63 - 1),
    )
    hard = sample_table()
    rules = dict(hard.rules)
    rules[ALL_REDUCE] = (won(8, 1024, Config(algorithm="nhr", segment_bytes=1 << 46, knobs=tuple(sorted(knobs)))),)
    made = TuningTable(
        fingerprint=None,
        environment={},
        created_at="2026-01-31T12:00:00Z",
        test="a test",
        rules=rules,
        defaults=hard.defaults,
    )
    path = tmp_path / "t.json"
    save_table(made, path)
    with environment(plugin_environment(path)):
        host = Hccl(tmp_path)
        host.communicator(16, n_ranks=8)
        assert host.said == [(INFO, f"table {path}, digest {made.digest}")]
    assert parse_table(path.read_text(), "t").digest == made.digest
