from __future__ import annotations

from report.made import lines
from table_strategies import sample_table

from autotune.report.table_view import table_view
from autotune.table import native_defaults, shipped_table


def test_every_rule_is_shown_with_its_figures() -> None:
    found = lines(table_view(sample_table(), "the table here.json"), 120)
    text = "\n".join(found)
    for key, rules in sample_table().rules.items():
        assert str(key) in found
        for rule in rules:
            assert str(rule.config) in text
    assert "1KiB to 65535B  direct/256KiB/outbox_store=dual/slices=4  2.5  [2.25, 3]  1.31x  [1.25, 1.38]  1.50x" in [
        " ".join(line.split(" ")) for line in found
    ]
    kept = next(line for line in found if line.startswith("8B to 1023B"))
    assert kept.split()[-2:] == ["=", "-"]


def test_origin_machine_test_and_digest_are_named() -> None:
    table = sample_table()
    text = "\n".join(lines(table_view(table, "the table here.json"), 200))
    for word in ("the table here.json", str(table.fingerprint), table.created_at, table.test, table.digest):
        assert word in text


def test_a_table_without_rules_shows_its_defaults() -> None:
    found = lines(table_view(shipped_table(), "the shipped default rules"), 120)
    assert "default rules (native)" in found
    heading = found.index("default rules (native)")
    assert len(found) - heading - 2 == len(native_defaults().rows)
