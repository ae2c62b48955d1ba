"""Rules turn off what MPICH's device has for a collective: they are written where no size is clearly slower by that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from exchange.library_tables import key, table_of
from exchange.selection_tree import BASE

from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS, Exported, Request
from autotune.types import Collective, Config, Evidence, Phase, Problem, Sample, SampleKind, Trial, TrialState

AUTO = Config(algorithm="auto")
RING, DOUBLING = (Config(algorithm=f"MPIR_Allreduce_intra_{word}") for word in ("ring", "recursive_doubling"))
ALL_REDUCE = key(Collective.ALL_REDUCE, 2, "mpich")
SMALL, LARGE = 1024, 1 << 20


def trial(size: int, config: Config, time_us: float) -> Trial:
    sample = Sample(kind=SampleKind.FRESH, phase=Phase.RACE, round=0, position=0, batch_calls=1, time_us=time_us)
    return Trial(
        trial_id=None,
        session_id=1,
        problem=Problem(key=ALL_REDUCE, message_bytes=size),
        config=config,
        state=TrialState.OK,
        samples=(sample,),
    )


def exported(times: Mapping[int, Mapping[Config, float]], weights: Mapping[int, float] | None = None) -> Exported:
    best = {size: min(by, key=lambda config: by[config]) for size, by in times.items()}
    table = table_of({ALL_REDUCE: best | {2 * max(times): AUTO}}, "mpich")
    rules = tuple(
        replace(
            rule,
            evidence=Evidence.IMPORTED,
            median_us=us,
            low_us=us,
            high_us=us,
            gain=None,
            gain_low=None,
            gain_high=None,
        )
        for rule in table.rules[ALL_REDUCE]
        for us in (times[rule.from_bytes][rule.config],)
    )
    trials = tuple(trial(size, config, us) for size, by in times.items() for config, us in by.items())
    asked = frozenset({Evidence.IMPORTED})
    request = Request(evidence=asked, trials=trials, base=BASE, weights=dict(weights or {}))
    return EXPORTERS["mpich"].render(replace(table, rules={ALL_REDUCE: rules}), request)


def words(made: Exported) -> str:
    return json.dumps(json.loads(made.text)["collective=allreduce"])


def test_a_collective_that_is_slower_at_a_size_without_the_device_is_left_to_mpich() -> None:
    times = {SMALL: {AUTO: 1.0, RING: 12.0, DOUBLING: 10.0}, LARGE: {AUTO: 400.0, RING: 100.0}}
    with pytest.raises(AutotuneError) as found:
        exported(times)
    assert "all_reduce is left to MPICH" in found.value.message
    assert "1KiB takes 10 times as long" in found.value.message


def test_a_size_that_does_not_count_may_be_slower() -> None:
    times = {SMALL: {AUTO: 1.0, RING: 12.0, DOUBLING: 10.0}, LARGE: {AUTO: 400.0, RING: 100.0}}
    assert "MPIR_Allreduce_intra_ring" in words(exported(times, {LARGE: 1.0}))


def test_the_fastest_algorithm_stands_where_the_device_would_have_been_as_fast() -> None:
    made = exported({SMALL: {AUTO: 10.0, RING: 14.0, DOUBLING: 10.5}, LARGE: {AUTO: 400.0, RING: 100.0}})
    assert made.notes == ()
    assert words(made).index("recursive_doubling") < words(made).index("intra_ring")
    assert "export MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE=0" in made.usage


def test_a_table_that_keeps_mpichs_own_choice_everywhere_has_no_rules() -> None:
    with pytest.raises(AutotuneError, match="no rule can be written"):
        exported({SMALL: {AUTO: 1.0, RING: 1.01}, LARGE: {AUTO: 1.0, RING: 1.01}})
