"""Settings of a whole job beside rules for each size: the ones that lose least are exported, with what they lose."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from exchange.library_tables import key, table_of
from exchange.real_mpi import exports
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import AutotuneError
from autotune.exchange import EXPORTERS, Exported, Request
from autotune.exchange.one_for_all import cells_of
from autotune.exchange.words import library
from autotune.table import TuningTable
from autotune.types import Collective, Config, Evidence, Phase, Problem, Sample, SampleKind, Trial, TrialState

START = library("openmpi").starts[0]
AUTO, RING = Config(algorithm="auto"), Config(algorithm="ring")
CONFIGS = (AUTO, RING, replace(AUTO, knobs=START), replace(RING, knobs=START))
ALL_REDUCE = key(Collective.ALL_REDUCE, 4, "openmpi")


def measured(times: Mapping[int, Mapping[Config, float]]) -> tuple[TuningTable, tuple[Trial, ...]]:
    """A table that chooses the fastest at each size, and the trials."""
    numbers = itertools.count(1)
    trials = tuple(
        Trial(
            trial_id=next(numbers),
            session_id=1,
            problem=Problem(key=ALL_REDUCE, message_bytes=size),
            config=config,
            state=TrialState.OK,
            samples=(
                Sample(kind=SampleKind.FRESH, phase=Phase.CONFIRM, round=0, position=0, batch_calls=1, time_us=time_us),
            ),
        )
        for size, by in times.items()
        for config, time_us in by.items()
    )
    best = {size: min(by, key=lambda c: (by[c], str(c))) for size, by in times.items()}
    table = table_of({ALL_REDUCE: best | {max(times) * 2: RING}}, "openmpi")
    rules = []
    for rule in table.rules[ALL_REDUCE]:
        us = times[rule.from_bytes][rule.config]
        plain = replace(rule, evidence=Evidence.IMPORTED, gain=None, gain_low=None, gain_high=None)
        rules.append(replace(plain, median_us=us, low_us=us, high_us=us))
    return replace(table, rules={ALL_REDUCE: tuple(rules)}), trials


def exported(times: Mapping[int, Mapping[Config, float]], name: str = "openmpi") -> Exported:
    table, trials = measured(times)
    return EXPORTERS[name].render(table, Request(evidence=frozenset({Evidence.IMPORTED}), trials=trials))


def settings_of(made: Exported) -> tuple[tuple[str, str], ...]:
    """What the export's lines set besides the rules."""
    found = exports(made.lines(Path("rules.conf")))
    return tuple((name.removeprefix("OMPI_MCA_"), value) for name, value in found.items() if "coll_tuned" not in name)


def chosen(made: Exported) -> tuple[str, ...]:
    """The algorithm of each row: one for 0 ranks, those for 4, one for 5."""
    lines = [line.split("#")[0].split() for line in made.text.splitlines()[1:]]
    rows = [line for line in lines if len(line) == 5]
    numbers = {
        facts["number"]: name for name, facts in library("openmpi").calls[Collective.ALL_REDUCE][0].algorithms.items()
    }
    return tuple(numbers.get(int(row[1]), "own") for row in rows)


TIMES = st.lists(st.lists(st.floats(1.0, 100.0), min_size=4, max_size=4), min_size=1, max_size=5).map(
    lambda rows: {1024 << i: dict(zip(CONFIGS, row, strict=True)) for i, row in enumerate(rows)}
)


@given(times=TIMES, name=st.sampled_from(("openmpi", "openmpi-json")))
def test_the_start_is_the_one_that_brute_force_finds(times: dict[int, dict[Config, float]], name: str) -> None:
    def loss(start: tuple[Config, ...]) -> float:
        ratios = [min(by[config] for config in start) / min(by.values()) for by in times.values()]
        return sum(ratios) / len(ratios)

    without, under = CONFIGS[:2], CONFIGS[2:]
    table, trials = measured(times)
    try:
        found = EXPORTERS[name].render(table, Request(evidence=frozenset({Evidence.IMPORTED}), trials=trials))
    except AutotuneError:  # no settings, and no rule either
        assert loss(without) <= loss(under) + 1e-9
        return
    took = under if settings_of(found) else without
    assert settings_of(found) in ((), tuple((name, str(value)) for name, value in START))
    assert loss(took) <= min(loss(without), loss(under)) + 1e-9


def test_rules_hold_under_the_start_that_is_exported() -> None:
    auto, ring, auto_under, ring_under = CONFIGS
    made = exported(
        {
            1024: {auto: 9.0, ring: 10.0, auto_under: 8.9, ring_under: 4.0},  # chosen under the start
            2048: {auto: 9.0, ring: 8.0, auto_under: 8.3, ring_under: 9.0},  # chosen without; under it the own choice
            4096: {auto: 9.0, ring: 8.0, auto_under: 9.0, ring_under: 8.1},  # the same, and the ring
        }
    )
    assert settings_of(made) == tuple((name, str(value)) for name, value in START)
    assert chosen(made) == ("own", "own", "ring", "own", "ring", "own", "own")
    assert any("1.7 % slower on average" in note for note in made.notes)
    assert any("at worst 3.8 %" in note and "2KiB" in note for note in made.notes)
    for name, value in START:
        assert f"# the job needs: export OMPI_MCA_{name}={value}" in made.text


def test_what_is_no_faster_than_the_librarys_own_choice_under_the_start_needs_no_rule() -> None:
    auto, ring, auto_under, ring_under = CONFIGS
    rest = {auto: 9.0, ring: 9.0, ring_under: 4.0}
    made = exported({1024: rest | {auto_under: 4.1}, 2048: rest | {auto_under: 4.2}, 4096: rest})
    assert chosen(made) == ("own", "own", "ring", "own", "own")
    without = {size: {auto: 8.1, ring: 8.0, auto_under: 9.9} for size in (1024, 2048)}
    assert chosen(exported(without | {4096: {auto: 8.1, ring: 8.0, ring_under: 7.9}})) == (
        "own",
        "own",
        "ring",
        "own",
        "own",
    )


def test_a_table_without_such_settings_is_written_as_ever() -> None:
    made = exported({1024: {AUTO: 9.0, RING: 4.0}})
    assert settings_of(made) == ()
    assert "the job needs" not in made.text
    assert made.notes == ()


def test_a_start_that_was_measured_everywhere_goes_before_one_that_was_not() -> None:
    times = {size: {AUTO: 9.0, replace(RING, knobs=START): 4.0} for size in (1024, 2048)}
    made = exported({**times, 4096: {AUTO: 9.0, RING: 8.0}})
    assert settings_of(made) == ()
    assert any("settings of the whole job, the same for every size: none" in note for note in made.notes)


def test_sizes_that_were_not_measured_under_the_start_are_left_to_the_library_and_said() -> None:
    under = {size: {replace(RING, knobs=START): 4.0} for size in (1024, 2048)}
    made = exported({**under, 4096: {RING: 8.0}})
    assert settings_of(made) == tuple((name, str(value)) for name, value in START)
    assert chosen(made) == ("own", "own", "ring", "own", "own")
    assert any("not measured under them" in note and "4KiB" in note for note in made.notes)


def test_the_librarys_own_choice_under_settings_needs_no_rule() -> None:
    made = exported({1024: {AUTO: 9.0, replace(AUTO, knobs=START): 4.0}})
    assert settings_of(made) == tuple((name, str(value)) for name, value in START)
    assert "\n0 # collectives" in made.text


@pytest.mark.parametrize("name", ["openmpi", "openmpi-json"])
def test_what_is_lost_is_said(name: str) -> None:
    assert any("settings of the whole job for each size" in loss for loss in EXPORTERS[name].loses)


def test_a_slow_phase_of_the_host_does_not_count_against_what_ran_in_it() -> None:
    def trial(config: Config, session: int, race_us: float, confirm_us: float | None) -> Trial:
        rounds = [(Phase.RACE, number, race_us) for number in range(3)]
        rounds += [(Phase.CONFIRM, number, confirm_us) for number in range(9) if confirm_us is not None]
        samples = tuple(
            Sample(kind=SampleKind.FRESH, phase=phase, round=number, position=0, batch_calls=1, time_us=time_us)
            for phase, number, time_us in rounds
        )
        problem = Problem(key=ALL_REDUCE, message_bytes=1024)
        return Trial(
            trial_id=None, session_id=session, problem=problem, config=config, state=TrialState.OK, samples=samples
        )

    under = replace(RING, knobs=START)
    trials = [trial(AUTO, 1, 30.0, 10.0), trial(under, 1, 15.0, None), trial(AUTO, 2, 1.0, 1.0)]
    [rule] = table_of({ALL_REDUCE: {1024: AUTO, 2048: RING}}, "openmpi").rules[ALL_REDUCE]
    [cell] = cells_of(ALL_REDUCE, [rule], trials, lambda size: AUTO, lambda rule: 1.0)
    assert cell.times_us == {AUTO: rule.median_us, under: pytest.approx(rule.median_us / 2)}
