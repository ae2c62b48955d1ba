"""The digest changes exactly when a decision does, and its written form stays what docs/table.md says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_strategies import ALL_REDUCE_4, DIRECT, FLAT, defaults, kept, sample_table, tables, won

from autotune.table import DefaultRules, Rule, TuningTable, dump_table
from autotune.types import Config, Evidence, Memory, RuleKey, Spread

Decisions = tuple[object, ...]


def decisions(table: TuningTable) -> Decisions:
    """What a table decides, by another way than the digest's."""
    return (
        {
            key: [(rule.from_bytes, rule.to_bytes, rule.config, rule.evidence, rule.is_default) for rule in rules]
            for key, rules in table.rules.items()
        },
        table.defaults,
    )


@given(table=tables(), other=tables())
def test_equal_digests_mean_equal_decisions(table: TuningTable, other: TuningTable) -> None:
    assert (table.digest == other.digest) == (decisions(table) == decisions(other))
    # The same decisions under all of the other's circumstances.
    moved = replace(other, rules=table.rules, defaults=table.defaults)
    assert moved.digest == table.digest


@given(table=tables(), data=st.data())
def test_order_does_not_matter(table: TuningTable, data: st.DataObject) -> None:
    items = data.draw(st.permutations(list(table.rules.items())))
    shuffled = replace(table, rules=dict(items))
    assert shuffled == table
    assert shuffled.digest == table.digest
    assert dump_table(shuffled) == dump_table(table)


def with_rule(change: Callable[[Rule], Rule]) -> TuningTable:
    table = sample_table()
    first, *rest = table.rules[ALL_REDUCE_4]
    return replace(table, rules={**table.rules, ALL_REDUCE_4: (change(first), *rest)})


def with_key(**changes: object) -> TuningTable:
    table = sample_table()
    rules: dict[RuleKey, tuple[Rule, ...]] = dict(table.rules)
    moved = replace(ALL_REDUCE_4, **changes)  # type: ignore[arg-type]  # the fields differ in type
    rules[moved] = rules.pop(ALL_REDUCE_4)
    return replace(table, rules=rules)


def with_defaults(**changes: object) -> TuningTable:
    table = sample_table()
    *rows, last = table.defaults.rows
    rows.append(replace(last, **changes))  # type: ignore[arg-type]  # the fields differ in type
    return replace(table, defaults=DefaultRules(backend="native", rows=tuple(rows)))


def with_symmetric_default(config: Config) -> TuningTable:
    """The sample with a row more, where private memory has FLAT for small messages and another for large ones."""
    table = sample_table()
    row = replace(table.defaults.rows[0], from_bytes=0, config=config, memory=Memory.SYMMETRIC)
    return replace(table, defaults=replace(table.defaults, rows=(*table.defaults.rows, row)))


def with_default_of_hosts(config: Config) -> TuningTable:
    table = sample_table()
    row = replace(table.defaults.rows[0], from_bytes=0, config=config, spread=Spread.EVEN)
    return replace(table, defaults=replace(table.defaults, rows=(*table.defaults.rows, row)))


SILENT = {
    "rounds": with_rule(lambda rule: replace(rule, n_rounds=10)),
    "median": with_rule(lambda rule: replace(rule, median_us=2.6)),
    "interval": with_rule(lambda rule: replace(rule, low_us=2.3, high_us=2.7)),
    "ring gain": with_rule(lambda rule: replace(rule, ring_gain=2.0)),
    "trials": with_rule(lambda rule: replace(rule, trial_ids=(8,))),
    "fingerprint": replace(sample_table(), fingerprint=None),
    "hosts": replace(sample_table(), host_fingerprints=()),
    "environment": replace(sample_table(), environment={}),
    "time": replace(sample_table(), created_at="2027-01-31T12:00:00Z"),
    "test": replace(sample_table(), test="another"),
}
LOUD = {
    "range": with_rule(lambda rule: replace(rule, from_bytes=9)),
    "algorithm": with_rule(lambda rule: replace(rule, config=replace(FLAT, algorithm="ring"))),
    "segment": with_rule(lambda rule: replace(rule, config=replace(FLAT, segment_bytes=None))),
    "knob": with_rule(lambda rule: replace(rule, config=replace(FLAT, knobs=(("slices", 4),)))),
    "knob's type": with_rule(lambda rule: replace(rule, config=replace(FLAT, knobs=(("slices", "4"),)))),
    "evidence": with_rule(lambda rule: replace(rule, evidence=Evidence.SIMULATED)),
    "default": with_rule(lambda rule: won(rule.from_bytes, rule.to_bytes, FLAT)),
    "ranks": with_key(n_ranks=5, placement=(5,)),
    "placement": with_key(placement=(2, 2)),
    "memory": with_key(memory=Memory.SYMMETRIC),
    "budget": with_key(max_error=0.02),
    "default config": with_defaults(config=FLAT),
    "default size": with_defaults(from_bytes=65535),
    "default of symmetric memory": with_symmetric_default(FLAT),
    "another default of symmetric memory": with_symmetric_default(DIRECT),
    "default of several hosts": with_default_of_hosts(FLAT),
    "another default of several hosts": with_default_of_hosts(DIRECT),
    "a key less": replace(sample_table(), rules={ALL_REDUCE_4: sample_table().rules[ALL_REDUCE_4]}),
}


@pytest.mark.parametrize("table", SILENT.values(), ids=SILENT)
def test_figures_and_circumstances_leave_the_digest_alone(table: TuningTable) -> None:
    assert table != sample_table()
    assert table.digest == sample_table().digest


def test_every_changed_decision_changes_the_digest() -> None:
    digests = {name: table.digest for name, table in LOUD.items()} | {"unchanged": sample_table().digest}
    assert len(set(digests.values())) == len(digests), digests


def test_the_canonical_form_is_the_documented_one() -> None:
    """Written out by hand from docs/table.md, for a table small enough to do so."""
    table = replace(
        sample_table(),
        rules={replace(ALL_REDUCE_4, max_error=0.5): (kept(8, 1024), won(1024, 4096, DIRECT))},
        defaults=defaults(),
    )
    flat = '{"algorithm":"flat","codec":"none","knobs":{},"segment_bytes":65536}'
    tuned = '{"algorithm":"direct","codec":"none","knobs":{"outbox_store":"dual","slices":4},"segment_bytes":262144}'
    later = '{"algorithm":"direct","codec":"none","knobs":{},"segment_bytes":262144}'
    rows = ",".join(
        f'{{"collective":"{collective}","config":{config},"from_bytes":{size},"ranks_from":1,"ranks_to":null}}'
        for collective in (
            "all_gather",
            "all_reduce",
            "all_to_all",
            "broadcast",
            "gather",
            "reduce",
            "reduce_scatter",
            "scatter",
        )
        for config, size in ((later, 65536), (flat, 0))
    )
    text = (
        '{"defaults":{"backend":"native","rows":[' + rows + ']},"rules":['
        '{"backend":"native","collective":"all_reduce","dtype":"float32","max_error":"3fe0000000000000",'
        '"memory":"private","n_ranks":4,"op_class":"sum","placement":[4],"sizes":['
        f'{{"config":{flat},"evidence":"measured","from_bytes":8,"is_default":true,"to_bytes":1024}},'
        f'{{"config":{tuned},"evidence":"measured","from_bytes":1024,"is_default":false,"to_bytes":4096}}'
        ']}],"schema_version":1}'
    )
    assert json.loads(text)
    assert table.digest == hashlib.sha256(text.encode()).hexdigest()
