"""The grid holds every legal plan once."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.space import SEGMENTS, native_candidates
from autotune.types import Collective, Config, Problem, RuleKey

KiB = 1 << 10


def problem(message_bytes: int, n_ranks: int = 4) -> Problem:
    key = RuleKey(
        backend="native",
        collective=Collective.ALL_GATHER,
        dtype=None,
        op_class=None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
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
    size = 4 << 20
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
    found = native_candidates(problem(1 << 20), names=names, slices=slices(1 << 20), preferred=(odd,))
    assert odd in found
    assert len(found) == 9


@settings(derandomize=True, database=None, deadline=None)
@given(message_bytes=st.integers(0, 1 << 28), staging=st.integers(KiB, 2 << 20))
def test_every_plan_of_the_grid_is_there_exactly_once(message_bytes: int, staging: int) -> None:
    count = slices(message_bytes, staging)
    found = native_candidates(problem(message_bytes), names=names, slices=count)
    plans = [(config.algorithm, count(config)) for config in found]
    grid = {(a, count(Config(algorithm=a, segment_bytes=s))) for a in ("ring", "direct") for s in SEGMENTS}
    assert len(set(plans)) == len(plans)
    assert set(plans) == grid


def test_an_empty_grid_is_no_candidate() -> None:
    assert native_candidates(problem(8), names=lambda c, n: (), slices=slices(8)) == ()


@pytest.mark.parametrize("message_bytes", [0, 1])
def test_the_smallest_messages_have_a_plan(message_bytes: int) -> None:
    assert len(native_candidates(problem(message_bytes), names=names, slices=slices(message_bytes))) == 2
