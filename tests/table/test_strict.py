"""Every field of the file is checked; each complaint names the file, the place, what was found and what is allowed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from table_strategies import sample_table

from autotune.errors import TableFormatError
from autotune.table import TuningTable, document, dump_table, parse_table

Place = tuple[str | int, ...]
SIZE: Place = ("rules", 0, "sizes", 0)
CONFIG: Place = (*SIZE, "config")
ROW: Place = ("defaults", "rows", 0)
DELETED = object()


def planted(place: Place, value: object) -> str:
    """The sample's text with one value replaced, added or deleted."""
    root: dict[str, Any] = json.loads(json.dumps(document(sample_table())))
    inside: Any = root
    for step in place[:-1]:
        inside = inside[step]
    if value is DELETED:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return json.dumps(root)


def complaint(text: str) -> TableFormatError:
    with pytest.raises(TableFormatError) as caught:
        parse_table(text, "t.json")
    assert caught.value.message.startswith("t.json")
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        # wrong types
        ((), [], "$: found an array; allowed: an object"),
        (("rules",), {}, "$.rules: found an object; allowed: an array"),
        (("rules", 0), None, "$.rules[0]: found null; allowed: an object"),
        ((*SIZE, "from_bytes"), "8", "$.rules[0].sizes[0].from_bytes: found '8'; allowed: a whole number"),
        ((*SIZE, "from_bytes"), 8.0, "found 8.0; allowed: a whole number"),
        ((*SIZE, "from_bytes"), True, "found true; allowed: a whole number"),
        ((*SIZE, "from_bytes"), -1, "found -1; allowed: a whole number from 0"),
        ((*SIZE, "to_bytes"), 1 << 62, "found 4611686018427387904; allowed"),
        ((*SIZE, "median_us"), "2.5", "median_us: found '2.5'; allowed: a finite number"),
        ((*SIZE, "median_us"), True, "median_us: found true; allowed: a finite number"),
        ((*SIZE, "median_us"), None, "median_us: found null; allowed: a finite number"),
        ((*SIZE, "is_default"), 1, "is_default: found 1; allowed: true or false"),
        ((*SIZE, "is_default"), "true", "is_default: found 'true'; allowed: true or false"),
        ((*SIZE, "trial_ids"), 12, "trial_ids: found 12; allowed: an array"),
        ((*SIZE, "trial_ids"), ["12"], "trial_ids[0]: found '12'"),
        ((*CONFIG, "algorithm"), 5, "algorithm: found 5; allowed: text"),
        ((*CONFIG, "segment_bytes"), 0, "segment_bytes: found 0; allowed: a whole number from 1"),
        ((*CONFIG, "knobs"), [], "knobs: found an array; allowed: an object"),
        ((*CONFIG, "knobs"), {"slices": 1.5}, "knobs.slices: found 1.5; allowed: a whole number"),
        ((*CONFIG, "knobs"), {"two words": None}, "knobs.'two words': found null"),
        (("environment",), {"python": 3}, "$.environment.python: found 3; allowed: text"),
        (
            ("host_fingerprints",),
            "12e4567890123456",
            "$.host_fingerprints: found '12e4567890123456'; allowed: an array",
        ),
        (("digest",), 1, "$.digest: found 1; allowed: text"),
        (("test",), "two\nlines", "$.test: 'two\\nlines' holds a control character"),
        (("test",), "\ud800", "$.test: '\\ud800' holds a control character"),
        # wrong words
        (
            ("rules", 0, "collective"),
            "allreduce",
            "found 'allreduce' (did you mean 'all_reduce'?); allowed: all_reduce,",
        ),
        (("rules", 0, "collective"), ["all_reduce"], "found an array; allowed: all_reduce,"),
        (("rules", 0, "dtype"), "fp32", "found 'fp32' (did you mean 'float32'?)"),
        (("rules", 0, "op_class"), "avg", "found 'avg'"),
        (("rules", 0, "memory"), "shared", "found 'shared'"),
        ((*SIZE, "evidence"), "guessed", "found 'guessed'"),
        # names
        (("rulez",), [], "unknown name 'rulez' (did you mean 'rules'?); allowed: schema_version, digest,"),
        ((*SIZE, "comment"), "", "$.rules[0].sizes[0]: unknown name 'comment'"),
        ((*CONFIG, "codecs"), "", "unknown name 'codecs' (did you mean 'codec'?)"),
        ((*ROW, "ranks"), 2, "$.defaults.rows[0]: unknown name 'ranks'"),
        (("x" * 500,), 1, "... (502 characters)"),
        (("rules",), DELETED, "'rules' is missing"),
        ((*SIZE, "gain"), DELETED, "$.rules[0].sizes[0]: 'gain' is missing"),
        (("schema_version",), DELETED, "this is no tuning table"),
        (("digest",), DELETED, "'digest' is missing"),
        # contradictions
        ((*SIZE, "to_bytes"), 100, "$.rules[0].sizes[0]: sizes [8, 100"),
        ((*SIZE, "gain"), 9.0, "$.rules[0].sizes[0]: "),
        (("rules", 0, "sizes"), [], "without rules"),
        (("rules", 0, "n_ranks"), 5, "$.rules[0]: placement (4,)"),
        (("rules", 0, "n_ranks"), 0, "n_ranks: found 0"),
        (("rules", 0, "dtype"), None, "$.rules[0]: all_reduce: dtype and op_class"),
        (("rules", 0, "max_error"), 0.0, "$.rules[0]: max_error 0.0"),
        (("rules", 0, "backend"), "hccl", "$: all_reduce float32 sum, 4 ranks (hccl)"),
        (("fingerprint",), "../../x", "$: fingerprint '../../x'"),
        (("created_at",), "yesterday", "$: created_at 'yesterday'"),
        ((*ROW, "ranks_from"), 2, "$.defaults: the defaults of all_gather"),
        ((*ROW, "ranks_to"), 1, "ranks_to: found 1"),
        ((*ROW, "memory"), "symmetrical", "memory: found 'symmetrical' (did you mean 'symmetric'?); allowed: private,"),
        ((*ROW, "memory"), None, "memory: found null; allowed: private, symmetric"),
        ((*ROW, "memori"), "private", "$.defaults.rows[0]: unknown name 'memori' (did you mean 'memory'?)"),
        ((*ROW, "memory"), "symmetric", "$.defaults: the defaults of all_gather"),
        (("defaults", "rows"), [], "$.defaults: the defaults of all_reduce do not answer"),
    ],
)
def test_a_planted_fault_is_named_with_its_place(place: Place, value: object, words: str) -> None:
    text = "[]" if not place else planted(place, value)
    if words.startswith("$.rules[0].sizes[0]: sizes [8"):
        words = "$.rules[0].sizes[0]: sizes ["
        text = planted(place, 7)
    assert words in complaint(text).message


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("NaN", "found nan; allowed: a finite number"),
        ("Infinity", "found inf; allowed: a finite number"),
        ("-Infinity", "found -inf; allowed: a finite number"),
        ("1e999", "found inf; allowed: a finite number"),
        ("9" * 5000, "found the number 999999999999... of 5000 digits; allowed: a finite number"),
    ],
)
def test_numbers_that_json_reads_but_no_time_has_are_refused(number: str, words: str) -> None:
    text = dump_table(sample_table()).replace('"median_us": 2.5', f'"median_us": {number}', 1)
    assert words in complaint(text).message


def test_a_repeated_name_is_refused_wherever_it_stands() -> None:
    good = dump_table(sample_table())
    for name in re.findall(r'"(\w+)": ', good):
        text = re.sub(rf'("{name}": )', rf'"{name}": null, \1', good, count=1)
        assert f"the name '{name}' stands there twice" in complaint(text).message


def test_rules_for_one_key_stand_together() -> None:
    root = document(sample_table())
    root["rules"] = [*root["rules"], root["rules"][0]]
    assert (
        "$.rules[3]: the rules for all_reduce float32 sum, 4 ranks (native) stand there twice"
        in complaint(json.dumps(root)).message
    )


@pytest.mark.parametrize(
    ("version", "remedy"), [(2, "pip install --upgrade"), (999, "pip install --upgrade"), (0, "autotune run")]
)
def test_another_schema_version_is_named_before_anything_else(version: int, remedy: str) -> None:
    """Fields of another version may have any form, so nothing else is looked at."""
    error = complaint(json.dumps({"schema_version": version, "rules": {"new": "form"}}))
    assert f"found schema version {version}; this autotune reads 1" in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize("version", ['"1"', "1.0", "true", "null"])
def test_a_version_that_is_no_whole_number_is_refused(version: str) -> None:
    assert "$.schema_version: found" in complaint(f'{{"schema_version": {version}}}').message


def test_decisions_edited_by_hand_are_refused_by_the_digest() -> None:
    good = dump_table(sample_table())
    for old, new in (
        ('"algorithm": "direct"', '"algorithm": "ring"'),
        ('"segment_bytes": 262144', '"segment_bytes": 131072'),
        ('"slices": 4', '"slices": 5'),
        ('"n_ranks": 3, "placement": [1, 2]', '"n_ranks": 4, "placement": [1, 3]'),
        ('"max_error": 0.01', '"max_error": 0.02'),
        ('"evidence": "simulated"', '"evidence": "imported"'),
    ):
        assert old in good
        error = complaint(good.replace(old, new, 1))
        assert "changed after the table was written" in error.message
        assert "autotune run" in error.remedy


def test_figures_may_be_annotated_by_hand() -> None:
    """The digest is over the decisions: the rest is information for people."""
    good = dump_table(sample_table())
    edited = parse_table(good.replace("3.11.7", "3.11.8"), "t.json")
    assert isinstance(edited, TuningTable)
    assert edited.environment["python"] == "3.11.8"
