"""Which ranks make a group, and where they are pinned."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.launch.seats import members_of, pinned, placements, rank_counts

EVEN = ((0, 1), (2, 3))
UNEVEN = (tuple(range(7)), tuple(range(7, 15)))


def test_a_launch_has_the_groups_that_jobs_use() -> None:
    assert rank_counts(EVEN) == (2, 4)
    assert rank_counts(((0,), (1,), (2,), (3,))) == (4,)
    assert rank_counts(((0, 1, 2, 3),)) == (4,)
    assert placements(EVEN, 2) == ((2,), (1, 1))
    assert placements(EVEN, 4) == ((2, 2),)
    assert placements(UNEVEN, 15) == ((7, 8),)
    assert placements(UNEVEN, 10) == ((2, 8), (5, 5))


def test_members_are_the_first_ranks_of_each_host() -> None:
    assert members_of(EVEN, (2,)) == (0, 1)
    assert members_of(EVEN, (1, 1)) == (0, 2)
    assert members_of(UNEVEN, (2, 8)) == (0, 1, *range(7, 15))


def test_what_was_not_started_cannot_be_had() -> None:
    with pytest.raises(UsageError, match="5 ranks are asked for, and the launcher started 4"):
        placements(EVEN, 5)
    for placement in ((3,), (1, 1, 1), (1, 3)):
        with pytest.raises(UsageError, match=r"the launcher started 2\+2"):
            members_of(EVEN, placement)


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), data=st.data())
@settings(deadline=None)
def test_every_placement_can_be_had(sizes: list[int], data: st.DataObject) -> None:
    first = 0
    hosts = []
    for size in sizes:
        hosts.append(tuple(range(first, first + size)))
        first += size
    n_ranks = data.draw(st.integers(1, first))
    for placement in placements(hosts, n_ranks):
        members = members_of(hosts, placement)
        assert len(set(members)) == n_ranks
        assert tuple(sorted(filter(None, (len({*host} & {*members}) for host in hosts)))) == placement


def test_ranks_are_pinned_apart_as_far_as_the_launcher_lets_them() -> None:
    assert pinned({0: (0, 2, 1, 3), 1: (0, 2, 1, 3)}) == {0: 0, 1: 2}
    assert pinned({4: (0,), 5: (1,)}) == {4: 0, 5: 1}
    assert pinned({0: (0, 1), 1: (0, 1), 2: (0, 1), 3: (0, 1)}) == {0: 0, 1: 1, 2: 0, 3: 1}
