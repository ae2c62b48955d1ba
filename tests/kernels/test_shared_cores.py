"""Ranks that share cores: who they are, which algorithms there are for them, and what runs where none share any. Random
calls by these are among those of test_collectives.py and test_symmetric_collectives.py.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

import pytest
from ranks.cases import Call
from ranks.pool import Ranks

from autotune.kernels import shared_core_names, sharing
from autotune.kernels.programs import Route, layout_of, load_program
from autotune.kernels.schedules.registry import build
from autotune.types import Collective

CORES = sorted(os.sched_getaffinity(0))
TURNS = (0, 1, 0, 1)
LARGE = float(1 << 24)  # float32 has no LARGE + 1


@pytest.mark.parametrize(
    ("cores", "found"),
    [
        ((0, 1, 0, 1), (0, 1, 0, 1)),
        ((3, 3, 7), (3, 3, 7)),
        ((0, 1, 2), ()),  # a core each
        ((5, 5, 5), ()),  # one core: nothing crosses
        ((0, 1, 0, -1), ()),  # one may run anywhere
        ((0,), ()),
        ((), ()),
    ],
)
def test_who_shares_a_core(cores: Sequence[int], found: tuple[int, ...]) -> None:
    assert sharing(cores) == found


def test_leaders_are_the_first_ranks_of_their_cores_and_the_root_of_its() -> None:
    assert layout_of(5, None, (0, 1, 0, 1, 0)).groups == ((0, 2, 4), (1, 3))
    assert layout_of(4, 3, TURNS).groups == ((3, 1), (0, 2))


def test_there_are_some_where_cores_are_shared() -> None:
    assert shared_core_names(Collective.ALL_REDUCE, TURNS) == ("leaders", "folded_leaders", "owners")
    assert shared_core_names(Collective.REDUCE, TURNS) == ("leaders",)
    assert shared_core_names(Collective.ALL_REDUCE, ()) == ()
    assert shared_core_names(Collective.ALL_TO_ALL, TURNS) == ()
    assert set(shared_core_names(Collective.ALL_REDUCE, TURNS, zero_copy=True)) < {
        "leaders",
        "folded_leaders",
        "owners",
    }


@pytest.mark.parametrize("n", range(3, 9))
def test_what_is_offered_over_symmetric_memory_runs_with_every_root(n: int) -> None:
    """reduce by leaders keeps a sum in scratch where another core than the root's has two ranks."""
    cores = tuple(rank % 2 for rank in range(n))
    for collective in Collective:
        for name in shared_core_names(collective, cores, zero_copy=True):
            for root in range(n if collective.has_root else 1):
                for in_place in (False, True):
                    load_program(collective, Route(name, "zero_copy", in_place, cores=cores), n, 0, root)
    assert shared_core_names(Collective.REDUCE, cores, zero_copy=True) == ()
    assert shared_core_names(Collective.BROADCAST, cores, zero_copy=True) == ("leaders",)
    assert "leaders" in shared_core_names(Collective.ALL_REDUCE, cores, zero_copy=True)


@pytest.mark.parametrize("name", ["leaders", "owners"])
def test_a_block_crosses_to_another_core_once_on_its_way_to_the_sum(name: str) -> None:
    """Two cores with four ranks each: both directions of every step that sums."""
    cores = tuple(rank % 2 for rank in range(8))
    layout = layout_of(8, None, cores)
    schedule = build(Collective.ALL_REDUCE, name, 8, layout)
    crossing = [
        (transfer.src, block)
        for step in schedule.expand()
        for transfer in step
        for block in transfer.blocks
        if transfer.reduce and cores[layout.order[transfer.src]] != cores[layout.order[transfer.dst]]
    ]
    assert len(crossing) == len(set(crossing)) <= 2 * schedule.blocks


@pytest.mark.parametrize("bound", [True, False])
def test_the_named_algorithm_runs_where_ranks_are_bound_to_cores_that_they_share(bound: bool) -> None:
    """In the order of ranks LARGE + 1 - LARGE + 1 rounds to 1; core by core, ranks 0 and 2 first, it is 2."""
    cores: list[Collection[int]] = [[CORES[core % len(CORES)]] if bound else CORES for core in TURNS]
    step = {
        "do": "method",
        "group": "g",
        "method": "all_reduce",
        "arguments": {"config": ["direct", 4096, [["shared_cores", "leaders"]]]},
    }
    parts = (LARGE, 1.0, -LARGE, 1.0)
    with Ranks(4, cores=cores) as ranks:
        assert [answer.errors for answer in ranks.join()] == [[]] * 4
        steps = {rank: [step | {"arrays": {"array": [[part], "float32"]}}] for rank, part in enumerate(parts)}
        answers = ranks.ask(steps)
    expected = 2.0 if bound and len(CORES) > 1 else 1.0
    assert [answer.results for answer in answers] == [
        [{"arrays": {"array": [expected]}, "returned": [expected]}] for _ in parts
    ]


@pytest.mark.parametrize(
    ("call", "message", "remedy"),
    [
        (
            Call(collective=Collective.ALL_REDUCE, algorithm="direct", shared_cores="ring"),
            "shared_cores is 'ring'",
            "give leaders or folded_leaders or owners",
        ),
        (
            Call(collective=Collective.ALL_REDUCE, algorithm="direct", shared_cores="leaders", codec="int8"),
            "what a codec is off by is not known of shared_cores",
            "leave out shared_cores, or use the codec none",
        ),
    ],
)
def test_what_is_refused(call: Call, message: str, remedy: str) -> None:
    with Ranks(2) as ranks:
        ranks.join()
        answers = ranks.ask({rank: [{"do": "call", "group": "g", "call": call.to_json()}] for rank in range(2)})
    for answer in answers:
        assert message in answer.errors[0]
        assert answer.results[0]["remedy"] == remedy


def test_an_algorithm_that_does_not_do_the_collective_is_refused() -> None:
    cores = [[CORES[core % len(CORES)]] for core in TURNS]
    call = Call(collective=Collective.ALL_TO_ALL, algorithm="direct", shared_cores="owners", count=4)
    with Ranks(4, cores=cores) as ranks:
        ranks.join()
        answers = ranks.ask({rank: [{"do": "call", "group": "g", "call": call.to_json()}] for rank in range(4)})
    expected = ["algorithm 'owners' cannot do all_to_all over 4 ranks: it does not do all_to_all"]
    assert [answer.errors for answer in answers] == [expected if len(CORES) > 1 else []] * 4
