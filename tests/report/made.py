"""Trials and verdicts made by hand, and renderables as the lines that a terminal would show."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence

from rich.console import Console, RenderableType

from autotune.distil import Verdict, judge
from autotune.types import (
    Collective,
    Config,
    DType,
    OpClass,
    Phase,
    Problem,
    RuleKey,
    Sample,
    SampleKind,
    Trial,
    TrialState,
)

RING = Config(algorithm="ring", segment_bytes=65536)
DIRECT = Config(algorithm="direct", segment_bytes=16384)
TREE = Config(algorithm="recursive_halving_doubling", segment_bytes=262144)
ROUNDS = 12


def lines(renderable: RenderableType, width: int = 100) -> list[str]:
    """What a file of that width would hold."""
    page = io.StringIO()
    Console(file=page, width=width, markup=False, highlight=False).print(renderable, crop=False)
    return [line.rstrip() for line in page.getvalue().splitlines()]


def a_key(n_ranks: int = 2, collective: Collective = Collective.ALL_REDUCE, dtype: DType = DType.FLOAT32) -> RuleKey:
    return RuleKey(
        backend="native",
        collective=collective,
        dtype=dtype if collective.computes else None,
        op_class=OpClass.SUM if collective.computes else None,
        n_ranks=n_ranks,
        placement=(n_ranks,),
    )


def a_problem(message_bytes: int, key: RuleKey | None = None) -> Problem:
    return Problem(key=key or a_key(), message_bytes=message_bytes)


def samples(times_us: Sequence[float], phase: Phase, kind: SampleKind = SampleKind.FRESH) -> tuple[Sample, ...]:
    return tuple(
        Sample(kind=kind, phase=phase, round=round_, position=0, batch_calls=1, time_us=time_us)
        for round_, time_us in enumerate(times_us)
    )


def a_trial(
    trial_id: int, problem: Problem, config: Config, time_us: float, *, race: int = ROUNDS, confirm: int = 0
) -> Trial:
    """Times that scatter by less than a percent above one value, differently for every trial."""
    luck = random.Random(trial_id)
    scatter = [time_us * (1 + 0.005 * luck.random()) for _ in range(max(race, confirm, 3))]
    taken = samples(scatter[:race], Phase.RACE) + samples(scatter[:confirm], Phase.CONFIRM)
    if confirm:
        taken += samples(scatter[:3], Phase.CONFIRM, SampleKind.STEADY)
    return Trial(trial_id=trial_id, session_id=1, problem=problem, config=config, state=TrialState.OK, samples=taken)


def a_failure(trial_id: int, problem: Problem, config: Config) -> Trial:
    return Trial(
        trial_id=trial_id,
        session_id=1,
        problem=problem,
        config=config,
        state=TrialState.WRONG_RESULT,
        message="rank 1 has 3 at element 7, expected 4",
    )


def a_verdict(problem: Problem, winner: Config, *, gain: float, default: Config = RING) -> Verdict:
    """The winner was ``gain`` times as fast as the default; the default itself wins where they are the same."""
    trials = [a_trial(1, problem, default, 10.0 * gain, confirm=ROUNDS)]
    if winner != default:
        trials.append(a_trial(2, problem, winner, 10.0, confirm=ROUNDS))
    found = judge(trials, default=default, reference=RING)
    assert found is not None
    return found
