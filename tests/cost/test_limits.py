"""The least time of a fabric: worked out by hand, and never above what any schedule takes."""

from __future__ import annotations

import pytest
from cost.cases import fat_tree, model_of, problem_of

from autotune.cost import NetworkParameters, crossbar, least_us
from autotune.types import Collective, Config

FREE = NetworkParameters(call_us=0.0, message_us=0.0, latency_share=0.0, reduce_us_per_kb=0.0)
MIB = 1 << 20


def test_a_switch_is_left_through_one_port() -> None:
    fabric = crossbar(8, gb_per_s=10.0, latency_us=1.0)
    assert least_us(fabric, (), Collective.ALL_REDUCE, MIB) == pytest.approx(2 * 7 / 8 * MIB / 10e3)
    assert least_us(fabric, (), Collective.ALL_GATHER, MIB) == pytest.approx(7 / 8 * MIB / 10e3)
    assert least_us(fabric, (), Collective.BROADCAST, MIB) == pytest.approx(MIB / 10e3)
    assert least_us(crossbar(1, gb_per_s=10.0, latency_us=1.0), (), Collective.ALL_REDUCE, MIB) is None


def test_a_mesh_is_left_through_all_its_wires() -> None:
    fabric = fat_tree(1)
    assert least_us(fabric, (), Collective.ALL_REDUCE, MIB) == pytest.approx(2 * 7 / 8 * MIB / (7 * 20e3))


def test_between_hosts_the_narrowest_cut_decides() -> None:
    """Two NICs of 25 GB/s a host; a leaf of two hosts with four of them has uplinks of 50."""
    fabric = fat_tree(4, nics=2)
    assert least_us(fabric, (), Collective.ALL_REDUCE, MIB) == pytest.approx(2 * 3 / 4 * MIB / 50e3)
    tight = fat_tree(4, nics=2, oversubscription=8.0)
    assert least_us(tight, (), Collective.ALL_REDUCE, MIB) == pytest.approx(2 * 1 / 2 * MIB / 12.5e3)


def test_groups_are_cuts_too() -> None:
    fabric = crossbar(4, gb_per_s=10.0, latency_us=1.0)
    grouped = least_us(fabric, ((0, 1), (2, 3)), Collective.ALL_REDUCE, MIB)
    assert grouped == pytest.approx(max(2 * 3 / 4 * MIB / 10e3, 2 * 1 / 2 * MIB / 20e3))


def test_all_ranks_below_a_leaf_send_their_own_to_all_others() -> None:
    fabric = fat_tree(4, nics=2)
    assert least_us(fabric, (), Collective.ALL_TO_ALL, MIB) == pytest.approx(16 * 1 / 2 * MIB / 50e3)


@pytest.mark.parametrize("collective", list(Collective))
@pytest.mark.parametrize("n_hosts", [1, 4])
def test_no_schedule_beats_it(collective: Collective, n_hosts: int) -> None:
    model = model_of(fat_tree(n_hosts, per_host=4, nics=2), FREE)
    problem = problem_of(collective, 4 * n_hosts, 64 * MIB)
    bound = least_us(model.fabric, model.layout.groups, collective, problem.message_bytes)
    assert bound is not None
    for algorithm in model.algorithms(collective):
        price = model.price(problem, Config(algorithm=algorithm, segment_bytes=64 << 10))
        assert price.time_us >= bound * (1 - 1e-9), algorithm
