"""The defaults answer for everything, once; the shipped ones name algorithms that exist and are legal."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_strategies import DIRECT, FLAT, INT8, default_rules, defaults, key_of, sample_table

from autotune.table import (
    DefaultRow,
    DefaultRules,
    document,
    dump_table,
    native_defaults,
    parse_table,
    shipped_table,
)
from autotune.types import Collective, Memory, Spread
from autotune.units import MAX_BYTES

ROW = DefaultRow(collective=Collective.GATHER, ranks_from=1, ranks_to=None, from_bytes=0, config=FLAT)


@given(
    rules=default_rules(),
    collective=st.sampled_from(Collective),
    placement=st.tuples(st.integers(1, 8) | st.integers(1, 1 << 31)) | st.tuples(*[st.integers(1, 3)] * 2),
    message_bytes=st.integers(0, 5000) | st.integers(0, 1 << 60),
    memory=st.sampled_from(Memory),
)
def test_every_call_has_one_answer(
    rules: DefaultRules, collective: Collective, placement: tuple[int, ...], message_bytes: int, memory: Memory
) -> None:
    key = key_of(collective, *placement, memory=memory)
    of_collective = [row for row in rules.rows if row.collective is collective]
    on_hosts = [row for row in of_collective if row.spread is spread_of(placement)]
    fitting = [
        row
        for row in [row for row in on_hosts if row.memory is memory]
        or [row for row in on_hosts if row.memory is Memory.PRIVATE]
        or [row for row in of_collective if spread_of(placement) is Spread.EVEN and row.spread is Spread.SHARED]
        or [row for row in of_collective if row.memory is Memory.PRIVATE and row.spread is Spread.ONE_HOST]
        if row.ranks_from <= key.n_ranks < (row.ranks_to or key.n_ranks + 1) and row.from_bytes <= message_bytes
    ]
    expected = max(fitting, key=lambda row: row.from_bytes).config
    assert rules.lookup(key, message_bytes) == expected
    assert rules.by_size(key)[0].from_bytes == 0


def spread_of(placement: tuple[int, ...]) -> Spread:
    if len(placement) == 1:
        return Spread.ONE_HOST
    if set(placement) == {1}:
        return Spread.ONE_EACH
    return Spread.EVEN if len(set(placement)) == 1 else Spread.SHARED


@given(rules=default_rules(), data=st.data())
def test_order_of_rows_does_not_matter(rules: DefaultRules, data: st.DataObject) -> None:
    assert replace(rules, rows=tuple(data.draw(st.permutations(rules.rows)))) == rules


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "do not answer for 1 ranks and more"),
        ([replace(ROW, ranks_from=2)], "once for 1 ranks"),
        ([replace(ROW, ranks_to=9)], "do not answer for 9 ranks and more"),
        ([replace(ROW, from_bytes=8)], "sizes from 8"),
        ([replace(ROW, ranks_to=3), replace(ROW, ranks_from=4)], "once for 3 ranks"),
        ([replace(ROW, ranks_to=5), replace(ROW, ranks_from=4)], "once for 5 ranks"),
        ([ROW, replace(ROW, ranks_from=4)], "once for None ranks"),
        ([ROW, replace(ROW, config=DIRECT)], "twice from one size"),
    ],
)
def test_defaults_refuse_a_call_without_an_answer_or_with_two(rows: list[DefaultRow], words: str) -> None:
    others = [row for row in defaults().rows if row.collective is not ROW.collective]
    with pytest.raises(ValueError, match=words):
        DefaultRules(backend="native", rows=(*others, *rows))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ranks_from": 2}, "once for 1 ranks"),
        ({"ranks_to": 9}, "do not answer for 9 ranks and more"),
        ({"from_bytes": 8}, "sizes from 8"),
    ],
)
def test_rows_for_symmetric_memory_answer_for_all_of_a_collective_or_for_none(
    changes: dict[str, Any], words: str
) -> None:
    shared = replace(ROW, memory=Memory.SYMMETRIC, config=DIRECT)
    rows = defaults().rows
    rules = DefaultRules(backend="native", rows=(*rows, shared))
    assert rules.lookup(key_of(Collective.GATHER, 5, memory=Memory.SYMMETRIC), 0) == DIRECT
    assert rules.lookup(key_of(Collective.GATHER, 5), 0) == FLAT
    assert rules.lookup(key_of(Collective.SCATTER, 5, memory=Memory.SYMMETRIC), 0) == FLAT, "as in private memory"
    with pytest.raises(ValueError, match=f"the defaults of gather in symmetric memory .*{words}"):
        DefaultRules(backend="native", rows=(*rows, replace(shared, **changes)))


def test_rows_for_several_hosts_answer_for_all_of_a_collective_or_for_none() -> None:
    spread = replace(ROW, spread=Spread.EVEN, config=DIRECT)
    rows = defaults().rows
    rules = DefaultRules(backend="native", rows=(*rows, spread))
    assert rules.lookup(key_of(Collective.GATHER, 2, 2), 0) == DIRECT
    for placement in ((4,), (1, 1), (1, 2)):
        assert rules.lookup(key_of(Collective.GATHER, *placement), 0) == FLAT, "as on one host"
    shared = DefaultRules(backend="native", rows=(*rows, replace(spread, spread=Spread.SHARED)))
    assert {shared.lookup(key_of(Collective.GATHER, *placement), 0) for placement in ((2, 2), (1, 2))} == {DIRECT}
    assert shared.lookup(key_of(Collective.GATHER, 1, 1), 0) == FLAT
    with pytest.raises(ValueError, match=r"the defaults of gather over several hosts \(even\) .*once for 1 ranks"):
        DefaultRules(backend="native", rows=(*rows, replace(spread, ranks_from=2)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory": Memory.SYMMETRIC, "spread": Spread.EVEN}, "does not reach over several hosts"),
        ({"ranks_from": 0}, "rank counts"),
        ({"ranks_to": 1}, "rank counts"),
        ({"from_bytes": -1}, "from_bytes"),
        ({"from_bytes": MAX_BYTES + 1}, "from_bytes"),
        ({"config": INT8}, "lossy"),
        ({"config": replace(FLAT, knobs=(("store", False),))}, "neither a word"),
    ],
)
def test_a_default_row_refuses_what_cannot_be_meant(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(ROW, **changes)


@pytest.mark.parametrize(
    ("name", "plain_word", "other"),
    [("spread", "one_host", Spread.SHARED), ("memory", "private", Memory.SYMMETRIC)],
)
def test_the_usual_goes_without_saying_in_a_table(name: str, plain_word: str, other: Spread | Memory) -> None:
    table = sample_table()
    plain = document(table)
    rows = plain["defaults"]["rows"]
    assert all(name not in row for row in rows)
    said = [{name: plain_word, **row} for row in rows]
    assert parse_table(json.dumps(plain | {"defaults": plain["defaults"] | {"rows": said}}), "t.json") == table
    changes: dict[str, Any] = {"from_bytes": 0, name: other}
    unusual = replace(table.defaults.rows[0], **changes)
    with_both = replace(table, defaults=replace(table.defaults, rows=(*table.defaults.rows, unusual)))
    assert [row.get(name) for row in document(with_both)["defaults"]["rows"]].count(other.value) == 1
    assert parse_table(dump_table(with_both), "t.json") == with_both


def test_the_shipped_table_holds_defaults_only() -> None:
    table = shipped_table()
    assert table.rules == {}
    assert table.fingerprint is None
    assert table.defaults is native_defaults()
    assert {row.collective for row in table.defaults.rows} == set(Collective)


@pytest.mark.parametrize("l2_bytes", [None, 1 << 19, 1 << 20])
def test_a_host_that_says_nothing_of_its_caches_has_the_rules_of_one_with_small_ones(l2_bytes: int | None) -> None:
    assert native_defaults(l2_bytes) == native_defaults()
    assert shipped_table("torch", l2_bytes=2 << 20) == shipped_table("torch")


def test_large_second_level_caches_change_rows_on_one_host_alone() -> None:
    plain, large = native_defaults(), native_defaults(2 << 20)
    changed = set(plain.rows) ^ set(large.rows)
    assert changed
    assert {row.spread for row in changed} == {Spread.ONE_HOST}
    assert {row.collective for row in changed if row.memory is Memory.SYMMETRIC} == {Collective.ALL_REDUCE}
    for n_ranks, differs in ((2, True), (4, False)):
        key = key_of(Collective.ALL_REDUCE, n_ranks)
        assert (large.lookup(key, 1 << 20) != plain.lookup(key, 1 << 20)) is differs


@pytest.mark.parametrize("l2_bytes", [None, 2 << 20])
def test_shipped_defaults_are_legal_schedules(l2_bytes: int | None) -> None:
    from autotune.kernels.schedules import registry

    for collective, memory in itertools.product(Collective, Memory):
        for n_ranks in range(1, 34):
            legal = registry.names(collective, n_ranks)
            for row in native_defaults(l2_bytes).by_size(key_of(collective, n_ranks, memory=memory)):
                assert row.config.algorithm in legal, f"{collective.value}, {n_ranks} ranks"


def test_shipped_defaults_for_ranks_that_share_cores_are_legal_schedules() -> None:
    from autotune.kernels import shared_core_names

    found = set()
    for collective, memory, n_ranks in itertools.product(Collective, Memory, range(3, 12)):
        symmetric = memory is Memory.SYMMETRIC
        legal = shared_core_names(collective, tuple(rank % 2 for rank in range(n_ranks)), zero_copy=symmetric)
        for row in native_defaults(2 << 20).by_size(key_of(collective, n_ranks, memory=memory)):
            name = row.config.tuned_algorithm
            if name != row.config.algorithm:
                assert name in legal, f"{collective.value}, {n_ranks} ranks"
                found.add((collective, memory))
    assert found == {
        (Collective.ALL_REDUCE, Memory.PRIVATE),
        (Collective.ALL_REDUCE, Memory.SYMMETRIC),
        (Collective.REDUCE, Memory.PRIVATE),
        (Collective.REDUCE_SCATTER, Memory.PRIVATE),
    }


PLACEMENTS = [
    *((ranks,) * hosts for hosts in (2, 3, 4, 5, 7, 8, 16) for ranks in (1, 2, 3, 4, 5, 8)),
    *((1, 2), (1, 1, 3), (2, 3), (3, 5, 7), (1, 8), (4, 4, 5), (1, 1, 1, 2)),
    *((8,) * 128, (8,) * 129, (1,) * 1025, (1,) * 1200, (500, 700)),
]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=lambda sizes: f"{len(sizes)}x{sizes[0]}to{sizes[-1]}")
def test_shipped_defaults_over_several_hosts_are_legal_schedules(placement: tuple[int, ...]) -> None:
    from autotune.kernels import host_numbers
    from autotune.kernels.programs import layout_of
    from autotune.kernels.schedules import registry

    layout = layout_of(sum(placement), 0, host_numbers(placement))
    for collective in Collective:
        legal = registry.names(collective, sum(placement), layout)
        for row in native_defaults().by_size(key_of(collective, *placement)):
            # Above 1024 ranks nothing does an all_to_all, as the registry's error says.
            assert row.config.algorithm in legal or not legal, f"{row.collective.value} from {row.from_bytes}"


def test_shipped_defaults_of_symmetric_memory_run_over_it_in_place_or_not() -> None:
    from autotune.kernels.schedules.registry import build
    from autotune.kernels.zero_copy import compile_zero_copy

    rows = [row for row in native_defaults().rows if row.memory is Memory.SYMMETRIC]
    zero_copy = [row for row in rows if dict(row.config.knobs).get("exchange") == "zero_copy"]
    assert {row.collective for row in zero_copy} == {row.collective for row in rows}
    assert not {Collective.SCATTER, Collective.GATHER} & {row.collective for row in rows}
    for row in zero_copy:
        for n_ranks in (*range(row.ranks_from, min(row.ranks_to or 10, 10)), 16, 17):
            schedule = build(row.collective, row.config.algorithm, n_ranks)
            for in_place in (False,) if row.collective is Collective.ALL_TO_ALL else (False, True):
                compile_zero_copy(row.collective, schedule, tuple(range(n_ranks)), in_place=in_place)
    assert all(row.config.knobs == () for row in native_defaults().rows if row.memory is Memory.PRIVATE)
