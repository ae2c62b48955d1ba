"""What each pattern promises beyond being right: the pictures of its docstring, and the two trees."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest

from autotune.kernels.schedules import (
    Schedule,
    bruck,
    chain,
    check,
    direct,
    doubling,
    flat,
    hierarchical,
    nhr,
    pairwise,
    ring,
    trees,
)
from autotune.types import Collective

Moves = list[set[tuple[int, int, tuple[int, ...]]]]


def moves(schedule: Schedule) -> Moves:
    """[step] -> (src, dst, all blocks that go from one to the other)."""
    found: Moves = []
    for step in schedule.expand():
        of_pair: dict[tuple[int, int], list[int]] = {}
        for src, dst, blocks, _ in step:
            of_pair.setdefault((src, dst), []).extend(blocks)
        found.append({(src, dst, tuple(sorted(blocks))) for (src, dst), blocks in of_pair.items()})
    return found


def picture(module: ModuleType) -> list[list[tuple[int, list[int], int]]]:
    """The arrows (src, numbers in brackets, dst) of each step that a pattern's docstring draws."""
    steps = []
    for line in (module.__doc__ or "").splitlines():
        if re.match(r"    step \d", line):
            arrows = re.findall(r"(?=(\d)\)? -+\[([\d ]+)\]-+> \(?(\d))", line)
            exchanges = re.findall(r"(\d) <--\[([\d ]+)\] \[([\d ]+)\]--> (\d)", line)
            for a, from_a, from_b, b in exchanges:
                arrows += [(a, from_a, b), (b, from_b, a)]
            steps.append([(int(src), [int(word) for word in text.split()], int(dst)) for src, text, dst in arrows])
    return steps


@pytest.mark.parametrize(
    ("module", "schedule"),
    [
        (ring, ring.all_gather(4)),
        (bruck, bruck.all_gather(4)),
        (nhr, nhr.all_gather(4)),
        (doubling, doubling.all_gather(4)),
        (hierarchical, hierarchical.all_gather(((0, 1), (2, 3)))),
    ],
)
def test_the_pictures_of_all_gather_are_true(module: ModuleType, schedule: Schedule) -> None:
    drawn = [{(src, dst, tuple(sorted(blocks))) for src, blocks, dst in step} for step in picture(module)]
    assert drawn == moves(schedule)


def test_the_picture_of_pairwise_is_true() -> None:
    drawn = [{(src, dst, (s * 4 + d,)) for src, (s, d), dst in step} for step in picture(pairwise)]
    assert drawn == moves(pairwise.all_to_all(4))


def test_the_small_pictures_are_true() -> None:
    assert moves(flat.broadcast(4)) == [{(0, 1, (0,)), (0, 2, (0,)), (0, 3, (0,))}]
    assert {m for m in moves(flat.all_reduce(4))[0] if m[1] == 0} == {(1, 0, (0,)), (2, 0, (0,)), (3, 0, (0,))}
    assert {m for m in moves(direct.all_gather(4))[0] if m[1] == 0} == {(1, 0, (1,)), (2, 0, (2,)), (3, 0, (3,))}
    assert moves(chain.broadcast(4)) == [{(0, 1, (0,))}, {(1, 2, (0,))}, {(2, 3, (0,))}]
    assert moves(trees.broadcast(4)) == [{(0, 2, (0,))}, {(0, 1, (0,)), (2, 3, (0,))}]
    down = moves(trees.double_all_reduce(4))[2:]
    assert down == [{(3, 1, (0,)), (0, 2, (1,))}, {(1, 0, (0,)), (1, 2, (0,)), (2, 1, (1,)), (2, 3, (1,))}]


@pytest.mark.parametrize("n", range(1, 66))
@pytest.mark.parametrize("make", [trees.double_all_reduce, trees.double_broadcast])
def test_double_tree_has_two_trees_and_nobody_is_inner_in_both(make: Callable[[int], Schedule], n: int) -> None:
    schedule = make(n)
    handing_out = [step for step in schedule.expand() if not step[0].reduce]
    inner: list[set[int]] = [set(), set()]
    for block in (0, 1):
        parent: dict[int, int] = {}
        for step in handing_out:
            for src, dst, blocks, _ in step:
                if block in blocks:
                    assert dst not in parent, "a position has two parents"
                    assert not parent or src in parent or src in parent.values(), "a parent is not reached yet"
                    parent[dst] = src
        assert len(parent) == n - 1
        children = [list(parent.values()).count(p) for p in range(n)]
        assert max(children) <= 2
        inner[block] = set(parent.values())
    if make is trees.double_broadcast:
        inner = [positions - {0} for positions in inner]  # the root heads both trees
    assert not inner[0] & inner[1]


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_nhr_sends_one_range_where_blocks_may_be_renamed(n: int) -> None:
    for step in nhr.all_reduce(n).steps:
        assert step.src.size == n


def test_bruck_and_nhr_differ_in_how_far_the_most_data_goes() -> None:
    """The last step of all_gather moves half of all data: nhr to the neighbour, bruck half around the circle."""
    last_nhr, last_bruck = nhr.all_gather(8).steps[-1], bruck.all_gather(8).steps[-1]
    assert set((last_nhr.dst - last_nhr.src) % 8) == {1}
    assert set((last_bruck.dst - last_bruck.src) % 8) == {4}


def test_hierarchical_enters_a_group_with_every_byte_once() -> None:
    groups = tuple(tuple(range(first, first + 4)) for first in range(0, 12, 4))
    crossing = [
        (dst // 4, block)
        for step in hierarchical.all_gather(groups).expand()
        for src, dst, blocks, _ in step
        if src // 4 != dst // 4
        for block in blocks
    ]
    assert len(crossing) == len(set(crossing)) == 3 * 8


def test_hierarchical_needs_columns_for_all_gather() -> None:
    with pytest.raises(ValueError, match=r"groups of \[1, 2\] positions have no columns"):
        hierarchical.all_gather(((0,), (1, 2)))
    check(Collective.ALL_REDUCE, hierarchical.all_reduce(((0,), (1, 2))))
