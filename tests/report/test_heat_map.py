from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from report.made import DIRECT, RING, TREE, a_key, a_problem, a_verdict, lines

from autotune.report.heat_map import heat_map
from autotune.types import Collective, DType, Memory


def test_a_block_shows_config_gain_over_the_default_and_over_the_ring() -> None:
    two, four = a_key(2), a_key(4)
    verdicts = [
        a_verdict(a_problem(1024, two), RING, gain=1.0),
        a_verdict(a_problem(65536, two), DIRECT, gain=1.3, default=TREE),
        a_verdict(a_problem(1024, four), DIRECT, gain=1.6),
    ]
    failed = {a_problem(65536, four)}
    shown = heat_map(
        {verdict.problem: verdict for verdict in verdicts},
        keys=(two, four),
        sizes=(1024, 65536, 1 << 20),
        failed=failed,
        width=100,
    )
    assert lines(shown)[2:] == [
        "",
        "all_reduce float32 sum",
        " size  2 ranks        gain   ring  4 ranks   gain   ring",
        " 1KiB  ring              =  1.00x  direct   1.60x  1.60x",
        "64KiB  direct/16KiB  1.30x         failed",
        " 1MiB  -                           -",
    ]


def test_the_segment_is_shown_where_it_cuts_the_message() -> None:
    small, large = a_problem(16384), a_problem(16388)
    verdicts = {problem: a_verdict(problem, DIRECT, gain=1.2) for problem in (small, large)}
    found = lines(heat_map(verdicts, keys=(a_key(),), sizes=(16384, 16388), width=100))
    assert "direct " in found[-2]
    assert "direct/16KiB " in found[-1]


def test_a_config_that_is_no_better_is_not_called_one() -> None:
    problem = a_problem(1024)
    verdict = a_verdict(problem, DIRECT, gain=1.01)
    assert verdict.is_default
    row = lines(heat_map({problem: verdict}, keys=(a_key(),), sizes=(1024,), width=100))[-1]
    assert row.split() == ["1KiB", "ring", "=", "1.00x"]


def test_both_kinds_of_memory_have_blocks_of_their_own() -> None:
    private, shared = a_key(2), replace(a_key(2), memory=Memory.SYMMETRIC)
    verdicts = [
        a_verdict(a_problem(1024, private), RING, gain=1.0),
        a_verdict(a_problem(1024, shared), DIRECT, gain=1.6),
    ]
    shown = heat_map({v.problem: v for v in verdicts}, keys=(private, shared), sizes=(1024,), width=100)
    found = lines(shown)
    assert [line for line in found if line.startswith("all_reduce")] == [
        "all_reduce float32 sum",
        "all_reduce float32 sum, symmetric memory",
    ]
    assert found[-1].split() == ["1KiB", "direct", "1.60x", "1.60x"]


def test_collectives_and_types_have_blocks_of_their_own_in_the_order_of_the_plan() -> None:
    kinds = [
        a_key(2, Collective.BROADCAST),
        a_key(2, dtype=DType.BFLOAT16),
        a_key(4, Collective.BROADCAST),
        a_key(4, dtype=DType.BFLOAT16),
    ]
    found = lines(heat_map({}, keys=kinds, sizes=(1024,), width=100))
    titles = [below for line, below in itertools.pairwise(found) if not line]
    assert titles == ["broadcast", "all_reduce bfloat16 sum"]
    assert sum("2 ranks" in line and "4 ranks" in line for line in found) == 2


def test_a_size_that_was_rounded_up_stands_in_the_row_that_was_planned() -> None:
    key = a_key(3, Collective.ALL_GATHER)
    problem = a_problem(1026, key)
    verdict = a_verdict(problem, DIRECT, gain=1.2)
    row = lines(heat_map({problem: verdict}, keys=(key,), sizes=(1024,), width=100))[-1]
    assert row.split() == ["1KiB", "direct", "1.20x", "1.20x"]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_rank_counts_that_do_not_fit_stand_below_each_other(width: int) -> None:
    keys = [a_key(n) for n in (2, 3, 4, 8)]
    problems = [a_problem(1 << 20, key) for key in keys]
    verdicts = {problem: a_verdict(problem, TREE, gain=1.5) for problem in problems}
    found = lines(heat_map(verdicts, keys=keys, sizes=(1 << 20,), width=width), width)[2:]
    assert max(map(len, found)) <= width
    assert sum(line.count("recursive_halving_doubling/256KiB") for line in found) == 4
    columns_beside = max(line.count("ranks") for line in found)
    assert columns_beside == max(1, min(4, (width - 6) // 50))
