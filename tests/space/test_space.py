"""The grid holds every legal plan once."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.space import (
    SEGMENTS,
    SINGLE_COPY_FROM_BYTES,
    ZERO_COPY_SEGMENTS,
    native_candidates,
)
from autotune.types import Collective, Config, Memory, Problem, RuleKey

KiB = 1 << 10


def problem(message_bytes: int, n_ranks: int = 4, memory: Memory = Memory.PRIVATE) -> Problem:
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_GATHER,
        dtype=None,
        op_class=None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
        memory=memory,
    )
    return Problem(key=key, message_bytes=message_bytes)


def names(collective: Collective, n_ranks: int) -> tuple[str, ...]:
    assert collective is Collective.ALL_GATHER
    return ("ring", "direct") if n_ranks > 2 else ("direct",)


def slices(message_bytes: int, staging_bytes: int = 1 << 30) -> Callable[[Config], int]:
    def count(config: Config) -> int:
        assert config.segment_bytes is not None
        return max(1, math.ceil(message_bytes / min(config.segment_bytes, staging_bytes)))

    return count


def words(configs: tuple[Config, ...]) -> list[str]:
    return [str(config) for config in configs]


def test_a_message_of_one_slice_has_one_candidate_an_algorithm() -> None:
    assert words(native_candidates(problem(8), names=names, slices=slices(8))) == ["ring/1MiB", "direct/1MiB"]


def test_large_messages_have_every_segment() -> None:
    found = native_candidates(problem(64 << 20), names=names, slices=slices(64 << 20))
    assert words(found) == [f"{a}/{s}" for a in ("ring", "direct") for s in ("16KiB", "64KiB", "256KiB", "1MiB")]


def test_segments_that_the_staging_cuts_down_are_one_candidate() -> None:
    size = 16 << 20
    found = native_candidates(problem(size), names=names, slices=slices(size, staging_bytes=200 * KiB))
    assert words(found)[:3] == ["ring/16KiB", "ring/64KiB", "ring/1MiB"]
    assert len(found) == 6


def test_only_legal_algorithms() -> None:
    assert words(native_candidates(problem(8, n_ranks=2), names=names, slices=slices(8))) == ["direct/1MiB"]


def test_default_and_reference_name_their_plans() -> None:
    preferred = (
        Config(algorithm="ring", segment_bytes=64 * KiB),
        Config(algorithm="ring", segment_bytes=256 * KiB),
        Config(algorithm="illegal", segment_bytes=64 * KiB),
        Config(algorithm="direct", segment_bytes=64 * KiB, codec="int8"),
        Config(algorithm="direct", segment_bytes=64 * KiB, knobs=(("outbox_store", "dual"),)),
    )
    found = native_candidates(problem(8), names=names, slices=slices(8), preferred=preferred)
    assert words(found) == ["ring/64KiB", "direct/1MiB"]


def test_a_preferred_segment_outside_the_grid_is_a_candidate() -> None:
    odd = Config(algorithm="ring", segment_bytes=100_000)
    found = native_candidates(problem(16 << 20), names=names, slices=slices(16 << 20), preferred=(odd,))
    assert odd in found
    assert len(found) == 9


@settings(derandomize=True, database=None, deadline=None)
@given(message_bytes=st.integers(0, 1 << 28), staging=st.integers(KiB, 2 << 20))
def test_every_plan_of_the_grid_is_there_exactly_once(message_bytes: int, staging: int) -> None:
    count = slices(message_bytes, staging)
    found = native_candidates(problem(message_bytes), names=names, slices=count)
    plans = [(config.algorithm, config.knobs, count(config)) for config in found]
    grid = {
        (algorithm, (), count(Config(algorithm=algorithm, segment_bytes=segment)))
        for algorithm in ("ring", "direct")
        for segment in SEGMENTS
    }
    assert len(set(plans)) == len(plans)
    assert set(plans) == grid


def test_an_empty_grid_is_no_candidate() -> None:
    assert native_candidates(problem(8), names=lambda c, n: (), slices=slices(8)) == ()


@pytest.mark.parametrize("message_bytes", [0, 1])
def test_the_smallest_messages_have_a_plan(message_bytes: int) -> None:
    assert len(native_candidates(problem(message_bytes), names=names, slices=slices(message_bytes))) == 2


# ---- ranks that share cores


@pytest.mark.parametrize(
    ("memory", "streamed", "expected"),
    [
        (Memory.PRIVATE, (), ["direct/1MiB/shared_cores=leaders"]),
        (
            Memory.PRIVATE,
            ("direct",),
            ["direct/1MiB/shared_cores=leaders", "direct/1MiB/shared_cores=leaders/stores=streamed"],
        ),
        (Memory.SYMMETRIC, (), ["direct/1GiB/exchange=zero_copy/shared_cores=leaders"]),
    ],
)
def test_algorithms_for_shared_cores_are_knobs_of_the_default_s(
    memory: Memory, streamed: tuple[str, ...], expected: list[str]
) -> None:
    found = native_candidates(
        problem(64 * KiB, memory=memory),
        names=names,
        streamed_names=lambda collective, n_ranks: streamed,
        shared_core_names=lambda collective, n_ranks: ("leaders",),
        slices=lambda config: 1,
        preferred=(Config(algorithm="direct", segment_bytes=256 * KiB),),
    )
    assert [word for word in words(found) if "shared_cores" in word] == expected


def test_a_default_for_shared_cores_names_its_plan() -> None:
    default = Config(algorithm="direct", segment_bytes=64 * KiB, knobs=(("shared_cores", "leaders"),))
    found = native_candidates(
        problem(8),
        names=names,
        shared_core_names=lambda collective, n_ranks: ("leaders",),
        slices=slices(8),
        preferred=(default,),
    )
    assert words(found) == ["ring/1MiB", "direct/1MiB", "direct/64KiB/shared_cores=leaders"]


def test_a_default_for_shared_cores_is_its_own_algorithm_where_ranks_share_none() -> None:
    default = Config(algorithm="direct", segment_bytes=64 * KiB, knobs=(("shared_cores", "leaders"),))
    found = native_candidates(problem(8), names=names, slices=slices(8), preferred=(default,))
    assert words(found) == ["ring/1MiB", "direct/64KiB/shared_cores=leaders"]


# ---- symmetric memory

ZERO_COPY = (("exchange", "zero_copy"),)


def copies_nothing(collective: Collective, n_ranks: int) -> tuple[str, ...]:
    """The ring cannot, and another stands for its twin."""
    return ("direct", "twin")


def shared(message_bytes: int, preferred: tuple[Config, ...] = ()) -> tuple[Config, ...]:
    return native_candidates(
        problem(message_bytes, memory=Memory.SYMMETRIC),
        names=names,
        zero_copy_names=copies_nothing,
        slices=slices(message_bytes),
        preferred=preferred,
    )


def test_private_memory_has_no_exchange_without_copies() -> None:
    found = native_candidates(problem(8), names=names, zero_copy_names=copies_nothing, slices=slices(8))
    assert words(found) == ["ring/1MiB", "direct/1MiB"]


def test_symmetric_memory_has_both_exchanges() -> None:
    assert words(shared(8)) == [
        *("ring/1MiB", "direct/1MiB"),
        *("direct/1GiB/exchange=zero_copy", "twin/1GiB/exchange=zero_copy"),
    ]
    large = [config for config in shared(64 << 20) if config.knobs == ZERO_COPY]
    assert [(c.algorithm, c.segment_bytes) for c in large] == [
        (name, segment) for name in ("direct", "twin") for segment in ZERO_COPY_SEGMENTS
    ]
    assert len(shared(64 << 20)) == 2 * len(SEGMENTS) + len(large)


def test_a_default_without_copies_names_its_plan_and_no_other() -> None:
    default = Config(algorithm="direct", segment_bytes=300 * KiB, knobs=ZERO_COPY)
    reference = Config(algorithm="ring", segment_bytes=64 * KiB)
    assert words(shared(8, (default, reference))) == [
        *("ring/64KiB", "direct/1MiB"),
        *("direct/300KiB/exchange=zero_copy", "twin/1GiB/exchange=zero_copy"),
    ]
    odd = Config(algorithm="direct", segment_bytes=64 * KiB, knobs=(*ZERO_COPY, ("stores", "cached")))
    assert odd not in shared(8, (odd,))


# ---- private memory that peers read


@pytest.mark.parametrize("message_bytes", [SINGLE_COPY_FROM_BYTES - 1, SINGLE_COPY_FROM_BYTES])
@pytest.mark.parametrize("memory", Memory)
def test_larger_private_messages_are_read_where_they_lie_as_well(message_bytes: int, memory: Memory) -> None:
    found = native_candidates(
        problem(message_bytes, memory=memory),
        names=names,
        single_copy_names=copies_nothing,
        slices=slices(message_bytes),
    )
    reading = [config.algorithm for config in found if config.knobs == (("exchange", "single_copy"),)]
    expected = memory is Memory.PRIVATE and message_bytes >= SINGLE_COPY_FROM_BYTES
    assert reading == (["direct", "twin"] if expected else [])


# ---- outputs past the caches


def test_outputs_past_the_caches_compete_where_they_may_be_worth_it() -> None:
    found = native_candidates(
        problem(1 << 20), names=names, streamed_names=lambda collective, n_ranks: ("direct",), slices=slices(1 << 20)
    )
    streamed = [str(config) for config in found if config.knobs == (("stores", "streamed"),)]
    assert streamed == [f"direct/{segment}/stores=streamed" for segment in ("16KiB", "64KiB", "256KiB", "1MiB")]
    assert {config.algorithm for config in found if not config.knobs} > {"direct"}
