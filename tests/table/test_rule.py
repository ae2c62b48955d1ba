"""A rule and a table refuse what contradicts itself; one planted fault for each guard."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_strategies import ALL_REDUCE_4, INT8, defaults, kept, sample_table, won

from autotune.table import Rule
from autotune.types import Config, Evidence
from autotune.units import MAX_BYTES


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"from_bytes": -1}, "no range"),
        ({"to_bytes": 1024}, "no range"),
        ({"to_bytes": 1023}, "no range"),
        ({"to_bytes": MAX_BYTES + 2}, "no range"),
        ({"n_rounds": 0}, "n_rounds 0"),
        ({"low_us": 0.0}, "median_us"),
        ({"low_us": 2.6}, "median_us"),
        ({"high_us": 2.4}, "median_us"),
        ({"median_us": float("nan")}, "median_us"),
        ({"high_us": float("inf")}, "median_us"),
        ({"gain_low": None}, "together"),
        ({"gain": 1.2}, "gain 1.2 with the interval"),
        ({"gain_high": float("inf")}, "gain"),
        ({"ring_gain": 0.0}, "ring_gain"),
        ({"ring_gain": float("nan")}, "ring_gain"),
        ({"is_default": True}, "no gain over it"),
        ({"gain": None, "gain_low": None, "gain_high": None}, "states its gain"),
        ({"trial_ids": ()}, "names the trials"),
        ({"trial_ids": (12, 12)}, "distinct"),
        ({"trial_ids": (-1,)}, "distinct"),
        ({"config": Config(algorithm="a\nb")}, "control character"),
        ({"config": Config(algorithm="flat", codec="\udc80")}, "control character"),
        ({"config": Config(algorithm="flat", knobs=(("\x7f", 1),))}, "control character"),
        ({"config": Config(algorithm="flat", knobs=(("store", "\0"),))}, "control character"),
        ({"config": Config(algorithm="flat", knobs=(("store", True),))}, "neither a word"),
        ({"config": Config(algorithm="flat", knobs=(("store", 1 << 63),))}, "64 bits"),
    ],
)
def test_a_rule_refuses_what_contradicts_itself(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(won(1024, 65536), **changes)


def test_simulated_and_imported_rules_need_neither_trials_nor_gain() -> None:
    for evidence in (Evidence.SIMULATED, Evidence.IMPORTED):
        rule = replace(kept(8, 16), evidence=evidence, is_default=False, trial_ids=())
        assert rule.gain is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((), "without rules"),
        ((kept(8, 1024), won(1025, 4096)), "gap between sizes"),
        ((kept(8, 1024), won(1023, 4096)), "overlap between sizes"),
        ((won(1024, 4096), kept(8, 1024)), "overlap between sizes"),
        ((won(8, 1024, INT8),), "error budget"),
    ],
)
def test_a_table_refuses_rules_that_do_not_adjoin_or_lose_silently(rules: tuple[Rule, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        replace(sample_table(), rules={ALL_REDUCE_4: rules})
    assert str(ALL_REDUCE_4) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": 2}, "schema version 2"),
        ({"fingerprint": "0123"}, "16 hexadecimal"),
        ({"fingerprint": "0123456789ABCDEF"}, "16 hexadecimal"),
        ({"fingerprint": "0123456789abcdef\n"}, "16 hexadecimal"),
        ({"host_fingerprints": ("../../../../etc/",)}, "16 hexadecimal"),
        ({"created_at": "2026-01-31 12:00:00Z"}, "UTC"),
        ({"created_at": "2026-01-31T12:00:00+00:00"}, "UTC"),
        ({"created_at": "2026-02-30T12:00:00Z"}, "day"),
        ({"test": "two\nlines"}, "control character"),
        ({"environment": {"kernel": "6.1\0"}}, "control character"),
        ({"environment": {"\x1b[2J": ""}}, "control character"),
        ({"defaults": defaults("na\ttive")}, "control character"),
        ({"defaults": defaults("openmpi")}, "backend 'openmpi'"),
    ],
)
def test_a_table_refuses_what_no_run_can_have_written(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(sample_table(), **changes)


def test_a_table_is_read_only_even_through_what_it_was_made_of() -> None:
    rules, environment = {ALL_REDUCE_4: (kept(8, 16),)}, {"python": "3.11"}
    table = replace(sample_table(), rules=rules, environment=environment)
    digest = table.digest
    rules.clear()
    environment.clear()
    assert table.digest == digest
    assert table.environment == {"python": "3.11"}
    with pytest.raises(TypeError):
        table.rules[ALL_REDUCE_4] = ()  # type: ignore[index]  # the planted fault
    with pytest.raises(FrozenInstanceError):
        table.test = ""  # type: ignore[misc]  # the planted fault


@given(ends=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=3))
def test_ranges_are_accepted_exactly_if_they_count_up_without_gap_or_overlap(ends: list[tuple[int, int]]) -> None:
    ranges = [range(low, low + length) for low, length in ends]
    covered = [size for each in ranges for size in each]
    rules = {ALL_REDUCE_4: tuple(kept(each.start, each.stop) for each in ranges)}
    if covered == list(range(covered[0], covered[-1] + 1)):
        assert replace(sample_table(), rules=rules).rules == rules
    else:
        with pytest.raises(ValueError, match="between sizes"):
            replace(sample_table(), rules=rules)


def test_a_table_serves_its_machine_and_the_hosts_of_its_cluster() -> None:
    table = replace(sample_table(), fingerprint="a" * 16, host_fingerprints=("d" * 16, "b" * 16, "d" * 16))
    assert table.host_fingerprints == ("b" * 16, "d" * 16)
    assert table.serves("a" * 16)
    assert table.serves("b" * 16)
    assert not table.serves("c" * 16)
