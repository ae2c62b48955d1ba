"""words.json: our names are registered, the libraries' names exist there, and nothing is left without an answer."""

from __future__ import annotations

import pytest

from autotune.exchange.words import Refused, library, library_names
from autotune.kernels.schedules.registry import ALGORITHMS
from autotune.types import Collective, Config


@pytest.mark.parametrize("name", library_names())
def test_every_collective_has_a_call_or_a_reason(name: str) -> None:
    words = library(name)
    assert words.source
    assert words.calls.keys() | words.refused.keys() == set(Collective)
    assert not words.calls.keys() & words.refused.keys()
    assert all(words.refused.values())


@pytest.mark.parametrize("name", library_names())
def test_native_names_are_registered_and_lead_to_names_of_the_library(name: str) -> None:
    carried_out = {(algorithm.name, c) for algorithm in ALGORITHMS for c in algorithm.collectives}
    for collective, calls in library(name).calls.items():
        for call in calls:
            assert {(ours, collective) for ours in call.native} <= carried_out
            assert set(call.native.values()) <= set(call.algorithms)


@pytest.mark.parametrize("name", library_names())
def test_a_library_takes_its_own_words_and_no_others(name: str) -> None:
    words = library(name)
    for calls in words.calls.values():
        for call in calls:
            for word in call.algorithms:
                assert words.word(call, Config(algorithm=word), words.backends[0]) == word
            with pytest.raises(Refused, match="is none of its"):
                words.word(call, Config(algorithm="rng"), words.backends[0])
            with pytest.raises(Refused, match="that works like 'rng'"):
                words.word(call, Config(algorithm="rng"), "native")
            with pytest.raises(Refused, match="lossy"):
                words.word(call, Config(algorithm="ring", codec="int8"), "native")
