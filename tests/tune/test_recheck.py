"""Rules measured again: which hold, which are lost, and that a confirming run decides no table."""

from __future__ import annotations

import pytest
from tune.rig import Run, begin

from autotune.backends.simulated import DEFAULT, Machine, SimulatedBackend, simulated_defaults
from autotune.measure import QUICK, Failure
from autotune.plan import quick_plan
from autotune.tune.claims import claims_of
from autotune.tune.recheck import Drift, Recheck, recheck
from autotune.types import Collective, Config, Problem, TrialState

FAST = Config(algorithm="chain", segment_bytes=64 << 10)
SMALL, LARGE = (
    quick_plan(2)
    .override(collectives=[Collective.BROADCAST], sizes=[1 << 12, 1 << 20], ranks=[2])
    .problems("simulated")
)


class Two(SimulatedBackend):
    """Two configs; the small message keeps the default, the large one leaves it for a gain."""

    def __init__(self, *, small_us: float = 100.0, large_us: float = 80.0, broken: bool = False) -> None:
        times = {SMALL: small_us, LARGE: large_us}
        crash = Failure(state=TrialState.CRASHED, message="planted")
        super().__init__(
            Machine(noise=0.02),
            time_us=lambda problem, config: times[problem] if config == FAST else 100.0,
            fault=lambda problem, config, batch: crash if broken and config == FAST else None,
        )

    def candidates(self, problem: Problem) -> tuple[Config, ...]:
        return (DEFAULT, FAST)

    def reference(self, problem: Problem) -> Config | None:
        return None


def again(run: Run, backend: Two, budget_s: float | None = None) -> dict[Problem, Recheck]:
    run.tune([SMALL, LARGE], Two(), effort=QUICK)
    table = run.table(simulated_defaults())
    session = begin(run.store).session
    claims = claims_of(table, run.store, backend)
    found = recheck(claims, backend=backend, store=run.store, session=session, budget_s=budget_s, clock=backend.clock)
    assert [one.claim for one in found] == claims
    return {one.claim.problem: one for one in found}


def test_rules_that_hold(run: Run) -> None:
    found = again(run, Two())
    assert {problem: one.drift for problem, one in found.items()} == {SMALL: Drift.HOLDS, LARGE: Drift.HOLDS}
    gain = found[LARGE].gain
    assert gain is not None
    assert gain.median == pytest.approx(1.25, rel=0.03)


@pytest.mark.parametrize(
    ("backend", "small", "large"),
    [
        (Two(large_us=110.0), Drift.HOLDS, Drift.LOST),
        (Two(large_us=50.0), Drift.HOLDS, Drift.DRIFTED),
        (Two(small_us=80.0), Drift.LOST, Drift.HOLDS),
        (Two(broken=True), Drift.HOLDS, Drift.FAILED),
    ],
    ids=["the gain is gone", "the gain has grown", "the kept default is beaten", "the config fails"],
)
def test_rules_that_changed(run: Run, backend: Two, small: Drift, large: Drift) -> None:
    found = again(run, backend)
    assert (found[SMALL].drift, found[LARGE].drift) == (small, large)


def test_what_the_time_does_not_reach_is_not_measured(run: Run) -> None:
    found = again(run, Two(), budget_s=1e-9)
    assert {one.drift for one in found.values()} == {Drift.NOT_MEASURED}


def test_a_confirming_session_decides_no_table(run: Run) -> None:
    run.tune([SMALL, LARGE], Two(), effort=QUICK)
    before = run.table(simulated_defaults())
    again(begin(run.store), Two(large_us=100.0))
    assert before.rules[LARGE.key][1].config == FAST
    newest = begin(run.store)
    claims = claims_of(before, run.store, Two())
    recheck(claims, backend=Two(large_us=100.0), store=run.store, session=newest.session, budget_s=None)
    assert not newest.table(simulated_defaults()).rules
