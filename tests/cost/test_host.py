"""Prices on shared memory: what ranks do, where it lies, and what must hold of any price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cost.cases import problem_of
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost import HostModel, HostParameters
from autotune.cost import work as columns
from autotune.cost.work import work_of
from autotune.errors import UsageError
from autotune.kernels.schedules import names
from autotune.types import Collective, Config

HOST = HostModel(n_ranks=4, n_cores=2, l2_bytes=1 << 20, l3_bytes=32 << 20, staging_bytes=8 << 20)
V, AT = HOST.parameters.vector(), {name: at for at, name in enumerate(HostParameters.names())}
ALGORITHMS = names(Collective.ALL_REDUCE, 4)


def price_us(model: HostModel, config: Config, size: int, collective: Collective = Collective.ALL_REDUCE) -> float:
    return model.price(problem_of(collective, model.n_ranks, size), config).time_us


def test_work_of_a_flat_all_reduce() -> None:
    """Four ranks on two cores: each stages its buffer, reads one near and two far, and writes the sum."""
    counts = work_of(Collective.ALL_REDUCE, "flat", 4, 2).counts
    first, second = counts[:, 1, :]
    assert (first[columns.INPUT], first[columns.OUTBOX], first.sum()) == (1, 1, 2)
    assert (second[columns.NEAR], second[columns.FAR], second[columns.INPUT], second[columns.OUTPUT]) == (1, 2, 1, 1)
    assert second[columns.MESSAGES] == 3


def test_a_second_destination_is_read_once_more() -> None:
    """In a ring's all_gather half, what arrives is kept and passed on."""
    counts = work_of(Collective.ALL_GATHER, "ring", 4, 2).counts
    assert counts[:, 0, columns.AGAIN].tolist() == [0, 1, 1, 0]


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    size=st.integers(3, 25),
    segment=st.sampled_from([16 << 10, 64 << 10, 1 << 20]),
    values=st.lists(st.floats(0.001, 1.0), min_size=20, max_size=20),
)
def test_terms_times_parameters_are_the_price(algorithm: str, size: int, segment: int, values: list[float]) -> None:
    model = replace(HOST, parameters=HostParameters.of(np.array(values)))
    problem = problem_of(Collective.ALL_REDUCE, 4, 1 << size)
    config = Config(algorithm=algorithm, segment_bytes=segment)
    terms = model.terms(problem, config, model.parameters.vector())
    assert float(terms @ model.parameters.vector()) == pytest.approx(model.price(problem, config).time_us)


@given(algorithm=st.sampled_from(ALGORITHMS), size=st.integers(3, 25), factor=st.floats(1.0, 8.0))
def test_slower_memory_is_never_faster(algorithm: str, size: int, factor: float) -> None:
    slower = replace(HOST, parameters=HostParameters.of(HOST.parameters.vector() * factor))
    config = Config(algorithm=algorithm, segment_bytes=64 << 10)
    assert price_us(slower, config, 1 << size) == pytest.approx(factor * price_us(HOST, config, 1 << size))


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    sizes=st.tuples(st.integers(3, 23), st.integers(3, 23)).map(sorted),
    segment=st.sampled_from([None, 1 << 20]),
)
def test_more_bytes_are_never_faster(algorithm: str, sizes: list[int], segment: int | None) -> None:
    """With one price for a byte wherever it lies; else a larger message may leave a hot outbox behind."""
    flat = {name: 0.02 for name in HostParameters.names() if not name.endswith("_us")}
    model = replace(HOST, parameters=replace(HOST.parameters, **flat))
    config = Config(algorithm=algorithm, segment_bytes=segment)
    less, more = (price_us(model, config, 1 << size) for size in sizes)
    assert less <= more * (1 + 1e-9)


def test_ranks_that_share_cores_switch_in_every_wave() -> None:
    ring, flat = (Config(algorithm=name, segment_bytes=64 << 10) for name in ("ring", "flat"))
    shared, apart = HOST, replace(HOST, n_cores=4)
    assert price_us(shared, ring, 8) > 5 * price_us(apart, ring, 8)
    assert price_us(shared, flat, 8) < price_us(shared, ring, 8) / 3


def test_what_no_cache_holds_costs_more_for_each_byte() -> None:
    config = Config(algorithm="direct", segment_bytes=64 << 10)
    inside, beyond = (price_us(HOST, config, size) / size for size in (256 << 10, 8 << 20))
    assert beyond > 1.2 * inside


def test_short_calls_of_a_root_run_into_each_other() -> None:
    """A sample of a short broadcast is many calls, in which the root is a call ahead; a long one is timed alone."""
    config = Config(algorithm="flat", segment_bytes=1 << 20)
    two = replace(HOST, n_ranks=2)
    short, long = (two.terms(problem_of(Collective.BROADCAST, 2, size), config, V) for size in (64 << 10, 1 << 20))
    assert short[AT["far_cached"]] + short[AT["far_shared"]] == 0  # the root has more to do than its reader
    assert long[AT["far_cached"]] + long[AT["far_shared"]] > 0


def test_messages_go_round_the_outbox() -> None:
    """A slot of 128 KiB comes again after a megabyte, two of 64 KiB after half of that, while readers still hold it."""
    problem = problem_of(Collective.BROADCAST, 2, 128 << 10)
    two = replace(HOST, n_ranks=2)
    whole, halves = (
        two.terms(problem, Config(algorithm="flat", segment_bytes=size), V) for size in (128 << 10, 64 << 10)
    )
    assert whole[AT["outbox_cached"]] < halves[AT["outbox_cached"]]


def test_two_ranks_that_answer_each_other_take_each_line_once() -> None:
    """Who writes where it has read pays for no outbox, and its reader for what comes from the other's cache."""
    config = Config(algorithm="direct", segment_bytes=1 << 20)
    two, three = (
        replace(HOST, n_ranks=n, n_cores=n).terms(problem_of(Collective.ALL_GATHER, n, n * 32 << 10), config, V)
        for n in (2, 3)
    )
    assert two[AT["outbox_cached"]] + two[AT["outbox_shared"]] == two[AT["far_cached"]] == 0.0
    assert two[AT["far_shared"]] > 0.0
    assert three[AT["outbox_cached"]] + three[AT["outbox_shared"]] > 0.0


def test_a_bulky_message_has_a_price_of_its_own() -> None:
    config = Config(algorithm="flat", segment_bytes=1 << 20)
    terms = [HOST.terms(problem_of(Collective.ALL_REDUCE, 4, size), config, V) for size in (2 << 10, 8 << 10)]
    assert [term[AT["bulk_us"]] for term in terms] == [0.0, 6.0]  # three peers of each of two ranks on a core


def test_large_outputs_are_streamed() -> None:
    config = Config(algorithm="flat", segment_bytes=64 << 10)
    free = replace(HOST, parameters=replace(HOST.parameters, output_streamed=0.0))
    assert price_us(free, config, 15 << 20) == price_us(HOST, config, 15 << 20)
    assert price_us(free, config, 16 << 20) < price_us(HOST, config, 16 << 20)


def test_the_root_alone_is_busy_in_a_gather() -> None:
    """A gather of a root costs what the root does: about as much as its part of an all_gather."""
    config = Config(algorithm="flat", segment_bytes=1 << 20)
    apart = replace(HOST, n_cores=4)
    gather = price_us(apart, config, 256 << 10, Collective.GATHER)
    everybody = price_us(apart, replace(config, algorithm="direct"), 256 << 10, Collective.ALL_GATHER)
    assert 0.3 * everybody < gather <= everybody


def test_what_is_not_known_is_refused() -> None:
    problem = problem_of(Collective.ALL_REDUCE, 4, 1024)
    with pytest.raises(UsageError, match="int8"):
        HOST.price(problem, Config(algorithm="ring", segment_bytes=4096, codec="int8"))
    with pytest.raises(UsageError, match="hierarchical"):
        HOST.price(problem, Config(algorithm="hierarchical", segment_bytes=4096))
    with pytest.raises(ValueError, match="8 ranks"):
        HOST.price(problem_of(Collective.ALL_REDUCE, 8, 1024), Config(algorithm="ring", segment_bytes=4096))
