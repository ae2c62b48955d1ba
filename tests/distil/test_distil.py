"""Trials -> rules: who wins, when the default stays, and where ranges begin and end."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.distil import distil, judge, size_ranges
from autotune.measure import TEST
from autotune.table import DefaultRow, DefaultRules, TuningTable
from autotune.types import (
    Collective,
    Config,
    Evidence,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    Trial,
    TrialState,
)

KEY = RuleKey(backend="native", collective=Collective.BROADCAST, dtype=None, op_class=None, n_ranks=2, placement=(2,))
DEFAULT = Config(algorithm="tree")
REFERENCE = Config(algorithm="ring", segment_bytes=64 << 10)
FAST = Config(algorithm="direct")
OTHER = Config(algorithm="chain")
DEFAULTS = DefaultRules(
    backend="native",
    rows=tuple(DefaultRow(collective=c, ranks_from=1, ranks_to=None, from_bytes=0, config=DEFAULT) for c in Collective),
)


def trial(
    config: Config,
    time_us: float,
    *,
    trial_id: int = 1,
    session_id: int = 1,
    message_bytes: int = 1024,
    race_us: float | None = None,
    race_rounds: int = 9,
    confirm_rounds: int = 9,
    state: TrialState = TrialState.OK,
    key: RuleKey = KEY,
) -> Trial:
    """A trial whose rounds follow the true time closely; race_us: what it looked like in the race."""
    noise = random.Random(f"{config} {time_us} {session_id}")

    def fresh(phase: Phase, rounds: int, true_us: float) -> list[Sample]:
        times_us = [true_us * math.exp(noise.gauss(0.0, 0.01)) for _ in range(rounds)]
        return [
            Sample(kind=SampleKind.FRESH, phase=phase, round=r, position=0, batch_calls=1, time_us=time_us)
            for r, time_us in enumerate(times_us)
        ]

    samples = fresh(Phase.RACE, race_rounds, race_us or time_us) + fresh(Phase.CONFIRM, confirm_rounds, time_us)
    return Trial(
        trial_id=trial_id,
        session_id=session_id,
        problem=Problem(key=key, message_bytes=message_bytes),
        config=config,
        state=state,
        samples=tuple(samples),
        message="" if state is TrialState.OK else "planted",
    )


def cell(
    *,
    fast_us: float = 80.0,
    session_id: int = 1,
    message_bytes: int = 1024,
    confirm_rounds: int = 9,
    key: RuleKey = KEY,
) -> list[Trial]:
    """Default 100 us, reference 150 us, a challenger, and one that left the race after two rounds."""

    def one(config: Config, time_us: float, trial_id: int) -> Trial:
        return trial(
            config,
            time_us,
            trial_id=trial_id,
            session_id=session_id,
            message_bytes=message_bytes,
            confirm_rounds=confirm_rounds,
            key=key,
        )

    left = trial(OTHER, 60.0, trial_id=4, session_id=session_id, message_bytes=message_bytes, race_rounds=2, key=key)
    return [
        one(DEFAULT, 100.0, 1),
        one(REFERENCE, 150.0, 2),
        one(FAST, fast_us, 3),
        replace(left, samples=left.samples[:2]),
    ]


def table(trials: Sequence[Trial]) -> TuningTable:
    return distil(
        trials,
        defaults=DEFAULTS,
        reference=lambda problem: REFERENCE,
        fingerprint="0123456789abcdef",
        environment={"kernel": "6.1"},
        created_at="2026-01-31T12:00:00Z",
    )


def test_a_significantly_faster_winner_replaces_the_default() -> None:
    verdict = judge(cell(), default=DEFAULT, reference=REFERENCE)
    assert verdict is not None
    assert (verdict.config, verdict.winner, verdict.is_default) == (FAST, FAST, False)
    assert verdict.gain is not None
    assert verdict.gain.median == pytest.approx(1.25, rel=0.02)
    assert verdict.reference_gain is not None
    assert verdict.reference_gain.median == pytest.approx(1.875, rel=0.02)
    assert verdict.time_us.median == pytest.approx(80.0, rel=0.02)
    assert verdict.trial_ids == (3, 1, 2)


def test_a_winner_that_is_hardly_faster_leaves_the_default_and_says_why() -> None:
    verdict = judge(cell(fast_us=99.0), default=DEFAULT, reference=REFERENCE)
    assert verdict is not None
    assert (verdict.config, verdict.winner, verdict.is_default) == (DEFAULT, FAST, True)
    assert verdict.gain is not None
    assert verdict.gain.median < 1.02
    assert verdict.reference_gain is not None
    assert verdict.reference_gain.median == pytest.approx(1.5, rel=0.02)


def test_luck_in_the_race_proves_nothing() -> None:
    """The challenger won the race at half the default's time, but is its equal in the rounds that count."""
    trials = [trial(DEFAULT, 100.0), trial(FAST, 100.0, race_us=50.0, trial_id=2)]
    verdict = judge(trials, default=DEFAULT, reference=None)
    assert verdict is not None
    assert (verdict.winner, verdict.config) == (FAST, DEFAULT)
    assert verdict.reference_gain is None


def test_a_reference_that_beats_the_default_replaces_it_though_the_race_passed_it_by() -> None:
    trials = [trial(DEFAULT, 100.0), trial(REFERENCE, 90.0, race_us=120.0, trial_id=2)]
    verdict = judge(trials, default=DEFAULT, reference=REFERENCE)
    assert verdict is not None
    assert (verdict.config, verdict.winner, verdict.is_default) == (REFERENCE, REFERENCE, False)
    assert verdict.gain is not None
    assert verdict.gain.median == pytest.approx(100 / 90, rel=0.02)


def test_the_faster_of_two_proved_challengers_is_chosen() -> None:
    trials = [trial(DEFAULT, 100.0), trial(FAST, 90.0, race_us=70.0, trial_id=2), trial(REFERENCE, 80.0, trial_id=3)]
    verdict = judge(trials, default=DEFAULT, reference=REFERENCE)
    assert verdict is not None
    assert verdict.config == REFERENCE


def test_a_default_that_wins_has_no_gain() -> None:
    verdict = judge(cell(fast_us=200.0), default=DEFAULT, reference=REFERENCE)
    assert verdict is not None
    assert (verdict.winner, verdict.gain, verdict.is_default) == (DEFAULT, None, True)


@pytest.mark.parametrize("state", [state for state in TrialState if state is not TrialState.OK])
def test_a_failed_trial_never_wins(state: TrialState) -> None:
    trials = [*cell()[:2], trial(FAST, 50.0, state=state), trial(OTHER, 90.0, trial_id=9)]
    verdict = judge(trials, default=DEFAULT, reference=REFERENCE)
    assert verdict is not None
    assert verdict.config == OTHER


@pytest.mark.parametrize(
    "trials",
    [
        [],
        cell(confirm_rounds=8),
        cell(confirm_rounds=0),
        [trial(FAST, 80.0)],
        [trial(DEFAULT, 100.0), trial(FAST, 80.0, confirm_rounds=8)],
        [trial(DEFAULT, 100.0, state=TrialState.CRASHED), trial(FAST, 80.0)],
    ],
    ids=["nothing", "eight rounds", "race only", "no default", "winner unconfirmed", "default failed"],
)
def test_no_decision_without_nine_rounds_of_winner_and_default(trials: list[Trial]) -> None:
    assert judge(trials, default=DEFAULT, reference=REFERENCE) is None
    assert not table(trials).rules


def test_the_table_has_a_rule_for_each_measured_size() -> None:
    found = table([*cell(message_bytes=4096), *cell(message_bytes=1024, fast_us=99.0)])
    assert found.test == TEST
    small, large = found.rules[KEY]
    assert (small.from_bytes, small.to_bytes, small.config, small.is_default) == (1024, 2048, DEFAULT, True)
    assert (large.from_bytes, large.to_bytes, large.config, large.is_default) == (2048, 4097, FAST, False)
    assert (small.gain, small.gain_low) == (None, None)
    assert large.gain is not None
    assert large.gain_low is not None
    assert large.gain_low > 1.0
    assert (large.n_rounds, large.evidence) == (9, Evidence.MEASURED)
    assert large.ring_gain == pytest.approx(1.875, rel=0.02)


def test_equal_neighbours_are_not_merged() -> None:
    found = table([*cell(message_bytes=4096), *cell(message_bytes=1024)])
    assert [rule.config for rule in found.rules[KEY]] == [FAST, FAST]


def test_the_newest_session_that_got_as_far_decides() -> None:
    old, new = cell(session_id=1), cell(session_id=2, fast_us=200.0)
    assert table([*new, *old]).rules[KEY][0].is_default
    unfinished = cell(session_id=3, confirm_rounds=5)
    assert table([*unfinished, *new, *old]).rules[KEY][0].is_default


def test_sessions_are_never_mixed() -> None:
    """One session lost its default, a later one measured nothing else: the fast config beat nobody."""
    (rule,) = table([*cell(session_id=1)[1:], cell(session_id=2)[0]]).rules[KEY]
    assert rule.is_default
    assert rule.trial_ids == (1,)


def test_trials_of_another_backend_are_left_out() -> None:
    assert not table(cell(key=replace(KEY, backend="openmpi"))).rules


def test_the_order_of_trials_does_not_matter() -> None:
    trials = [*cell(message_bytes=4096), *cell(message_bytes=1024), *cell(message_bytes=64, fast_us=99.0)]
    assert table(trials) == table(trials[::-1])


@settings(derandomize=True, database=None)
@given(st.sets(st.integers(0, 1 << 46), min_size=1, max_size=30))
def test_ranges_adjoin_and_hold_their_size(sizes: set[int]) -> None:
    ordered = sorted(sizes)
    ranges = size_ranges(ordered)
    assert len(ranges) == len(ordered)
    assert ranges[0][0] == ordered[0]
    assert ranges[-1][1] == ordered[-1] + 1
    for size, (start, end) in zip(ordered, ranges, strict=True):
        assert start <= size < end
    for (_, end), (start, _) in itertools.pairwise(ranges):
        assert end == start


def test_borders_are_geometric_means() -> None:
    assert size_ranges([8, 32, 1 << 20]) == [(8, 16), (16, 5792), (5792, (1 << 20) + 1)]
    assert size_ranges([1, 2, 3]) == [(1, 2), (2, 3), (3, 4)]
