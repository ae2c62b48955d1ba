"""The registry: legal names, costs as published, errors that help."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from schedules.cases import cases

from autotune.errors import UsageError
from autotune.kernels.schedules import ALGORITHMS, build, cost_figures, names
from autotune.kernels.schedules.algorithm import DENSE_LIMIT
from autotune.types import Collective, Layout

C = Collective
GROUPED = Layout(order=tuple(range(6)), groups=((0, 1, 2), (3, 4, 5)))
GROUPED_ONLY = {algorithm.name for algorithm in ALGORITHMS if algorithm.grouped}


def test_what_there_is() -> None:
    with_groups = {collective: names(collective, 6, GROUPED) for collective in Collective}
    assert with_groups == {
        C.ALL_REDUCE: (
            *("ring", "tree", "double_tree", "chain", "recursive_doubling", "recursive_halving_doubling"),
            *("nhr", "bruck", "direct", "flat", "hierarchical", "hierarchical_ring", "hierarchical_halving_doubling"),
            *("hierarchical_double_tree", "hierarchical_nhr"),
            *("leaders", "two_leaders", "four_leaders", "eight_leaders", "folded_leaders", "owners"),
        ),
        C.ALL_GATHER: (
            *("ring", "recursive_doubling", "nhr", "bruck", "direct", "hierarchical", "leaders", "folded_leaders"),
        ),
        C.REDUCE_SCATTER: ("ring", "recursive_halving_doubling", "nhr", "bruck", "direct", "hierarchical", "leaders"),
        C.BROADCAST: (
            *("ring", "tree", "double_tree", "chain", "recursive_halving_doubling", "nhr"),
            *("direct", "flat", "hierarchical", "leaders"),
        ),
        C.REDUCE: (
            *("ring", "tree", "double_tree", "chain", "recursive_halving_doubling", "nhr"),
            *("direct", "flat", "hierarchical", "leaders"),
        ),
        C.SCATTER: ("tree", "flat"),
        C.GATHER: ("tree", "flat"),
        C.ALL_TO_ALL: ("bruck", "direct", "pairwise", "hierarchical"),
    }
    for collective in Collective:
        without = tuple(name for name in with_groups[collective] if name not in GROUPED_ONLY)
        for n in (1, 2, 6, 7, DENSE_LIMIT):
            assert names(collective, n) == without


def test_one_rank_has_nothing_to_do() -> None:
    for case in cases([1]):
        assert case.build().steps == ()
        assert cost_figures(case.collective, case.name, 1) == (0, 0)


def test_no_schedule_has_two_names() -> None:
    seen: dict[object, str] = {}
    for case in cases([8]):
        if case.layout is not None:
            continue  # neighbouring pairs under leaders are the binomial tree: a matter of the layout
        moves = tuple(
            frozenset((src, dst, b, reduce) for src, dst, blocks, reduce in step for b in blocks)
            for step in case.build().expand()
        )
        name = seen.setdefault((case.collective, moves), case.name)
        assert name == case.name


def test_block_numbers_are_those_that_the_executors_expect() -> None:
    for case in cases((1, 5, 8)):
        blocks = case.build().blocks
        if case.collective is C.ALL_TO_ALL:
            assert blocks == case.n**2
        elif case.collective.splits_by_rank:
            assert blocks == case.n


def test_a_schedule_is_built_once() -> None:
    assert build(C.ALL_REDUCE, "ring", 6) is build(C.ALL_REDUCE, "ring", 6, GROUPED)
    assert build(C.ALL_REDUCE, "hierarchical", 6, GROUPED) is build(C.ALL_REDUCE, "hierarchical", 6, GROUPED)


def log(n: int) -> int:
    """ceil(log2 n)."""
    return (n - 1).bit_length()


def core(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def folded(n: int) -> int:
    return int(n != core(n))


Published = tuple[Callable[[int], int], Callable[[int], Fraction | int]]
ONCE: Callable[[int], Fraction] = lambda n: Fraction(n - 1, n)  # noqa: E731 - a table of formulas reads best so
TWICE: Callable[[int], Fraction] = lambda n: Fraction(2 * (n - 1), n)  # noqa: E731 - as above

PUBLISHED: dict[tuple[str, tuple[Collective, ...]], Published] = {
    ("ring", (C.ALL_REDUCE,)): (lambda n: 2 * (n - 1), TWICE),
    ("ring", (C.ALL_GATHER, C.REDUCE_SCATTER)): (lambda n: n - 1, ONCE),
    ("ring", (C.BROADCAST, C.REDUCE)): (lambda n: n, TWICE),
    ("tree", (C.ALL_REDUCE,)): (lambda n: 2 * log(n), log),
    ("tree", (C.BROADCAST, C.REDUCE)): (log, log),
    ("tree", (C.SCATTER, C.GATHER)): (log, ONCE),
    ("double_tree", (C.ALL_REDUCE,)): (
        lambda n: 2 * (n.bit_length() - 1),
        lambda n: {2: 1, 3: Fraction(3, 2)}.get(n, 2),
    ),
    ("double_tree", (C.BROADCAST, C.REDUCE)): (log, lambda n: 1),
    ("chain", (C.ALL_REDUCE,)): (lambda n: 2 * (n - 1), lambda n: 1 if n == 2 else 2),
    ("chain", (C.BROADCAST, C.REDUCE)): (lambda n: n - 1, lambda n: 1),
    ("recursive_doubling", (C.ALL_REDUCE,)): (lambda n: log(n) + folded(n), log),
    ("recursive_halving_doubling", (C.ALL_REDUCE,)): (
        lambda n: 2 * log(n),
        lambda n: TWICE(core(n)) + folded(n),
    ),
    ("recursive_halving_doubling", (C.BROADCAST, C.REDUCE)): (
        lambda n: 2 * log(n) - folded(n),
        lambda n: TWICE(core(n)) + folded(n),
    ),
    ("nhr", (C.ALL_REDUCE,)): (lambda n: 2 * log(n), TWICE),
    ("nhr", (C.ALL_GATHER, C.REDUCE_SCATTER)): (log, ONCE),
    ("nhr", (C.BROADCAST, C.REDUCE)): (lambda n: 1 + log(n), TWICE),
    ("bruck", (C.ALL_REDUCE,)): (lambda n: 2 * log(n), TWICE),
    ("bruck", (C.ALL_GATHER, C.REDUCE_SCATTER)): (log, ONCE),
    ("bruck", (C.ALL_TO_ALL,)): (log, lambda n: Fraction(sum(j.bit_count() for j in range(n)), n)),
    ("direct", (C.ALL_REDUCE, C.BROADCAST, C.REDUCE)): (lambda n: 2, TWICE),
    ("direct", (C.ALL_GATHER, C.REDUCE_SCATTER, C.ALL_TO_ALL)): (lambda n: 1, ONCE),
    ("flat", (C.ALL_REDUCE, C.BROADCAST, C.REDUCE)): (lambda n: 1, lambda n: n - 1),
    ("flat", (C.SCATTER, C.GATHER)): (lambda n: 1, ONCE),
    ("pairwise", (C.ALL_TO_ALL,)): (lambda n: n - 1, ONCE),
}
FOLDED = {("recursive_doubling", C.ALL_GATHER), ("recursive_halving_doubling", C.REDUCE_SCATTER)}


def test_costs_are_the_published_ones() -> None:
    tried = set()
    for (name, collectives), (steps, wire) in PUBLISHED.items():
        for collective in collectives:
            tried.add((name, collective))
            for n in range(2, 34):
                assert cost_figures(collective, name, n) == (steps(n), wire(n)), (name, collective, n)
    every = {(a.name, collective) for a in ALGORITHMS for collective in a.plain}
    assert every - tried == FOLDED


@pytest.mark.parametrize(("name", "collective"), sorted(FOLDED, key=str))
def test_costs_of_the_folded_halves(name: str, collective: Collective) -> None:
    for n in (*range(2, 34), 1280):  # 1024 + 256 comes closest to the bound
        steps, wire = cost_figures(collective, name, n)
        assert steps == log(n) + folded(n)
        assert (1 < wire < Fraction(12, 5)) if folded(n) else (wire == ONCE(n))


@pytest.mark.parametrize(("n_groups", "size"), [(2, 2), (2, 8), (3, 4), (8, 4)])
def test_costs_of_hierarchical(n_groups: int, size: int) -> None:
    n = n_groups * size
    ranks = tuple(range(n))
    layout = Layout(order=ranks, groups=tuple(ranks[first::n_groups] for first in range(n_groups)))

    def cost(collective: Collective) -> tuple[int, Fraction]:
        return cost_figures(collective, "hierarchical", n, layout)

    assert cost(C.ALL_REDUCE) == (2 + 2 * log(n_groups), TWICE(n))
    assert cost(C.ALL_GATHER) == cost(C.REDUCE_SCATTER) == (1 + log(n_groups), ONCE(n))
    assert cost(C.BROADCAST) == cost(C.REDUCE) == (1 + log(n_groups), size - 1 + log(n_groups))
    assert cost(C.ALL_TO_ALL) == (2, 2 - Fraction(1, size) - Fraction(1, n_groups))


@pytest.mark.parametrize(("n_groups", "size"), [(2, 2), (2, 8), (3, 4), (8, 4)])
def test_costs_of_what_runs_between_groups_and_of_fewer_leaders(n_groups: int, size: int) -> None:
    n = n_groups * size
    ranks = tuple(range(n))
    layout = Layout(order=ranks, groups=tuple(ranks[first : first + size] for first in range(0, n, size)))

    def cost(name: str) -> tuple[int, Fraction]:
        return cost_figures(C.ALL_REDUCE, name, n, layout)

    assert cost("hierarchical_ring") == (2 * n_groups, TWICE(n))
    assert cost("hierarchical_nhr") == cost("hierarchical")
    for name, plain in (("halving_doubling", "recursive_halving_doubling"), ("double_tree", "double_tree")):
        steps, wire = cost_figures(C.ALL_REDUCE, plain, n_groups)
        assert cost(f"hierarchical_{name}") == (2 + steps, (2 * (size - 1) + wire) / size)
    for name, most in (("leaders", 1), ("two_leaders", 2), ("four_leaders", 4), ("eight_leaders", 8)):
        k = min(most, size)
        assert cost(name) == (2 + 2 * log(n_groups), (size + k - 2 + TWICE(n_groups)) / k)
    by_leaders = 3, ((size - 1) * (n - 1) + n - size) * Fraction(1, n)
    assert [cost_figures(c, "leaders", n, layout) for c in (C.ALL_GATHER, C.REDUCE_SCATTER)] == [by_leaders] * 2


@pytest.mark.parametrize("size", [1, 2, 3])
def test_folded_leaders_need_the_fewest_messages_between_groups(size: int) -> None:
    for n_groups in range(2, 18):
        n = n_groups * size
        ranks = tuple(range(n))
        groups = tuple(ranks[first : first + size] for first in range(0, n, size))
        layout = Layout(order=ranks, groups=groups)
        for collective in (C.ALL_REDUCE, C.ALL_GATHER):
            crossing = [
                {(t.src, t.dst) for t in step if t.src // size != t.dst // size}
                for step in build(collective, "folded_leaders", n, layout).expand()
            ]
            steps, wire = cost_figures(collective, "folded_leaders", n, layout)
            assert sum(map(len, crossing)) == 2 * (n_groups - 1)
            assert steps == 2 * log(n_groups) - 1 + 2 * (size > 1)
            most = size - 1 + log(n_groups)
            assert wire == most if collective is C.ALL_REDUCE else wire < most


def test_what_is_for_groups_of_one_rank() -> None:
    ranks = tuple(range(6))
    alone = Layout(order=ranks, groups=tuple((rank,) for rank in ranks))
    for collective in Collective:
        new = set(names(collective, 6, alone)) - set(names(collective, 6))
        assert new == ({"folded_leaders"} if collective in (C.ALL_REDUCE, C.ALL_GATHER) else set())
    with pytest.raises(UsageError, match=r"it needs two or more groups of ranks, one of them of two or more$"):
        build(C.ALL_REDUCE, "leaders", 6, alone)
    with pytest.raises(UsageError, match=r"it needs two or more groups of ranks$"):
        build(C.ALL_REDUCE, "folded_leaders", 6)


def test_uneven_groups_have_as_many_leaders_as_the_smallest_has_ranks() -> None:
    ranks = tuple(range(15))
    layout = Layout(order=ranks, groups=(ranks[:7], ranks[7:]))

    def crossing(name: str) -> set[tuple[int, int]]:
        steps = build(C.ALL_REDUCE, name, 15, layout).expand()
        return {(t.src, t.dst) for step in steps for t in step if (t.src < 7) != (t.dst < 7)}

    def columns(k: int) -> set[tuple[int, int]]:
        return {pair for j in range(k) for pair in ((j, 7 + j), (7 + j, j))}

    assert crossing("leaders") == columns(1)
    assert crossing("two_leaders") == columns(2)
    assert crossing("four_leaders") == columns(4)
    assert crossing("eight_leaders") == columns(7)
    assert crossing("hierarchical") == crossing("hierarchical_ring") == columns(7)


@pytest.mark.parametrize(
    ("collective", "name", "n", "message", "remedy"),
    [
        (C.ALL_REDUCE, "rign", 4, "algorithm 'rign' is not known", "did you mean 'ring'?"),
        (C.ALL_REDUCE, "dubble_tree", 4, "algorithm 'dubble_tree' is not known", "did you mean 'double_tree'?"),
        (C.ALL_REDUCE, "zzz", 4, "algorithm 'zzz' is not known", "use one of ring, tree, double_tree, chain"),
        (C.SCATTER, "pairwise", 4, "'pairwise' cannot do scatter over 4 ranks: it does not do scatter", "tree, flat"),
        (C.ALL_GATHER, "direct", DENSE_LIMIT + 1, "stops at 1024 ranks", "use one of ring, recursive_doubling, bruck"),
        (C.ALL_TO_ALL, "direct", DENSE_LIMIT + 1, "stops at 1024 ranks", "use 1024 ranks or fewer"),
        (C.ALL_REDUCE, "hierarchical", 6, "it needs two or more groups of ranks", "use one of ring, tree"),
        (C.ALL_REDUCE, "ring", 0, "0 ranks cannot run a collective", "use 1 rank or more"),
    ],
)
def test_errors_say_what_and_what_to_do(collective: Collective, name: str, n: int, message: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(collective, name, n)
    assert message in caught.value.message
    assert remedy in caught.value.remedy


def test_groups_decide_whether_hierarchical_is_legal() -> None:
    ranks = tuple(range(5))
    unequal = Layout(order=ranks, groups=(ranks[:3], ranks[3:]))
    assert "hierarchical" in names(C.ALL_REDUCE, 5, unequal)
    assert "hierarchical" not in names(C.ALL_GATHER, 5, unequal)
    with pytest.raises(UsageError, match="groups of equal size, and these have 3, 2 ranks"):
        build(C.ALL_GATHER, "hierarchical", 5, unequal)
    assert "leaders" in names(C.ALL_GATHER, 5, unequal)
    singles = Layout(order=ranks, groups=tuple((rank,) for rank in ranks))
    assert "hierarchical" not in names(C.ALL_REDUCE, 5, singles)
    one = Layout(order=ranks, groups=(ranks,))
    assert "hierarchical" not in names(C.ALL_REDUCE, 5, one)


def test_groups_are_ranks_and_schedules_are_positions() -> None:
    """Ranks 4 and 5 stand at positions 0 and 1, so they are the first group, and position 0 leads it."""
    layout = Layout(order=(4, 5, 0, 1, 2, 3), groups=((0, 1), (2, 3), (4, 5)))
    first = next(build(C.BROADCAST, "hierarchical", 6, layout).expand())
    assert [(src, dst) for src, dst, *_ in first] == [(0, 4)]
    last = list(build(C.BROADCAST, "hierarchical", 6, layout).expand())[-1]
    assert sorted((src, dst) for src, dst, *_ in last) == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    "layout",
    [
        Layout(order=(0, 1, 2)),
        Layout(order=(0, 1, 2, 3), groups=((0, 1), (2,))),
        Layout(order=(0, 1, 2, 3), groups=((0, 1), (1, 2, 3))),
    ],
)
def test_a_layout_of_other_ranks_is_a_bug(layout: Layout) -> None:
    with pytest.raises(ValueError, match="is not one of 4"):
        names(C.ALL_REDUCE, 4, layout)


def test_every_algorithm_describes_itself() -> None:
    assert len({a.name for a in ALGORITHMS}) == len(ALGORITHMS)
    for algorithm in ALGORITHMS:
        assert algorithm.summary
        assert "\n" not in algorithm.summary
        assert any(year in algorithm.source for year in ("19", "20", "HCCL"))
        assert bool(algorithm.plain) != bool(algorithm.grouped)
        assert algorithm.collectives
