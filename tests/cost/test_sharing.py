"""Max-min fair sharing: against the textbook over single flows, and by its defining properties."""

from __future__ import annotations

import numpy as np
import pytest
from cost import enumeration
from cost.cases import padded, sharings
from hypothesis import given

from autotune.cost.sharing import classes_of, end_times, fair_rates

Sharing = tuple[list[float], list[list[int]], list[float]]


def rates_of(flows: list[list[int]], capacity: list[float]) -> list[float]:
    classes = classes_of(np.ones(len(flows)), padded(flows), np.array(capacity))
    found: list[float] = fair_rates(classes.crossed, classes.capacity)[classes.of_flow].tolist()
    return found


@given(sharing=sharings())
def test_rates_are_those_of_the_textbook(sharing: Sharing) -> None:
    _, flows, capacity = sharing
    assert rates_of(flows, capacity) == pytest.approx(enumeration.fair_rates(flows, capacity))


@given(sharing=sharings())
def test_ends_are_those_of_single_flows(sharing: Sharing) -> None:
    sizes, flows, capacity = sharing
    found = end_times(np.array(sizes), padded(flows), np.array(capacity))
    assert found.tolist() == pytest.approx(enumeration.end_times(sizes, flows, capacity))


@given(sharing=sharings())
def test_no_resource_carries_more_than_it_can_and_every_flow_meets_a_full_one(sharing: Sharing) -> None:
    _, flows, capacity = sharing
    rates = rates_of(flows, capacity)
    load = [sum(rate for rate, flow in zip(rates, flows, strict=True) if r in flow) for r in range(len(capacity))]
    assert all(used <= limit * (1 + 1e-9) for used, limit in zip(load, capacity, strict=True))
    for flow in flows:
        assert not flow or any(load[r] >= capacity[r] * (1 - 1e-9) for r in flow)


@given(sharing=sharings())
def test_the_last_end_is_never_before_the_busiest_resource_is_done(sharing: Sharing) -> None:
    sizes, flows, capacity = sharing
    last = end_times(np.array(sizes), padded(flows), np.array(capacity)).max()
    for r, limit in enumerate(capacity):
        assert last >= sum(s for s, flow in zip(sizes, flows, strict=True) if r in flow) / limit * (1 - 1e-9)


@given(sharing=sharings())
def test_twice_the_capacity_is_half_the_time(sharing: Sharing) -> None:
    sizes, flows, capacity = sharing
    once = end_times(np.array(sizes), padded(flows), np.array(capacity))
    twice = end_times(np.array(sizes), padded(flows), 2 * np.array(capacity))
    assert twice == pytest.approx(once / 2)


def test_flows_that_see_the_same_are_one_class() -> None:
    """A ring over hosts of four: whatever its length, flows inside a host are one class and those between are one."""
    n = 64
    inside = [[i] for i in range(n) if i % 4 != 3]
    between = [[i, n + i // 4] for i in range(n) if i % 4 == 3]
    classes = classes_of(np.ones(n), padded(inside + between), np.array([10.0] * n + [2.0] * (n // 4)))
    assert len(classes.size) == 2
    assert len(set(classes.of_flow[: len(inside)].tolist())) == 1


def test_a_flow_gets_what_others_cannot_use() -> None:
    """Two flows share resource 0 of 10; one of them is held back to 2 elsewhere, so the other has 8."""
    assert rates_of([[0], [0, 1]], [10.0, 2.0]) == pytest.approx([8.0, 2.0])
