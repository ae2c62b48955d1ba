"""``select`` against the rule of look-up as docs/table.md states it, at every border."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_strategies import ALL_REDUCE_4, DIRECT, FLAT, INT8, defaults, kept, keys, sample_table, sizes, tables, won

from autotune.errors import UsageError
from autotune.runtime import Selection, Selector, select
from autotune.table import TuningTable, shipped_table
from autotune.types import Collective, Config, DType, Evidence, Memory, OpClass, ReduceOp, RuleKey

MEASURED = frozenset({Evidence.MEASURED})
OPS = {OpClass.SUM: ReduceOp.AVG, OpClass.MINMAX: ReduceOp.MIN, OpClass.PROD: ReduceOp.PROD}


def expected(table: TuningTable, key: RuleKey, size: int, evidence: Iterable[Evidence]) -> tuple[Config, bool]:
    """The written rule, size by size: the largest budget within the call's, then lossless, then the default."""
    found = [
        (other.max_error or 0.0, rule)
        for other, rules in table.rules.items()
        for rule in rules
        if replace(other, max_error=key.max_error) == key
        and (other.max_error is None or (key.max_error is not None and other.max_error <= key.max_error))
        and rule.from_bytes <= size < rule.to_bytes
        and rule.evidence in evidence
    ]
    if found:
        return max(found, key=lambda pair: pair[0])[1].config, True
    return table.defaults.lookup(key, size), False


def ask(table: TuningTable | Selector, key: RuleKey, size: int, evidence: tuple[str, ...]) -> Selection:
    """A call whose key this is."""
    selector = table if isinstance(table, Selector) else Selector(table)
    arguments: dict[str, Any] = {
        "message_bytes": size,
        "n_ranks": key.n_ranks,
        "placement": key.placement,
        "memory": key.memory.value,
        "max_error": key.max_error,
        "backend": key.backend,
        "evidence": evidence,
    }
    if key.dtype is not None and key.op_class is not None:
        arguments.update(dtype=key.dtype.value, op=OPS[key.op_class].value)
    return selector.select(key.collective.value, **arguments)


@given(
    table=tables(),
    other=keys(),
    size=sizes | st.integers(0, 1 << 70),
    evidence=st.sets(st.sampled_from(Evidence), min_size=1),
)
def test_every_call_gets_what_the_rule_of_lookup_says(
    table: TuningTable, other: RuleKey, size: int, evidence: set[Evidence]
) -> None:
    selector = Selector(table)
    words = tuple(kind.value for kind in evidence)
    for key in {*table.rules, other, *(replace(key, max_error=0.05) for key in table.rules)}:
        edges = {edge for rules in table.rules.values() for rule in rules for edge in (rule.from_bytes, rule.to_bytes)}
        edges |= {row.from_bytes for row in table.defaults.rows}
        for near in {size, *edges, *(edge - 1 for edge in edges if edge)}:
            answer = ask(selector, key, near, words)
            assert (answer.config, answer.tuned) == expected(table, key, near, evidence), f"{key} at {near}"
            assert answer.tuned == (answer.evidence in evidence)
            assert answer.reason
            assert ask(table, key, near, words) == answer  # from a selector that was never asked before


SELECTOR = Selector(sample_table())


@pytest.mark.parametrize(
    ("size", "config", "tuned"),
    [
        (0, FLAT, False),
        (7, FLAT, False),
        (8, FLAT, True),
        (1023, FLAT, True),
        (1024, DIRECT, True),
        (65535, DIRECT, True),
        (65536, FLAT, True),
        (1048576, FLAT, True),
        (1048577, replace(DIRECT, knobs=()), False),
        (1 << 62, replace(DIRECT, knobs=()), False),
    ],
)
def test_borders_of_a_known_table(size: int, config: Config, tuned: bool) -> None:
    answer = SELECTOR.select("all_reduce", message_bytes=size, n_ranks=4)
    assert (answer.config, answer.tuned) == (config, tuned)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            {"message_bytes": 8},
            "measured: the default flat/64KiB stays, as nothing was significantly better, 9 rounds, trials 7",
        ),
        (
            {"message_bytes": 4096},
            "measured: direct/256KiB/outbox_store=dual/slices=4 is 1.31x [1.25, 1.38] over the default flat/64KiB, "
            "9 rounds, trials 12, 15",
        ),
        (
            {"message_bytes": 7},
            "default flat/64KiB: outside the sizes of the rules for all_reduce float32 sum, 4 ranks (native), "
            "8B to 1MiB",
        ),
        (
            {"message_bytes": 8, "dtype": "bfloat16"},
            "default flat/64KiB: no rule for all_reduce bfloat16 sum, 4 ranks (native) in the given table: "
            "run `autotune run`",
        ),
        (
            {"message_bytes": 65536, "max_error": 0.02},
            "measured: ring/256KiB/int8 is 1.31x [1.25, 1.38] over the default, 9 rounds, trials 12, 15",
        ),
    ],
)
def test_reasons_are_sentences_for_people(arguments: dict[str, Any], reason: str) -> None:
    assert SELECTOR.select("all_reduce", n_ranks=4, **arguments).reason == reason


def test_a_reason_says_where_the_algorithm_for_shared_cores_runs() -> None:
    config = replace(DIRECT, knobs=(("shared_cores", "owners"),))
    rule = replace(won(8, 1024), config=config)
    reason = (
        Selector(replace(sample_table(), rules={ALL_REDUCE_4: (rule,)}))
        .select("all_reduce", message_bytes=8, n_ranks=4)
        .reason
    )
    assert reason.endswith("; owners where ranks are bound to cores that they share, direct elsewhere")
    shipped = Selector(shipped_table(l2_bytes=2 << 20)).select("reduce", message_bytes=1 << 20, n_ranks=8)
    assert "; leaders where ranks are bound to cores that they share, direct elsewhere" in shipped.reason


def test_a_long_list_of_trials_is_cut() -> None:
    rule = replace(kept(8, 9), trial_ids=tuple(range(30)))
    selector = Selector(replace(sample_table(), rules={ALL_REDUCE_4: (rule,)}))
    reason = selector.select("all_reduce", message_bytes=8, n_ranks=4).reason
    assert reason.endswith("trials 0, 1, 2, 3 and 26 more")


def test_simulated_and_imported_rules_count_only_when_asked_for() -> None:
    for kind in (Evidence.SIMULATED, Evidence.IMPORTED):
        rule = replace(won(8, 1024), evidence=kind)
        selector = Selector(replace(sample_table(), rules={ALL_REDUCE_4: (rule,)}))
        refused = selector.select("all_reduce", message_bytes=8, n_ranks=4)
        assert (refused.config, refused.tuned, refused.evidence) == (FLAT, False, None)
        assert f"only {kind.value}; it counts with evidence=(" in refused.reason
        taken = selector.select("all_reduce", message_bytes=8, n_ranks=4, evidence=("measured", kind.value))
        assert (taken.config, taken.tuned, taken.evidence) == (DIRECT, True, kind)
        assert taken.reason.startswith(f"{kind.value}: ")


@pytest.mark.parametrize(
    ("size", "max_error", "config", "tuned"),
    [
        (8192, None, DIRECT, True),
        (8192, 0.001, DIRECT, True),  # the lossy rule needs 0.01
        (8192, 0.01, INT8, True),
        (8192, 0.5, INT8, True),
        (1024, 0.5, DIRECT, True),  # not among the lossy rule's sizes
        (65536, 0.5, INT8, True),
        (65537, 0.5, FLAT, True),
        (7, 0.5, FLAT, False),
    ],
)
def test_a_lossy_rule_counts_only_within_a_stated_budget(
    size: int, max_error: float | None, config: Config, tuned: bool
) -> None:
    answer = SELECTOR.select("all_reduce", message_bytes=size, n_ranks=4, max_error=max_error)
    assert (answer.config, answer.tuned) == (config, tuned)


def test_type_and_op_decide_nothing_where_elements_are_only_moved() -> None:
    answers = {
        SELECTOR.select(
            "broadcast", message_bytes=8, n_ranks=3, placement=(1, 2), dtype=dtype, op=op, evidence=("simulated",)
        )
        for dtype in ("float32", "int8")
        for op in ("sum", "max")
    }
    assert [answer.tuned for answer in answers] == [True]


def test_words_enums_lists_and_numpy_integers_mean_the_same() -> None:
    plain = SELECTOR.select("all_reduce", message_bytes=4096, n_ranks=4)
    for arguments in (
        {"dtype": DType.FLOAT32, "op": ReduceOp.SUM, "memory": Memory.PRIVATE},
        {"evidence": ["measured"]},
        {"evidence": {Evidence.MEASURED}},
        {"placement": [4]},
        {"n_ranks": np.int64(4)},
        {"message_bytes": np.uint32(4096)},
    ):
        call: dict[str, Any] = {"message_bytes": 4096, "n_ranks": 4} | arguments
        assert SELECTOR.select(Collective.ALL_REDUCE, **call) == plain


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"collective": "allreduce"}, "collective 'allreduce' is unknown (did you mean 'all_reduce'?)"),
    ({"collective": ["all_reduce"]}, "collective ['all_reduce'] is unknown"),
    ({"collective": None}, "collective None is unknown"),
    ({"collective": "x" * 1000}, "..."),
    ({"message_bytes": -1}, "message_bytes -1 is not a whole number from 0"),
    ({"message_bytes": 4096.0}, "message_bytes 4096.0 is not a whole number"),
    ({"message_bytes": "4KiB"}, "message_bytes '4KiB' is not a whole number"),
    ({"message_bytes": True}, "message_bytes True is not a whole number"),
    ({"message_bytes": np.array([8, 8])}, "message_bytes array([8, 8]) is not a whole number"),
    ({"message_bytes": None}, "message_bytes None is not a whole number"),
    ({"n_ranks": 0}, "n_ranks 0 is not a whole number from 1"),
    ({"n_ranks": -4}, "n_ranks -4 is not"),
    ({"n_ranks": 4.0}, "n_ranks 4.0 is not"),
    ({"n_ranks": True}, "n_ranks True is not"),
    ({"n_ranks": "4"}, "n_ranks '4' is not"),
    ({"n_ranks": np.array([4, 4])}, "n_ranks array([4, 4]) is not"),
    ({"n_ranks": [4]}, "n_ranks [4] is not"),
    ({"dtype": "fp32"}, "dtype 'fp32' is unknown (did you mean 'float32'?)"),
    ({"dtype": "bf16"}, "(did you mean 'bfloat16'?)"),
    ({"dtype": np.array(["float32", "int8"])}, "dtype array("),
    ({"dtype": float}, "dtype <class 'float'> is unknown"),
    ({"op": "add"}, "op 'add' is unknown"),
    ({"op": "maximum"}, "(did you mean 'max'?)"),
    ({"placement": (2, 1)}, "placement (2, 1) holds 3 ranks, but n_ranks is 4"),
    ({"placement": (4, 0)}, "placement 0 is not a whole number from 1"),
    ({"placement": (True, 3)}, "placement True is not"),
    ({"placement": (4.0,)}, "placement 4.0 is not"),
    ({"placement": np.array(4)}, "placement array(4) is not a tuple"),
    ({"placement": 4}, "placement 4 is not a tuple"),
    ({"memory": "shared"}, "memory 'shared' is unknown"),
    ({"max_error": 0}, "max_error 0 is not a relative error above 0"),
    ({"max_error": -0.1}, "max_error -0.1 is not"),
    ({"max_error": True}, "max_error True is not"),
    ({"max_error": float("nan")}, "max_error nan is not"),
    ({"max_error": float("inf")}, "max_error inf is not"),
    ({"max_error": "1%"}, "max_error '1%' is not"),
    ({"backend": "hccl"}, "backend 'hccl' has no rules in the given table"),
    ({"backend": None}, "backend None is not a name"),
    ({"backend": ["native"]}, "backend ['native'] is not a name"),
    ({"evidence": "measured"}, "evidence 'measured' is not a tuple"),
    ({"evidence": ()}, "evidence is empty"),
    ({"evidence": ("measurd",)}, "evidence 'measurd' is unknown (did you mean 'measured'?)"),
    ({"evidence": None}, "evidence None is not a tuple"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG, ids=[str(changes)[:60] for changes, _ in WRONG])
def test_an_argument_that_cannot_be_meant_is_named(changes: dict[str, Any], words: str) -> None:
    call: dict[str, Any] = {"collective": "all_reduce", "message_bytes": 4096, "n_ranks": 4, "table": sample_table()}
    with pytest.raises(UsageError) as caught:
        select(**(call | changes))
    assert words in caught.value.message
    assert caught.value.remedy
    # The answer does not depend on what was asked before: True and 4.0 do not find the entries of 1 and 4.
    selector = Selector(sample_table())
    for n_ranks in (1, 4):
        for size in (0, 1, 4096):
            selector.select("all_reduce", message_bytes=size, n_ranks=n_ranks)
    selector.select("all_reduce", message_bytes=1, n_ranks=4, placement=(1, 3), max_error=1.0)
    del call["table"]
    with pytest.raises(UsageError) as again:
        selector.select(**(call | changes))
    assert again.value.message == caught.value.message


def test_memory_does_not_grow_with_sizes() -> None:
    selector = Selector(sample_table())

    def ask_for(many: range) -> None:
        for size in many:
            selector.select("all_reduce", message_bytes=size * 7919, n_ranks=4)

    ask_for(range(100))
    tracemalloc.start()
    try:
        ask_for(range(100, 1_000))
        before = tracemalloc.get_traced_memory()[0]
        ask_for(range(1_000, 11_000))
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # One kept entry for each size would be over a million bytes.
    assert grown < 10_000


def test_memory_does_not_grow_with_kinds_of_call() -> None:
    selector = Selector(shipped_table())
    for n_ranks in range(1, 3_000):
        selector.select("all_reduce", message_bytes=8, n_ranks=n_ranks)
        assert len(selector.memo) <= 1024
    assert selector.select("all_reduce", message_bytes=8, n_ranks=1).config.algorithm == "flat"


def test_threads_share_a_selector() -> None:
    """Many kinds of call at once, so that the memo is filled and emptied while others read it."""
    selector = Selector(replace(sample_table(), defaults=defaults()))
    start = threading.Barrier(4, timeout=60)
    wrong: list[Selection] = []

    def work(offset: int) -> None:
        start.wait()
        for step in range(2_000):
            answer = selector.select("all_reduce", message_bytes=8, n_ranks=1 + (step * 7 + offset) % 1_500)
            if answer.config != FLAT:
                wrong.append(answer)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
