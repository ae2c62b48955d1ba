"""The solver against every subset, its bound against the truth, and what limits leave."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import AutotuneError
from autotune.portfolio import Cell, Option, Solution, solve

TIMES = st.one_of(st.none(), st.integers(1, 60).map(float))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Cell], list[Option], int, int | None]:
    n_options, n_cells = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    cells = [
        Cell(
            weight=float(draw(st.integers(0, 5))),
            free_us=float(draw(st.integers(1, 20))),
            times_us=tuple(draw(st.lists(TIMES, min_size=n_options, max_size=n_options))),
        )
        for _ in range(n_cells)
    ]
    words = st.sampled_from([None, None, "aiv", "other"])
    options = [Option(memory_bytes=draw(st.integers(0, 5)), exclusive=draw(words)) for _ in range(n_options)]
    return cells, options, draw(st.integers(1, 5)), draw(st.one_of(st.none(), st.integers(0, 12)))


def loss_of(cells: list[Cell], chosen: tuple[int, ...]) -> float:
    total = sum(cell.weight for cell in cells)
    losses = []
    for cell in cells:
        times = [t for number in chosen if (t := cell.times_us[number]) is not None]
        if not times:
            return math.inf
        losses.append((cell.weight / total if total else 1 / len(cells)) * (min(times) / cell.free_us - 1))
    return math.fsum(losses)


def legal(options: list[Option], chosen: tuple[int, ...], most: int, memory: int | None) -> bool:
    words = [options[n].exclusive for n in chosen if options[n].exclusive is not None]
    within = memory is None or sum(options[n].memory_bytes for n in chosen) <= memory
    return len(chosen) <= most and within and len(words) == len(set(words))


def by_hand(cells: list[Cell], options: list[Option], most: int, memory: int | None) -> float:
    """Of every subset."""
    every = itertools.chain.from_iterable(
        itertools.combinations(range(len(options)), size) for size in range(1, len(options) + 1)
    )
    return min((loss_of(cells, c) for c in every if legal(options, c, most, memory)), default=math.inf)


@given(problem=problems())
def test_small_problems_are_solved_as_by_trying_every_subset(
    problem: tuple[list[Cell], list[Option], int, int | None],
) -> None:
    cells, options, most, memory = problem
    best = by_hand(cells, options, most, memory)
    if math.isinf(best):
        with pytest.raises(AutotuneError, match="were found that serve all of"):
            solve(cells, options, max_groups=most, max_memory_bytes=memory)
        return
    found = solve(cells, options, max_groups=most, max_memory_bytes=memory)
    assert found.proved
    assert found.loss == pytest.approx(best, abs=1e-9)
    check(found, cells, options, most, memory)


@given(problem=problems())
def test_without_a_proof_the_bound_is_no_lie_and_the_choice_is_legal(
    problem: tuple[list[Cell], list[Option], int, int | None],
) -> None:
    cells, options, most, memory = problem
    best = by_hand(cells, options, most, memory)
    try:
        found = solve(cells, options, max_groups=most, max_memory_bytes=memory, nodes=0)
    except AutotuneError:
        return  # greedy may miss a choice that serves every cell, and then says so
    assert not found.proved
    assert found.bound <= best + 1e-9 <= found.loss + 2e-9
    check(found, cells, options, most, memory)


def check(found: Solution, cells: list[Cell], options: list[Option], most: int, memory: int | None) -> None:
    assert legal(options, found.chosen, most, memory)
    assert found.loss == pytest.approx(loss_of(cells, found.chosen), abs=1e-9)
    for cell, taken in zip(cells, found.served_by, strict=True):
        served = [t for number in found.chosen if (t := cell.times_us[number]) is not None]
        assert taken in found.chosen
        assert cell.times_us[taken] == min(served)


def large(n_options: int, n_cells: int) -> tuple[list[Cell], list[Option]]:
    """Options that are each good somewhere, from a fixed congruence."""
    cells = [
        Cell(
            weight=1.0 + cell % 5,
            free_us=10.0,
            times_us=tuple(10.0 + (cell * 7919 + option * 104729) % 997 / 10 for option in range(n_options)),
        )
        for cell in range(n_cells)
    ]
    return cells, [Option(memory_bytes=1 + option % 3) for option in range(n_options)]


def test_a_large_problem_comes_with_a_bound_that_is_not_the_trivial_one() -> None:
    cells, options = large(60, 40)
    found = solve(cells, options, max_groups=4, max_memory_bytes=8, nodes=50)
    assert not found.proved
    free = loss_of(cells, tuple(range(60)))
    assert free < found.bound <= found.loss
    assert found.loss < 2 * found.bound


@settings(max_examples=20)
@given(most=st.integers(1, 6))
def test_more_groups_never_lose_more(most: int) -> None:
    cells, options = large(12, 10)
    fewer, more = (solve(cells, options, max_groups=k).loss for k in (most, most + 1))
    assert more <= fewer


def test_a_group_that_excludes_another_is_made_once() -> None:
    cells = [Cell(weight=1.0, free_us=1.0, times_us=times) for times in ((1.0, 9.0, 2.0), (9.0, 1.0, 2.0))]
    options = [Option(memory_bytes=0, exclusive="aiv"), Option(memory_bytes=0, exclusive="aiv"), Option(memory_bytes=0)]
    found = solve(cells, options, max_groups=3)
    assert (found.chosen, found.loss) == ((0, 2), pytest.approx(0.5))


def test_what_is_no_problem_is_a_bug() -> None:
    with pytest.raises(ValueError, match="one time for each option"):
        solve([], [], max_groups=1)
    with pytest.raises(ValueError, match="not a cell"):
        Cell(weight=-1.0, free_us=1.0, times_us=())
