"""Prices over links: closed forms against enumeration, and what must hold of any price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cost import enumeration
from cost.cases import PARAMETERS, fat_tree, model_of, problem_of
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost import CodecCost, NetworkModel, NetworkParameters, crossbar
from autotune.errors import UsageError
from autotune.kernels.schedules import build
from autotune.types import Collective, Config, Problem

ALGORITHMS = ("ring", "tree", "double_tree", "recursive_halving_doubling", "nhr", "bruck", "hierarchical", "chain")


def enumerated_us(model: NetworkModel, problem: Problem, config: Config) -> float:
    key = problem.key
    schedule = build(key.collective, config.algorithm, key.n_ranks, model.layout)
    buffers = key.n_ranks if key.collective is Collective.ALL_TO_ALL else 1
    return enumeration.price_us(
        schedule,
        model.fabric,
        model.parameters,
        message_bytes=problem.message_bytes * buffers,
        segment_bytes=config.segment_bytes or 1,
        order=model.layout.order,
    )


@pytest.mark.parametrize("n_hosts", [2, 4, 8])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_closed_form_is_the_enumeration_on_a_fat_tree(algorithm: str, n_hosts: int) -> None:
    model = model_of(fat_tree(n_hosts, nics=4))
    for size, segment in ((1 << 10, 1 << 20), (4 << 20, 64 << 10)):
        problem = problem_of(Collective.ALL_REDUCE, 8 * n_hosts, size)
        config = Config(algorithm=algorithm, segment_bytes=segment)
        assert model.price(problem, config).time_us == pytest.approx(enumerated_us(model, problem, config))


@pytest.mark.parametrize("collective", list(Collective))
@pytest.mark.parametrize("n_hosts", [1, 3])
def test_every_legal_algorithm_is_priced_as_its_enumeration(collective: Collective, n_hosts: int) -> None:
    model = model_of(fat_tree(n_hosts, per_host=4, nics=2))
    order = tuple(int(rank) for rank in np.random.default_rng(3).permutation(4 * n_hosts))
    model = replace(model, layout=replace(model.layout, order=order))
    problem = problem_of(collective, 4 * n_hosts, 1 << 20)
    for algorithm in model.algorithms(collective):
        config = Config(algorithm=algorithm, segment_bytes=32 << 10)
        assert model.price(problem, config).time_us == pytest.approx(enumerated_us(model, problem, config)), algorithm


def test_a_ring_is_the_textbook() -> None:
    """2 (n - 1) (alpha + S / n / beta) on a switch, without slices and with nothing but links to pay."""
    model = model_of(
        crossbar(8, gb_per_s=10.0, latency_us=2.0),
        NetworkParameters(call_us=0.0, message_us=0.0, reduce_us_per_kb=0.0),
    )
    problem = problem_of(Collective.ALL_REDUCE, 8, 8 << 20)
    price = model.price(problem, Config(algorithm="ring", segment_bytes=1 << 20))
    assert price.fill_us == pytest.approx(14 * (2.0 + (1 << 20) / 10e3))
    assert price.slices == 1


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    sizes=st.tuples(st.integers(3, 27), st.integers(3, 27)).map(sorted),
    segment=st.sampled_from([None, 64 << 10, 1 << 20]),
)
def test_more_bytes_are_never_faster(algorithm: str, sizes: list[int], segment: int | None) -> None:
    model = model_of(fat_tree(2))
    config = Config(algorithm=algorithm, segment_bytes=segment)
    less, more = (model.price(problem_of(Collective.ALL_REDUCE, 16, 1 << k), config).time_us for k in sizes)
    assert less <= more * (1 + 1e-9)


@given(algorithm=st.sampled_from(ALGORITHMS), factor=st.floats(1.0, 16.0), size=st.integers(3, 27))
def test_more_bandwidth_is_never_slower(algorithm: str, factor: float, size: int) -> None:
    problem = problem_of(Collective.ALL_REDUCE, 16, 1 << size)
    config = Config(algorithm=algorithm, segment_bytes=256 << 10)
    fabric = fat_tree(2)
    host = replace(fabric.host, capacity_gb_per_s=fabric.host.capacity_gb_per_s * factor)
    slow, fast = (model_of(f).price(problem, config).time_us for f in (fabric, replace(fabric, host=host)))
    assert fast <= slow * (1 + 1e-9)


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    size=st.integers(3, 27),
    values=st.lists(st.floats(0.01, 10.0), min_size=6, max_size=6),
)
def test_terms_times_parameters_are_the_price(algorithm: str, size: int, values: list[float]) -> None:
    parameters = NetworkParameters.of(np.array(values))
    model = model_of(fat_tree(2), parameters)
    problem, config = problem_of(Collective.ALL_REDUCE, 16, 1 << size), Config(algorithm=algorithm, segment_bytes=65536)
    terms = model.terms(problem, config, parameters.vector())
    assert float(terms @ parameters.vector()) == pytest.approx(model.price(problem, config).time_us)


@pytest.mark.parametrize(
    ("collective", "algorithm", "turns"),
    [
        (Collective.ALL_REDUCE, "ring", 0),  # one neighbour for ever
        (Collective.ALL_REDUCE, "direct", 0),  # all others, twice
        (Collective.BROADCAST, "chain", 0),
        (Collective.ALL_REDUCE, "recursive_halving_doubling", 4),  # 4 2 1 1 2 4, and 4 again
        (Collective.ALL_TO_ALL, "pairwise", 7),  # every step, the first one after the last
    ],
)
def test_a_change_of_partner_costs_a_turn(collective: Collective, algorithm: str, turns: int) -> None:
    problem, config = problem_of(collective, 8, 1 << 20), Config(algorithm=algorithm)
    fabric = crossbar(8, gb_per_s=1.0, latency_us=2.0)
    with_turns, without = (model_of(fabric, NetworkParameters(turn_us=turn_us)) for turn_us in (100.0, 0.0))
    more = with_turns.price(problem, config).time_us - without.price(problem, config).time_us
    assert more == pytest.approx(100.0 * turns)


def test_prices_do_not_depend_on_what_was_priced_before() -> None:
    problem, config = problem_of(Collective.ALL_REDUCE, 16, 1 << 20), Config(algorithm="bruck", segment_bytes=65536)
    first = model_of(fat_tree(2)).price(problem, config)
    again = model_of(fat_tree(2))
    again.price(problem_of(Collective.BROADCAST, 16, 8), replace(config, algorithm="tree"))
    assert again.price(problem, config) == first


def test_a_codec_costs_time_and_saves_wire() -> None:
    codecs = {"half": CodecCost(wire_share=0.5, us_per_kb=0.001), "slow": CodecCost(wire_share=0.5, us_per_kb=1.0)}
    model = replace(model_of(fat_tree(2)), codecs=codecs)
    problem, plain = problem_of(Collective.ALL_REDUCE, 16, 64 << 20), Config(algorithm="ring", segment_bytes=1 << 20)
    times = {codec: model.price(problem, replace(plain, codec=codec)).time_us for codec in ("none", "half", "slow")}
    assert times["half"] < times["none"] < times["slow"]
    with pytest.raises(UsageError, match="int4"):
        model.price(problem, replace(plain, codec="int4"))


def test_a_knob_is_refused() -> None:
    problem = problem_of(Collective.ALL_REDUCE, 16, 8)
    with pytest.raises(UsageError, match="slices_in_flight"):
        model_of(fat_tree(2)).price(problem, Config(algorithm="ring", knobs=(("slices_in_flight", 2),)))


def test_one_rank_pays_for_the_call_alone() -> None:
    model = model_of(crossbar(1, gb_per_s=1.0, latency_us=1.0))
    price = model.price(problem_of(Collective.ALL_REDUCE, 1, 1 << 20), Config(algorithm="ring", segment_bytes=4096))
    assert price.time_us == PARAMETERS.call_us


@pytest.mark.parametrize("algorithm", ["direct", "flat"])
def test_what_has_a_message_for_each_pair_stops_at_1024_ranks(algorithm: str) -> None:
    model = model_of(fat_tree(256))
    assert algorithm not in model.algorithms(Collective.ALL_REDUCE)
    with pytest.raises(UsageError, match="stops at 1024 ranks"):
        model.price(problem_of(Collective.ALL_REDUCE, 2048, 8192), Config(algorithm=algorithm, segment_bytes=65536))


def test_16384_ranks_are_a_matter_of_seconds() -> None:
    """Pipelining, a chain's single messages and NHR's blocks all have closed forms."""
    model = model_of(fat_tree(2048, hosts_per_leaf=32))
    problem = problem_of(Collective.ALL_REDUCE, 16384, 1 << 30)
    assert {"nhr", "ring", "chain"} <= set(model.algorithms(Collective.ALL_REDUCE))
    for algorithm in ("ring", "nhr", "hierarchical"):
        price = model.price(problem, Config(algorithm=algorithm, segment_bytes=1 << 20))
        assert 0 < price.fill_us <= price.time_us
