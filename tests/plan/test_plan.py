"""Plans as values: defaults, overrides, digests, and the order of problems."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.measure import QUICK, THOROUGH
from autotune.plan import Plan, default_plan, parse_collective, quick_plan
from autotune.types import Collective, DType, Memory, OpClass, ReduceOp

SMALL = Plan(collectives=(Collective.ALL_GATHER,), sizes=(8,), ranks=(3,))


@pytest.mark.parametrize(("n_cores", "ranks"), [(1, (2,)), (2, (2, 4)), (3, (2, 3, 6)), (64, (2, 64, 128))])
def test_the_default_plan_follows_the_cores(n_cores: int, ranks: tuple[int, ...]) -> None:
    plan = default_plan(n_cores)
    assert plan.ranks == ranks
    assert [c.value for c in plan.collectives] == ["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    assert plan.sizes[0] == 8
    assert plan.sizes[-1] == 64 << 20
    assert all(b <= 4 * a for a, b in itertools.pairwise(plan.sizes))
    assert plan.budget_s is None


@pytest.mark.parametrize(("n_cores", "ranks"), [(1, (2, 4)), (2, (2, 4)), (64, (2, 64))])
def test_the_quick_plan_has_eight_sizes_and_two_rank_counts(n_cores: int, ranks: tuple[int, ...]) -> None:
    plan = quick_plan(n_cores)
    assert plan.ranks == ranks
    assert len(plan.sizes) == 8
    assert plan.dtypes == (DType.FLOAT32,)
    assert plan.effort == QUICK
    assert plan.budget_s is not None
    assert plan.budget_s < 50
    assert len(plan.problems()) == 4 * 8 * 2


def test_types_count_only_where_elements_are_combined() -> None:
    keys = {problem.key for problem in default_plan(2).problems()}
    by_collective = {c: {(k.dtype, k.op_class) for k in keys if k.collective is c} for c in Collective}
    assert by_collective[Collective.ALL_REDUCE] == {(DType.FLOAT32, OpClass.SUM), (DType.BFLOAT16, OpClass.SUM)}
    assert by_collective[Collective.BROADCAST] == {(None, None)}


def test_both_kinds_of_memory_are_cells_of_their_own() -> None:
    plan = SMALL.override(memories=[Memory.SYMMETRIC, Memory.PRIVATE, Memory.SYMMETRIC], sizes=[8, 64])
    assert plan.memories == (Memory.SYMMETRIC, Memory.PRIVATE)
    cells = [(problem.key.memory, problem.message_bytes) for problem in plan.problems()]
    assert cells == [(memory, size) for memory in plan.memories for size in (9, 66)]
    assert {problem.key.memory for problem in SMALL.problems()} == {Memory.PRIVATE}
    with pytest.raises(UsageError, match="cells"):
        SMALL.override(sizes=list(range(1, 60_000)), memories=list(Memory))


def test_rank_counts_are_outermost_and_sizes_ascend() -> None:
    problems = default_plan(4).problems("openmpi")
    ranks = [problem.key.n_ranks for problem in problems]
    assert ranks == sorted(ranks)
    assert {problem.key.backend for problem in problems} == {"openmpi"}
    assert {problem.key.placement for problem in problems} == {(2,), (4,), (8,)}
    for key in {problem.key for problem in problems}:
        sizes = [problem.message_bytes for problem in problems if problem.key == key]
        assert sizes == sorted(set(sizes))
        first = next(i for i, problem in enumerate(problems) if problem.key == key)
        assert [problem.key for problem in problems[first : first + len(sizes)]] == [key] * len(sizes)


def test_sizes_are_rounded_up_to_whole_elements_and_equal_ones_are_one_cell() -> None:
    plan = SMALL.override(collectives=[Collective.REDUCE_SCATTER], sizes=[1, 8, 12, 13])
    assert [p.message_bytes for p in plan.problems() if p.key.dtype is DType.FLOAT32] == [12, 24]
    assert [p.message_bytes for p in plan.problems() if p.key.dtype is DType.BFLOAT16] == [6, 12, 18]


@settings(derandomize=True, database=None, deadline=None)
@given(
    sizes=st.sets(st.integers(0, 1 << 30), min_size=1, max_size=6),
    ranks=st.sets(st.integers(1, 65), min_size=1, max_size=3),
    collectives=st.sets(st.sampled_from(Collective), min_size=1, max_size=4),
)
def test_every_cell_is_whole_and_there_once(sizes: set[int], ranks: set[int], collectives: set[Collective]) -> None:
    plan = SMALL.override(collectives=sorted(collectives, key=lambda c: c.value), sizes=[*sizes], ranks=[*ranks])
    problems = plan.problems()
    assert len(set(problems)) == len(problems)
    for problem in problems:
        parts = problem.key.n_ranks if problem.key.collective.splits_by_rank else 1
        assert problem.message_bytes % (problem.timed_dtype.itemsize * parts) == 0
        assert problem.message_bytes > 0


def test_the_command_line_overrides() -> None:
    plan = default_plan(2).override(collectives=[Collective.REDUCE], sizes=[64, 8], ranks=[4, 2, 4], budget_s=9.0)
    assert (plan.collectives, plan.sizes, plan.ranks, plan.budget_s) == ((Collective.REDUCE,), (8, 64), (2, 4), 9.0)
    assert default_plan(2).override() == default_plan(2)


def test_the_digest_covers_what_is_measured_but_not_the_time_for_it() -> None:
    changed = [
        SMALL.override(collectives=[Collective.BROADCAST]),
        SMALL.override(sizes=[9]),
        SMALL.override(ranks=[4]),
        replace(SMALL, dtypes=(DType.FLOAT16,)),
        replace(SMALL, op=ReduceOp.MAX),
        SMALL.override(memories=[Memory.SYMMETRIC]),
        SMALL.override(memories=list(Memory)),
        replace(SMALL, effort=THOROUGH),
    ]
    assert len({SMALL.digest, *(plan.digest for plan in changed)}) == 1 + len(changed)
    assert SMALL.override(budget_s=5.0).digest == SMALL.digest
    assert "memor" not in SMALL.canonical, "plans of private memory keep the digest that stored runs have"


@pytest.mark.parametrize(
    "fault",
    [
        {"collectives": ()},
        {"sizes": (8, 8)},
        {"sizes": (16, 8)},
        {"ranks": (0, 2)},
        {"ranks": (4, 2)},
        {"dtypes": (DType.INT8, DType.INT8)},
        {"memories": ()},
        {"memories": (Memory.PRIVATE, Memory.PRIVATE)},
    ],
)
def test_lists_are_ascending_and_distinct(fault: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(ValueError, match=r"not ascending|holds a value twice"):
        replace(SMALL, **fault)  # type: ignore[arg-type] # planted faults


def test_a_plan_that_nobody_can_measure_is_refused() -> None:
    with pytest.raises(UsageError, match="cells"):
        SMALL.override(sizes=list(range(1, 2000)), ranks=list(range(1, 100)))


@pytest.mark.parametrize(
    ("word", "remedy"),
    [("all_reduc", "write all_reduce"), ("AllGather", "write all_gather"), ("xyzzy", "write one of")],
)
def test_a_wrong_word_is_answered_with_the_nearest_right_one(word: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=f"unknown collective '{word}'") as caught:
        parse_collective(word)
    assert caught.value.remedy.startswith(remedy)


def test_an_error_budget_is_for_what_computes_and_part_of_the_plan_only_where_given() -> None:
    plan = Plan(collectives=(Collective.ALL_REDUCE, Collective.BROADCAST), sizes=(64,), ranks=(2,))
    budgeted = plan.override(max_error=0.1, data="normal")
    assert "max_error" not in plan.canonical
    assert len({plan.digest, budgeted.digest, budgeted.override(data="laplace").digest}) == 3
    keys = {problem.key.collective: problem.key.max_error for problem in budgeted.problems()}
    assert keys == {Collective.ALL_REDUCE: 0.1, Collective.BROADCAST: None}
    with pytest.raises(UsageError, match="none of the plan's collectives does that"):
        replace(budgeted, collectives=(Collective.BROADCAST,))
    with pytest.raises(UsageError, match="product"):
        replace(budgeted, op=ReduceOp.PROD)
    with pytest.raises(ValueError, match="one without the other"):
        replace(plan, max_error=0.1)
